"""Parametrised checks of many rows in one test, which reports every failing row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

__all__ = ["check_each", "in_groups", "names_of"]

_SHOWN = 10  # errors that are shown with their tracebacks
_TOGETHER = 8  # rows in a group

T = TypeVar("T")


def in_groups(rows: Iterable[T], count: int = _TOGETHER) -> list[list[T]]:
    """Rows in groups, each of which shares a test or a trace.

    The overhead of pytest and its workers per test exceeds the time of most rows, so a test of many
    short rows checks a group at a time.
    """
    every = list(rows)
    return [every[i : i + count] for i in range(0, len(every), count)]


def names_of(rows: Iterable[Any]) -> str:
    """The id of a test of these rows: all their names, so that ``-k`` finds each."""
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
