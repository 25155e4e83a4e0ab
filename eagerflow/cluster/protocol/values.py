"""Values as heads and frames: arrays of the host, lists of them, numbers, shapes.

Elements lie in a frame as they do in memory, and are never reordered on the way: their order
decides how sums are rounded. The receiver gets an array of its own, which may be written into
like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from eagerflow.cluster.protocol.message_heads import (
    ArrayHead,
    ComplexHead,
    Head,
    ListHead,
    LongHead,
    NumberHead,
    ShapeHead,
)
from eagerflow.core.byte_arrays import pack, unpack
from eagerflow.errors import ProtocolError
from eagerflow.hardware import NullArray
from eagerflow.types import BYTES, DTYPES, DType, as_dtype
from eagerflow_kernels.lists import ListData

#: raw bytes; an array is memory of the receiver's own, which it may keep and write into
Frame = bytes | memoryview | np.ndarray[Any, np.dtype[np.uint8]]


def view_of(frame: Frame) -> memoryview:
    """The bytes of a frame."""
    return frame.data if isinstance(frame, np.ndarray) else memoryview(frame)


_DTYPES: Final[dict[str, DType]] = {**DTYPES, BYTES.name: BYTES}
#: the names of dtypes whose elements are bytes in memory
_NAMES: Final[dict[Any, str]] = {dtype.dtype: name for name, dtype in DTYPES.items()}
_ARRAYS: Final = (np.ndarray, np.generic)
_WORD: Final = 2**63
_LENGTH: Final = 8  # bytes, in packed byte strings
_DIGITS: Final = 4_000
#: bytes up to which Python's own copies are faster than arrays
_SHORT: Final = 256
#: bytes up to which elements are part of the head: each frame is a message of ZeroMQ's
_FEW: Final = 64


def encode_value(value: Any, frames: list[Frame]) -> Head:
    """The head of a value; many elements are appended to ``frames``, as views of its memory.

    Args:
        value: an array of the host, a `ListData`, a `NullArray`, a number of Python, or None.
        frames: the frames of the message so far.

    Raises:
        ProtocolError: the value is none of these.
    """
    if type(value) is np.ndarray and value.ndim < 2 and value.nbytes <= _FEW:
        name = _NAMES.get(value.dtype)
        if name is not None:  # the usual case of a scalar: its elements have but one order
            return ArrayHead(name, value.shape, (), value.tobytes())
    if value is None:
        return None
    if isinstance(value, _ARRAYS):
        return _encode_array(np.asarray(value), frames)
    if isinstance(value, bool | int | float | complex):
        return _encode_number(value)
    if isinstance(value, NullArray):
        return ShapeHead(as_dtype(value.dtype).name, tuple(map(int, value.shape)))
    if isinstance(value, ListData):
        items = sorted(value.items(), key=lambda item: item[0])
        heads = tuple([_encode_array(np.asarray(x), frames) for _, x in items])
        return ListHead(value.size, tuple([i for i, _ in items]), heads)
    raise ProtocolError(
        f"a {type(value).__name__} cannot be sent", expected="arrays, lists of them, numbers"
    )


def _encode_number(value: complex) -> Head:
    if isinstance(value, complex):
        return ComplexHead(value.real, value.imag)
    if isinstance(value, int) and not -_WORD <= value < _WORD:
        digits = f"{value:x}"
        if len(digits) > _DIGITS:
            raise ProtocolError("an int is too large to be sent", given=f"{len(digits)} digits")
        return LongHead(digits)
    return NumberHead(value)


def _encode_array(array: np.ndarray[Any, Any], frames: list[Frame]) -> ArrayHead:
    dtype = BYTES if array.dtype == object else as_dtype(array.dtype)
    if dtype is BYTES:
        frames.append(pack(array))
        return ArrayHead(dtype.name, array.shape)
    if not array.flags.c_contiguous and (0 in array.strides or not _is_dense(array)):
        array = array.copy(order="K")
    if array.flags.c_contiguous:
        frames.append(_elements(array))
        return ArrayHead(dtype.name, array.shape)
    order = _order(array)
    frames.append(_elements(array.transpose(order)))
    return ArrayHead(dtype.name, array.shape, order)


def _elements(array: np.ndarray[Any, Any]) -> Frame:
    if array.nbytes <= _SHORT:
        return array.tobytes()
    # a frame needs no shape, and buffers do not know some dtypes
    return array.reshape(-1).view(np.uint8).data


def _order(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The axes by decreasing distance of their elements in memory."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


def _is_dense(array: np.ndarray[Any, Any]) -> bool:
    return array.transpose(_order(array)).flags.c_contiguous


def decode_value(head: Head, frames: Iterator[Frame]) -> Any:
    """The value of a head, with the next frames in ``frames``.

    Raises:
        ProtocolError: the head and the frames do not fit together.
    """
    if isinstance(head, ArrayHead):
        return decode_array(head, frames)
    if isinstance(head, ListHead):
        return _decode_list(head, frames)
    if isinstance(head, ShapeHead):
        return NullArray(_dtype(head.dtype).dtype, head.shape)
    if isinstance(head, NumberHead):
        return head.value
    if isinstance(head, ComplexHead):
        return complex(head.real, head.imag)
    if isinstance(head, LongHead):
        return int(head.digits, 16)
    return None


def decode_array(head: ArrayHead, frames: Iterator[Frame]) -> np.ndarray[Any, Any]:
    """The array of a head (see `decode_value`)."""
    elements: Frame | None = head.elements
    if elements is None:
        elements = next(frames, None)
    if elements is None:
        raise ProtocolError("the elements of an array are missing", given=str(head))
    return array_of(head, elements)


def array_of(head: ArrayHead, elements: Frame) -> np.ndarray[Any, Any]:
    """The array of a head and its elements (see `decode_value`)."""
    dtype = _DTYPES.get(head.dtype)
    if dtype is None or dtype is BYTES:
        return _decode_bytes(head, view_of(elements))
    shape, order, nbytes = head.shape, head.order, len(elements)
    if order and sorted(order) != list(range(len(shape))):
        raise ProtocolError("the order of axes is none of this shape", given=str(head))
    expected = prod(shape) * dtype.itemsize if shape else dtype.itemsize
    if expected != nbytes:
        raise ProtocolError(
            "the elements of an array do not fit its shape",
            given=f"{nbytes} bytes for {head}",
            expected=f"{expected} bytes",
        )
    if nbytes <= _SHORT:
        memory: Any = bytearray(elements)
    else:
        memory = elements if isinstance(elements, np.ndarray) else _copied(view_of(elements))
    if not order:
        return np.ndarray(shape, dtype.dtype, memory)
    back = sorted(range(len(order)), key=order.__getitem__)
    return np.ndarray([shape[axis] for axis in order], dtype.dtype, memory).transpose(back)


def _copied(data: memoryview) -> np.ndarray[Any, Any]:
    """A copy of some bytes, in memory of its own."""
    made = np.empty(len(data), np.uint8)
    made[:] = np.frombuffer(data, np.uint8)
    return made


def _decode_bytes(head: ArrayHead, data: memoryview) -> np.ndarray[Any, Any]:
    _dtype(head.dtype)  # raises if there is no such dtype
    if prod(head.shape) * _LENGTH > len(data) or head.order:  # checked before memory is allocated
        raise ProtocolError("byte strings do not fit their shape", given=str(head))
    try:
        return unpack(data, head.shape)
    except ValueError as error:
        raise ProtocolError(f"byte strings are damaged: {error}", given=str(head)) from None


def _decode_list(head: ListHead, frames: Iterator[Frame]) -> ListData:
    ascends = all(a < b for a, b in zip(head.indices, head.indices[1:], strict=False))
    fits = not head.indices or head.indices[-1] < head.size
    if len(head.indices) != len(head.items) or not ascends or not fits:
        raise ProtocolError(
            "the places of a list do not fit its size",
            given=f"{len(head.items)} items, {len(head.indices)} places of {head.size}",
        )
    items = [decode_array(item, frames) for item in head.items]
    return ListData(dict(zip(head.indices, items, strict=True)), head.size)


def decode_values(heads: Sequence[Head], frames: Iterator[Frame]) -> list[Any]:
    """The values of heads."""
    return [decode_value(head, frames) for head in heads]


def _dtype(name: str) -> DType:
    dtype = _DTYPES.get(name)
    if dtype is None:
        raise ProtocolError("an unknown dtype", given=name[:80], expected=", ".join(_DTYPES))
    return dtype
