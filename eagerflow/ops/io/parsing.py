"""Decoding of bytes: raw memory, text numbers, CSV, images."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Final, Literal

from eagerflow.core.op import bind, bind_several, define
from eagerflow.core.op_records.batch_rules import aligned, each_row
from eagerflow.core.op_records.cost_formulas import per_input
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.dims import unknown
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.ops.rules.arguments import check_choice
from eagerflow.ops.rules.promotion import known_number
from eagerflow.ops.rules.type_rules import BYTE_STRINGS, check_kind
from eagerflow.types import BYTES, DTYPES, DType, DTypeLike, TensorType, as_dtype, number_dtype

_CHANNELS: Final = (None, 1, 3, 4)


@of_family(MOVING)
def _length_type(x: TensorType) -> TensorType:
    check_kind(x, BYTE_STRINGS)
    return x.like(dtype=DTYPES["int64"])


_byte_length = define("byte_length", infer=_length_type, vjp=(None,), batch=aligned)


def length(x: TensorLike, /) -> Tensor:
    """The number of bytes of each element, int64.

    Args:
        x: bytes of any shape.

    >>> ef.io.length([b"", b"cat", b"horse"])
    Tensor([0, 3, 5], i64[3]@cpu:0)
    """
    return bind(_byte_length, tensor_of(x))


# --- raw memory --------------------------------------------------------------------------------


@of_family(MOVING)
def _raw_type(x: TensorType, *, dtype: DType, big_endian: bool) -> TensorType:
    check_kind(x, BYTE_STRINGS)
    size = unknown("k", "the number of elements depends on the lengths of the bytes")
    return x.like(shape=(*x.shape, size), dtype=dtype)


_decode_raw = define("decode_raw", infer=_raw_type, vjp=(None,), batch=each_row)


def decode_raw(
    x: TensorLike, /, dtype: DTypeLike, *, byte_order: Literal["little", "big"] = "little"
) -> Tensor:
    """Decode bytes as the memory of elements, such as an array written without a header.

    Args:
        x: bytes of any shape, all of one length.
        dtype: dtype of the elements.
        byte_order: order of the bytes of an element.

    Returns:
        ``[..., k]``: the shape of ``x`` and an axis of elements.

    Raises:
        RecordError: the lengths differ, or are no multiple of the size of an element.
        DTypeError: the dtype is bytes.

    >>> ef.io.decode_raw([b"ab", b"cd"], ef.uint8)
    Tensor([[ 97,  98],
            [ 99, 100]], u8[2,2]@cpu:0)
    """
    check_choice("decode_raw", byte_order, ("little", "big"), "a byte order")
    big = byte_order == "big"
    return bind(_decode_raw, tensor_of(x), dtype=number_dtype(dtype), big_endian=big)


# --- numbers as text ---------------------------------------------------------------------------


@of_family(MOVING)
def _parsed_type(x: TensorType, *, dtype: DType) -> TensorType:
    check_kind(x, BYTE_STRINGS)
    return x.like(dtype=dtype)


_parse_numbers = define("parse_numbers", infer=_parsed_type, vjp=(None,), batch=each_row)


def _written_dtype(what: str, dtype: DTypeLike) -> DType:
    number_type = number_dtype(dtype)
    if not (number_type.is_integer or number_type.is_floating):
        raise DTypeError(
            f"{what}: {number_type.name} has no written form",
            expected="an integer or floating dtype",
        )
    return number_type


def parse_numbers(x: TensorLike, /, dtype: Any = "float32") -> Tensor:
    r"""Parse numbers from text, such as ``b"-1.5e3"``, ``b" 7\n"`` or ``b"inf"``.

    Args:
        x: bytes of any shape.
        dtype: dtype of the numbers. Floating numbers are read in double precision and rounded.

    Raises:
        RecordError: an element is no number, or does not fit the dtype; the error names it.
        DTypeError: the dtype is neither integer nor floating.

    >>> ef.io.parse_numbers([b"1", b"2.5"])
    Tensor([1. , 2.5], f32[2]@cpu:0)
    >>> ef.io.parse_numbers([b"1", b"two"], ef.int64)
    Traceback (most recent call last):
    eagerflow.errors.RecordError: parse_numbers: element 1 is no integer: b'two'
    ...
    """
    number_type = _written_dtype("parse_numbers", dtype)
    return bind(_parse_numbers, tensor_of(x), dtype=number_type)


# --- CSV ---------------------------------------------------------------------------------------


@of_family(MOVING)
def _csv_type(
    x: TensorType, *, dtypes: Sequence[DType], defaults: Sequence[Any], delimiter: str
) -> tuple[TensorType, ...]:
    check_kind(x, BYTE_STRINGS)
    return tuple([x.like(dtype=dtype) for dtype in dtypes])


_decode_csv = define("decode_csv", infer=_csv_type, vjp=(None,), outputs=None, batch=each_row)


def decode_csv(
    records: TensorLike,
    /,
    dtypes: Sequence[Any],
    *,
    defaults: Sequence[Any] | None = None,
    delimiter: str = ",",
) -> tuple[Tensor, ...]:
    """Decode comma-separated values: the columns of a table from its rows.

    Fields in double quotes may contain delimiters, line ends and doubled quotes.

    Args:
        records: bytes of any shape, one row per element.
        dtypes: dtypes of the columns: integer, floating, or bytes.
        defaults: for each column the value of empty fields, or None: empty fields are then an
            error (for bytes, empty byte strings).
        delimiter: one character between fields.

    Returns:
        A tensor for each column, of the shape of ``records``.

    Raises:
        RecordError: a row has another number of fields, or a field does not fit its dtype; the
            error names row and field.
        TensorValueError: dtypes and defaults differ in number, or the delimiter is not valid.

    Source: RFC 4180, Common Format and MIME Type for Comma-Separated Values (2005).

    >>> names, ages = ef.io.decode_csv([b"ann,41", b"bob,"], ["bytes", "i64"], defaults=[None, 0])
    >>> names, ages
    (Tensor([b'ann', b'bob'], bytes[2]@cpu:0), Tensor([41,  0], i64[2]@cpu:0))
    """
    column_types = tuple([
        BYTES if as_dtype(d) is BYTES else _written_dtype("decode_csv", d) for d in dtypes
    ])  # fmt: skip
    values: Sequence[Any] = [None] * len(column_types) if defaults is None else list(defaults)
    if not column_types or len(values) != len(column_types):
        raise TensorValueError(
            "decode_csv: each column needs one dtype, and one default if there are any",
            given=f"{len(column_types)} dtypes, {len(values)} defaults",
        )
    if len(delimiter) != 1 or delimiter in '\r\n"' or ord(delimiter) > 0xFF:
        raise TensorValueError(f"decode_csv: delimiter={delimiter!r}", expected="one character")
    return bind_several(
        _decode_csv,
        tensor_of(records),
        dtypes=column_types,
        defaults=tuple([default_of(d, v) for d, v in zip(column_types, values, strict=True)]),
        delimiter=delimiter,
    )


def default_of(dtype: DType, value: Any) -> Any:
    """A default as an attribute: a number or bytes that the dtype can hold, or None."""
    return None if value is None else as_tensor(known_number(value), dtype).item()


# --- images ------------------------------------------------------------------------------------


@of_family(MOVING)
def _image_type(
    x: TensorType, *, channels: int | None, dtype: DType, size: tuple[int, int] | None
) -> TensorType:
    check_kind(x, BYTE_STRINGS)
    why = "the size of a picture depends on its bytes"
    height, width = size or (unknown("h", why), unknown("w", why))
    depth = channels or unknown("c", "the number of channels depends on the bytes of a picture")
    return x.like(shape=(*x.shape, height, width, depth), dtype=dtype)


_decode_image = define(
    "decode_image", infer=_image_type, vjp=(None,), cost=per_input(2e6), batch=each_row
)


def decode_image(
    contents: TensorLike,
    /,
    *,
    channels: int | None = 3,
    dtype: Any = "uint8",
    size: tuple[int, int] | None = None,
) -> Tensor:
    """Decode images: PNG, JPEG, and any other format that Pillow reads (``eagerflow[data]``).

    Args:
        contents: the bytes of an image; or bytes of any shape, of images of one size.
        channels: 1 for grey, 3 for red, green and blue, 4 with opacity; None for the number of
            channels of the image.
        dtype: uint8, or a floating dtype, for numbers from 0 to 1.
        size: height and width to resize to, bilinearly; None keeps the size.

    Returns:
        ``[..., height, width, channels]``.

    Raises:
        RecordError: an element is no image, or is damaged, or the sizes differ.
        SettingError: Pillow is not installed.
        TensorValueError: ``channels`` is not valid.
        DTypeError: the dtype is neither uint8 nor floating.
        ShapeError: ``size`` is not valid.

    >>> import io
    >>> from PIL import Image
    >>> buffer = io.BytesIO()
    >>> Image.new("RGB", (4, 2), (255, 0, 0)).save(buffer, "PNG")
    >>> ef.io.decode_image(buffer.getvalue()).shape
    (2, 4, 3)
    >>> ef.io.decode_image(buffer.getvalue(), channels=1, size=(1, 1), dtype=ef.float32)
    Tensor([[[0.29803923]]], f32[1,1,1]@cpu:0)
    """
    pixel_type = number_dtype(dtype)
    depth = None if channels is None else index(channels)
    if depth not in _CHANNELS:
        raise TensorValueError(f"decode_image: channels={depth}", expected="1, 3, 4 or None")
    if not pixel_type.is_floating and pixel_type.name != "uint8":
        raise DTypeError(
            f"decode_image: {pixel_type.name} is not for pictures",
            expected="u8 or a floating dtype",
        )
    sides: Any = None if size is None else tuple(map(index, size))
    if sides is not None and (len(sides) != 2 or min(sides) < 1):
        raise ShapeError(f"decode_image: size={sides}", expected="(height, width), 1 or more")
    return bind(_decode_image, tensor_of(contents), channels=depth, dtype=pixel_type, size=sides)
