"""The format of messages to views: tables of numbers and texts, as bytes.

A message is, all little-endian: ``u32`` 0x31464645 ("EFF1"), ``u32`` flags (1: discard all earlier
messages), ``u32`` sequence number, ``u32`` number of tables, ``f64`` the time. Then the tables:
``u32`` number of the table (its index in `TABLES`), ``u32`` rows, and its columns in order, each
padded with zeros to a multiple of 8 bytes. A column of texts is ``u32`` for the end of each text,
padded, and the bytes of all in UTF-8, padded; a column of bytes likewise.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, final

import numpy as np

MAGIC: Final = 0x31464645
#: the flag of a message after which earlier ones are discarded
WHOLE: Final = 1
_HEAD: Final = 24

_TEXTS: Final = ("text", "bytes")
#: of NumPy's types in `struct`
_CODES: Final = {"u4": "I", "i4": "i", "f4": "f", "f8": "d"}

Row = tuple[Any, ...]


@final
@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a table.

    Attributes:
        name: the name of the table.
        kind: for ``"rows"`` a message has the changed rows, by key; for a ``"list"`` all rows,
            which replace the previous ones; for a ``"log"`` the new rows.
        key: number of columns, from the first, that identify a row.
        columns: names and types: a type of NumPy's, ``text`` or ``bytes``.
        fixed: bytes of a row; 0 if they depend on texts.
    """

    name: str
    kind: Literal["rows", "list", "log"]
    key: int
    columns: tuple[tuple[str, str], ...]
    fixed: int

    def width(self, row: Row) -> int:
        """Bytes that a row takes at most."""
        return self.fixed or sum(
            4 + len(value) * (1 if kind == "bytes" else 4) if kind in _TEXTS else int(kind[1:])
            for value, (_, kind) in zip(row, self.columns, strict=True)
        )


def _schema(name: str, kind: Literal["rows", "list", "log"], key: int, columns: str) -> Schema:
    pairs = [(column, kind) for column, _, kind in (c.partition(":") for c in columns.split())]
    texts = any(kind in _TEXTS for _, kind in pairs)
    fixed = 0 if texts else sum(int(kind[1:]) for _, kind in pairs)
    return Schema(name, kind, key, tuple(pairs), fixed)


#: `names` first: other tables refer to texts by its numbers
TABLES: Final = (
    _schema("names", "rows", 1, "name:u4 text:text"),
    _schema("executables", "rows", 1, "executable:u4 name:u4 nodes:u4 structure:u4"),
    _schema("structures", "log", 0, "structure:u4 piece:u4 pieces:u4 data:bytes"),
    _schema("steps", "rows", 1,
            "executable:u4 count:f8 seconds:f8 last:f8 rate:f4 p50:f4 p95:f4 p99:f4 observed:u4"),
    _schema("timeline", "log", 0, "executable:u4 start:f8 stop:f8 thread:f8"),
    _schema("threads", "rows", 1, "thread:f8 name:u4"),
    _schema("regions", "log", 0,
            "executable:u4 region:u4 start:f8 stop:f8 thread:f8 device:u4"),
    _schema("tasks", "log", 0, "task:u4 health:u4 time:f8"),
    _schema("moves", "log", 0,
            "executable:u4 node:i4 start:f8 stop:f8 thread:f8 origin:u4 device:u4 bytes:f8"),
    _schema("pauses", "log", 0,
            "executable:u4 node:i4 start:f8 stop:f8 thread:f8 queue:u4 operation:u4"),
    _schema("curve", "rows", 2, "executable:u4 start:f8 count:u4 mean:f4 least:f4 largest:f4"),
    _schema("nodes", "rows", 2,
            "executable:u4 node:u4 seconds:f4 p95:f4 share:f4 runs:f4 steps:u4 seen:f8"),
    _schema("places", "list", 0,
            "thread:f8 executable:u4 node:i4 doing:u4 since:f8 frame:u4 iteration:i4 queue:u4 "
            "progress:f4"),
    _schema("trail", "log", 0, "time:f8 thread:f8 executable:u4 node:i4"),
    _schema("queues", "rows", 1,
            "queue:u4 resource:u4 depth:u4 capacity:u4 producers:u4 consumers:u4 closed:u4 "
            "put:f8 taken:f8"),
    _schema("waits", "rows", 5,
            "queue:u4 operation:u4 executable:u4 node:i4 runner:u4 count:f8 seconds:f8"),
    _schema("transfers", "rows", 4,
            "origin:u4 device:u4 executable:u4 node:i4 count:f8 bytes:f8 seconds:f8"),
    _schema("retraces", "log", 0, "name:u4 reason:u4 start:f8 seconds:f4"),
    _schema("values", "rows", 2,
            "executable:u4 node:u4 shape:u4 dtype:u4 size:f8 looked_at:f8 least:f8 largest:f8 "
            "mean:f8 nans:f8 infs:f8 histogram:u4 seen:f8"),
    _schema("cost", "list", 0, "share:f4 observed:f8 dropped:f8"),
    _schema("panels", "rows", 1, "panel:u4 text:text"),
    _schema("summary", "list", 0, "busiest:u4 sentence:text undecided:text"),
    _schema("diagnoses", "list", 0,
            "kind:text text:text executable:u4 node:i4 queue:u4 device:u4 path:text"),
)  # fmt: skip
NUMBERS: Final = {schema.name: number for number, schema in enumerate(TABLES)}


