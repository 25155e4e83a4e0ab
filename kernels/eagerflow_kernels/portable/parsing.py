"""Kernels that parse numbers from bytes. Inputs hold Python's bytes, so ``xp`` is NumPy."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, Final

from eagerflow_kernels.records import DamagedError
from eagerflow_kernels.table import portable

Array = Any  # of objects, which are bytes, or of numbers

_SHOWN: Final = 40  # bytes of bad data in messages


def element(x: Array, i: int) -> str:
    """The name of element ``i`` of an array, in row-major order, for messages."""
    if not x.ndim:
        return "the element"
    positions: list[int] = []
    for size in reversed(x.shape):
        i, position = divmod(i, size)
        positions.insert(0, position)
    return f"element {positions[0] if len(positions) == 1 else tuple(positions)}"


def shown(data: bytes) -> str:
    """The beginning of bytes, for messages."""
    return repr(data) if len(data) <= _SHOWN else f"{data[:_SHOWN]!r}… ({len(data)} bytes)"


@portable("byte_length")
def byte_length(xp: Any, x: Array) -> Array:
    """Number of bytes of each element."""
    return xp.asarray(list(map(len, x.reshape(-1).tolist())), dtype="int64").reshape(x.shape)


@portable("decode_raw")
def decode_raw(xp: Any, x: Array, *, dtype: Any, big_endian: bool) -> Array:
    """The numbers whose memory representation the bytes are, along a new last axis."""
    contents = x.reshape(-1).tolist()
    size = len(contents[0]) if contents else 0
    for i, data in enumerate(contents):
        if len(data) != size:
            raise DamagedError(f"{element(x, i)} has {len(data)} bytes, {element(x, 0)} has {size}")
    if size % dtype.itemsize:
        raise DamagedError(
            f"{size} bytes are not a multiple of the {dtype.itemsize} of {dtype.name}"
        )
    raw = xp.frombuffer(b"".join(contents), xp.uint8)
    shape = (*x.shape, size // dtype.itemsize)
    if dtype.category == "bool":
        return (raw != 0).reshape(shape)
    part = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if big_endian and part > 1:
        raw = raw.reshape(-1, part)[:, ::-1].reshape(-1)
    return raw.copy().view(dtype.dtype).reshape(shape)


# --- numbers as text --------------------------------------------------------------------------


def _number(text: bytes, dtype: Any) -> Any:
    """The number of a text; raises ValueError if it is no number."""
    if b"_" in text:  # Python would take it
        raise ValueError
    return int(text) if dtype.is_integer else float(text)


def _numbers(xp: Any, texts: Sequence[bytes], dtype: Any, name: Callable[[int], str]) -> Array:
    values = []
    limits = xp.iinfo(dtype.dtype) if dtype.is_integer else None
    for i, text in enumerate(texts):
        try:
            value = _number(text, dtype)
        except ValueError:
            kind = "integer" if dtype.is_integer else "number"
            raise DamagedError(f"{name(i)} is no {kind}: {shown(text)}") from None
        if limits is not None and not limits.min <= value <= limits.max:
            raise DamagedError(f"{name(i)} does not fit into {dtype.name}: {shown(text)}")
        values.append(value)
    wide = dtype.dtype if dtype.is_integer else "float64"
    with xp.errstate(over="ignore"):
        return xp.asarray(values, dtype=wide).astype(dtype.dtype, copy=False)


@portable("parse_numbers")
def parse_numbers(xp: Any, x: Array, *, dtype: Any) -> Array:
    """The numbers that the elements have as text."""
    texts = x.reshape(-1).tolist()
    return _numbers(xp, texts, dtype, lambda i: element(x, i)).reshape(x.shape)


# --- rows of tables ---------------------------------------------------------------------------


def _fields(x: Array, i: int, row: bytes, columns: int, delimiter: str) -> list[bytes]:
    """The fields of one row; quoted ones may hold delimiters and ends of lines."""
    text = io.StringIO(row.decode("latin-1"), newline="")
    try:
        rows = list(csv.reader(text, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise DamagedError(f"{element(x, i)} is not a row: {error}: {shown(row)}") from None
    fields = rows[0] if rows else [""]
    if len(rows) > 1 or len(fields) != columns:
        given = f"{len(rows)} rows" if len(rows) > 1 else f"{len(fields)} fields"
        raise DamagedError(f"{element(x, i)} has {given} instead of {columns} fields: {shown(row)}")
    return [field.encode("latin-1") for field in fields]


@portable("decode_csv")
def decode_csv(
    xp: Any, x: Array, *, dtypes: tuple[Any, ...], defaults: tuple[Any, ...], delimiter: str
) -> tuple[Array, ...]:
    """The columns of a table whose rows are the elements."""
    rows = [
        _fields(x, i, row, len(dtypes), delimiter) for i, row in enumerate(x.reshape(-1).tolist())
    ]
    return tuple(
        [_column(xp, x, [row[k] for row in rows], k, *pair)
         for k, pair in enumerate(zip(dtypes, defaults, strict=True))]
    )  # fmt: skip


def _column(xp: Any, x: Array, texts: list[bytes], k: int, dtype: Any, default: Any) -> Array:
    def name(i: int) -> str:
        return f"field {k} of {element(x, i)}"

    empty = [i for i, text in enumerate(texts) if not text]
    if dtype.category == "bytes":
        column = xp.empty(len(texts), object)
        for i, text in enumerate(texts):
            column[i] = text if text or default is None else default
        return column.reshape(x.shape)
    if empty and default is None:
        raise DamagedError(f"{name(empty[0])} is empty and has no default")
    filled = [text or b"0" for text in texts]
    column = _numbers(xp, filled, dtype, name)
    if empty:
        column[empty] = default
    return column.reshape(x.shape)
