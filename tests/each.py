"""Many rows in one test, which tells all that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

__all__ = ["check_each", "in_groups", "names_of"]

_SHOWN = 10  # errors with their tracebacks
_TOGETHER = 8  # rows of a group

T = TypeVar("T")


def in_groups(rows: Iterable[T], count: int = _TOGETHER) -> list[list[T]]:
    """Rows that share a test or a trace.

    What pytest and its workers do for each test takes longer than most rows do: a test of many
    short rows has a group of them.
    """
    every = list(rows)
    return [every[i : i + count] for i in range(0, len(every), count)]


def names_of(rows: Iterable[Any]) -> str:
    """The name of a test of these rows, which has those of all: ``-k`` finds each."""
    return " ".join(map(_name, rows))


def check_each(rows: Iterable[Any], check: Callable[..., None]) -> None:
    """Call ``check`` with each row.

    Args:
        rows: its arguments: tuples, or single ones.
        check: raises an error where a row is wrong.

    Raises:
        BaseExceptionGroup: with the errors of the first rows that are wrong; its message names all.
    """
    errors: list[BaseException] = []
    wrong: list[str] = []
    for row in rows:
        arguments = row if type(row) is tuple else (row,)
        try:
            check(*arguments)
        except (Exception, pytest.fail.Exception) as error:
            wrong.append(", ".join(map(_name, arguments)))
            error.add_note(f"row: {wrong[-1]}")
            errors.append(error)
    if errors:
        raise BaseExceptionGroup("; ".join(wrong), errors[:_SHOWN])


def _name(argument: object) -> str:
    names = (getattr(argument, name, None) for name in ("id", "name", "__name__"))
    return str(next((name for name in names if name is not None), argument))