def encode(
    sequence: int, time: float, tables: dict[str, Sequence[Row]], *, whole: bool = False
) -> bytes:
    """A message with these tables."""
    flags = WHOLE if whole else 0
    parts = [struct.pack("<4Id", MAGIC, flags, sequence & 0xFFFFFFFF, len(tables), time)]
    for name, rows in tables.items():
        number = NUMBERS[name]
        parts.append(struct.pack("<2I", number, len(rows)))
        kinds = TABLES[number].columns
        columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
        for column, (_, kind) in zip(columns, kinds, strict=True):
            parts += _texts(column) if kind in _TEXTS else [_numbers(column, kind)]
    return b"".join(parts)


@final
@dataclass(frozen=True, slots=True)
class TableMessage:
    """A decoded message.

    Attributes:
        sequence: its number.
        time: when it was made.
        whole: whether earlier messages are discarded.
        tables: the rows by the name of the table.
    """

    sequence: int
    time: float
    whole: bool
    tables: dict[str, list[Row]]


def decode(data: bytes) -> TableMessage:
    """The inverse of `encode`.

    Raises:
        ValueError: the bytes are no message, or too few.
    """
    if len(data) < _HEAD:
        raise ValueError(f"a message has at least {_HEAD} bytes, this has {len(data)}")
    magic, flags, sequence, count = np.frombuffer(data, "<u4", 4).tolist()
    if magic != MAGIC:
        raise ValueError(f"this is not a message: it begins with {data[:4]!r}")
    (time,) = np.frombuffer(data, "<f8", 1, 16).tolist()
    position, tables = _HEAD, {}
    for _ in range(count):
        number, rows = np.frombuffer(data, "<u4", 2, position).tolist()
        position += 8
        columns: list[list[Any]] = []
        for _, kind in TABLES[number].columns:
            column, position = _column(data, kind, rows, position)
            columns.append(column)
        tables[TABLES[number].name] = list(zip(*columns, strict=True))
    return TableMessage(sequence, time, bool(flags & WHOLE), tables)


def _column(data: bytes, kind: str, rows: int, position: int) -> tuple[list[Any], int]:
    if kind not in _TEXTS:
        width = int(kind[1:])
        values = np.frombuffer(data, f"<{kind}", rows, position).tolist()
        return values, position + _multiple(width * rows)
    ends = [0, *np.frombuffer(data, "<u4", rows, position).tolist()]
    position += _multiple(4 * rows)
    raw = [data[position + a : position + b] for a, b in pairwise(ends)]
    texts = [r.decode() for r in raw] if kind == "text" else raw
    return list(texts), position + _multiple(ends[-1])


def _numbers(column: Sequence[Any], kind: str) -> bytes:
    # a column of a message is short, and `struct` several times as fast as an array of NumPy
    padding = "4x" if kind[1:] == "4" and len(column) % 2 else ""
    try:
        return struct.pack(f"<{len(column)}{_CODES[kind]}{padding}", *column)
    except OverflowError:  # beyond single precision
        return _padded(np.array(column, f"<{kind}").tobytes())


def _texts(column: Sequence[str | bytes]) -> list[bytes]:
    raw = [text.encode() if isinstance(text, str) else text for text in column]
    ends = np.cumsum([len(r) for r in raw], dtype=np.int64)
    return [_padded(ends.astype("<u4").tobytes()), _padded(b"".join(raw))]


def _multiple(length: int) -> int:
    return -(-length // 8) * 8


def _padded(data: bytes) -> bytes:
    return data.ljust(_multiple(len(data)), b"\0")
