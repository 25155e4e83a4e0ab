"""Arrays of dtype bytes: NumPy arrays of Python's ``bytes``, which are immutable and of any length.

The packed form, for files: the length of each element (8 bytes, little-endian), in row-major order,
followed by the elements without gaps.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eagerflow.errors import DTypeError, TensorValueError
from eagerflow.formatting import kind_of

_LENGTH: Final = np.dtype("<i8")

Array = np.ndarray[Any, Any]


def byte_array(value: Any) -> Array:
    """A new array from bytes, nested sequences of bytes, or an array of bytes.

    Raises:
        DTypeError: an element is not bytes.
        TensorValueError: ragged sequences.
    """
    if isinstance(value, bytes):
        return np.array(bytes(value), object)
    if isinstance(value, np.ndarray) and value.dtype.kind == "S":
        return value.astype(object)
    if isinstance(value, np.ndarray) and value.dtype.kind == "U" and not value.size:
        _as_bytes("")
    try:
        array = np.array(value, object)
    except ValueError as error:
        raise TensorValueError(
            f"these sequences do not make an array: {error}",
            expected="bytes, nested to equal lengths",
        ) from None
    flat = array.reshape(-1)
    for index, x in enumerate(flat):
        if type(x) is not bytes:
            flat[index] = _as_bytes(x)
    return array


def _as_bytes(x: Any) -> bytes:
    if isinstance(x, bytes):  # NumPy's
        return bytes(x)
    if isinstance(x, str):
        shown = x if len(x) < 20 else f"{x[:20]}…"
        raise DTypeError(
            "text cannot be a tensor, its bytes can",
            given=repr(shown),
            hint="text.encode() gives its bytes; numpy.char.encode(array) those of an array",
        )
    if isinstance(x, (list, tuple)):
        raise TensorValueError(
            "these sequences do not make an array", expected="bytes, nested to equal lengths"
        )
    raise DTypeError(
        "the elements are not all bytes",
        given=f"{kind_of(x)} among the elements",
        expected="a tensor, a number, bytes, an array, or nested sequences of one kind",
    )


def byte_count(array: Array) -> int:
    """The total length of all elements."""
    return sum(map(len, array.reshape(-1).tolist()))


def packed_size(array: Array) -> int:
    """The length of the packed form.

    >>> from eagerflow.extending import packed_size
    >>> packed_size(ef.tensor([b"a", b"bcd"]).numpy())
    20
    """
    return array.size * _LENGTH.itemsize + byte_count(array)


def pack(array: Array) -> bytes:
    """The packed form of an array of bytes, as `eagerflow.Tensor.numpy` gives it.

    >>> from eagerflow.extending import pack
    >>> pack(ef.tensor([b"a", b"bcd"]).numpy())[-4:]
    b'abcd'
    """
    items = array.reshape(-1).tolist()
    lengths = np.fromiter(map(len, items), _LENGTH, len(items))
    return b"".join([lengths.tobytes(), *items])


def unpack(data: memoryview | bytes | bytearray, shape: tuple[int, ...]) -> Array:
    """The array of that shape whose packed form is ``data``.

    Raises:
        ValueError: ``data`` is the packed form of no array of that shape.

    >>> from eagerflow.extending import pack, unpack
    >>> ef.tensor(unpack(pack(ef.tensor([b"a", b"bcd"]).numpy()), (2,))).tolist()
    [b'a', b'bcd']
    """
    view = memoryview(data).cast("B")
    out = np.empty(shape, object)
    head = out.size * _LENGTH.itemsize
    if len(view) < head:
        raise ValueError("packed bytes are too short")
    lengths = np.frombuffer(view[:head], _LENGTH).tolist()
    if min(lengths, default=0) < 0 or head + sum(lengths) != len(view):
        raise ValueError("the lengths of packed bytes do not add up")
    flat = out.reshape(-1)
    start = head
    for index, length in enumerate(lengths):
        flat[index] = bytes(view[start : start + length])
        start += length
    return out
