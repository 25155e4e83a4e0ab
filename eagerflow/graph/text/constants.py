"""Arrays in graphs: small arrays are literals in the text, large ones are kept beside it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from eagerflow.core.byte_arrays import byte_array, pack, packed_size, unpack
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import array_tensor, as_tensor, bytes_tensor
from eagerflow.hardware import as_device
from eagerflow.types import BYTES, DType, Shape

#: arrays of more elements are kept beside the text
_LITERAL_SIZE: Final = 16
#: so are byte strings of a greater total length
_LITERAL_LENGTH: Final = 256
#: one character for each byte
_ENCODING: Final = "latin-1"


def has_values(tensor: Tensor) -> bool:
    """Whether a tensor has data: null devices know types only."""
    return tensor.device.holds_data


def numbers(tensor: Tensor) -> list[str] | None:
    """The elements in row-major order as literals; None if there are too many.

    Also None where the literals do not give back every bit, as for some NaNs. Bytes are strings of
    JSON, with the character of that code for each byte.
    """
    if tensor.size > _LITERAL_SIZE:
        return None
    array = tensor.numpy().reshape(-1)
    if tensor.dtype is BYTES:
        if tensor.nbytes > _LITERAL_LENGTH:
            return None
        import json  # noqa: PLC0415 - 2 ms of a script's first trace, and few have bytes

        return [json.dumps(x.decode(_ENCODING)) for x in array.tolist()]
    show = _show_complex if tensor.dtype.is_complex else _show_real
    texts = [str(v) for v in array.tolist()]
    if tensor.dtype.is_inexact:
        texts = [show(v) for v in array]
    values = [_read(text) for text in texts]
    again = from_numbers(tensor.dtype, tensor.shape, values).numpy()
    return texts if again.tobytes() == array.tobytes() else None


def _show_real(value: Any) -> str:
    """The shortest text that gives the value back."""
    text = str(value)
    return text if type(value)(float(text)) == value else repr(float(value))


def _show_complex(value: Any) -> str:
    return f"complex({float(value.real)!r}, {float(value.imag)!r})"


def _read(text: str) -> complex:
    if text.startswith("complex("):
        return complex(*map(float, text[len("complex(") : -1].split(", ")))
    return {"True": True, "False": False}[text] if text in ("True", "False") else _number(text)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def from_numbers(dtype: DType, shape: Shape, values: Sequence[Any]) -> Tensor:
    """A tensor in the memory of this process, from its elements in row-major order.

    Bytes come as strings with a character for each byte.
    """
    if dtype is BYTES:
        flat = byte_array([str.encode(text, _ENCODING) for text in values])
        return bytes_tensor(flat.reshape(shape), as_device("cpu:0"))
    flat = as_tensor(list(values), dtype, as_device("cpu:0")).numpy()
    return array_tensor(flat.reshape(shape), dtype, as_device("cpu:0"), copy=None)


def from_bytes(dtype: DType, shape: Shape, data: memoryview) -> Tensor:
    """A tensor in the memory of this process that shares ``data``, its elements as raw bytes.

    Raises:
        ValueError: packed bytes that are no array of this shape.
    """
    device = as_device("cpu:0")
    if dtype is BYTES:
        return bytes_tensor(unpack(data, shape), device)
    if not len(data):
        return from_numbers(dtype, shape, [])
    raw = as_tensor(data, None, device).numpy()
    return array_tensor(raw.view(dtype.dtype).reshape(shape), dtype, device, copy=None)


def to_bytes(tensor: Tensor) -> memoryview:
    """The elements in row-major order as raw bytes; shared with a tensor that has this layout."""
    array = tensor.numpy()
    if tensor.dtype is BYTES:
        return memoryview(pack(array))
    rows = array if array.flags.c_contiguous else array.copy()
    return rows.reshape(-1).view("u1").data


def size_in_bytes(tensor: Tensor) -> int:
    """The length of the result of `to_bytes`."""
    return packed_size(tensor.numpy()) if tensor.dtype is BYTES else tensor.nbytes


def content_name(tensor: Tensor) -> str:
    """A name derived from dtype, shape and elements: equal arrays have equal names."""
    digest = blake2b(f"{tensor.dtype.short}{tensor.shape}:".encode(), digest_size=8)
    digest.update(to_bytes(tensor))
    return f"a{digest.hexdigest()}"
