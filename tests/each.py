"""Many rows in one test, which tells all that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["check_each"]

_SHOWN = 10  # errors with their tracebacks


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
