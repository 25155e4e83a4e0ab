"""Rows of statistics, and lists of them: their texts, and a table in notebooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, Final, SupportsIndex, TypeVar, final, overload

from eagerflow.formatting import bytes_text, seconds_text, table_html, table_lines
from eagerflow.source import Source, cell_name

_Row = TypeVar("_Row", bound="AbstractRow")

#: the most rows of a table, and characters of a text in it
_MOST: Final = 40
_TEXT: Final = 42
#: the fields with numbers of bytes
_BYTES: Final = ("nbytes", "largest")
#: names of numbers and times elsewhere, whose replacements are in `hints/attribute_names.py`
TIMES_ELSEWHERE: Final = (
    "count", "cpu_time", "cpu_time_total", "cumtime", "duration", "elapsed", "ncalls", "num_calls",
    "seconds", "self_cpu_time_total", "time", "tottime",
)  # fmt: skip


class AbstractRow:
    """Base class of rows of statistics, which are dataclasses: times have units in their text."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __repr__(self) -> str:
        texts = [
            f"{f.name}={_text(f.name, getattr(self, f.name), quoted=True)}" for f in _fields(self)
        ]
        return f"{type(self).__name__}({', '.join(texts)})"


@final
class RowTable(list[_Row]):
    """A list of rows of one kind, which prints as a table, in a notebook too."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> _Row: ...
    @overload
    def __getitem__(self, key: slice[Any, Any, Any], /) -> RowTable[_Row]: ...
    def __getitem__(self, key: SupportsIndex | slice[Any, Any, Any], /) -> _Row | RowTable[_Row]:
        if isinstance(key, slice):
            return RowTable(super().__getitem__(key))
        return super().__getitem__(key)

    def __repr__(self) -> str:
        if not self:
            return "[]"
        return "\n".join(
            [*table_lines([_headings(self), *self._cells()], _left(self)), *self._more()]
        )

    def _repr_html_(self) -> str:
        if not self:
            return "[]"
        return table_html(self._more(), _headings(self), self._cells(), _left(self))

    def _cells(self) -> list[list[str]]:
        return [
            [_short(f.name, _text(f.name, getattr(row, f.name))) for f in _fields(row)]
            for row in self[:_MOST]
        ]

    def _more(self) -> list[str]:
        rest = len(self) - _MOST
        return [f"and {rest} more"] if rest > 0 else []


def _fields(row: AbstractRow) -> Sequence[Any]:
    return fields(row)


def _headings(rows: Sequence[AbstractRow]) -> list[str]:
    return [f.name for f in _fields(rows[0])]


def _left(rows: Sequence[AbstractRow]) -> int:
    """The number of columns from the first to the last that is a text."""
    texts = [i for i, f in enumerate(_fields(rows[0])) if isinstance(getattr(rows[0], f.name), str)]
    return max(texts, default=-1) + 1


def _text(name: str, value: object, *, quoted: bool = False) -> str:
    """The text of a field."""
    if isinstance(value, float) and name == "share":
        return f"{value:.1%}"
    if isinstance(value, float) and name == "mean_depth":  # a number of elements
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    if isinstance(value, float):
        return seconds_text(value, precise=True)
    if name in _BYTES and isinstance(value, int):
        return bytes_text(value)
    if isinstance(value, Source):
        return f"{cell_name(value.file)}:{value.line}"
    return repr(value) if quoted else "" if value is None else str(value)


def _short(name: str, text: str) -> str:
    if name in ("file", "source"):
        return os.path.basename(cell_name(text))
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."
