"""Floating-point warnings off, for the length of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

import numpy as np

_T = TypeVar("_T")


def _find() -> tuple[ContextVar[Any], Any]:
    """The context variable in which NumPy keeps what to do about errors, and "ignore all" in it.

    `np.errstate` does the same and takes as long as three small ops.
    """
    context = copy_context()
    context.run(lambda: np.seterr(all="ignore"))
    again = copy_context()
    again.run(lambda: np.seterr(all="warn"))
    changed = [v for v in context if again[v] is not context[v]]
    (variable,) = changed
    return variable, context[variable]


_found: Final = _find()
error_state: Final = _found[0]
QUIET: Final = _found[1]


def quietly(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function with warnings off."""
    token = error_state.set(QUIET)
    try:
        return function(*args)
    finally:
        error_state.reset(token)
