"""NumPy's floating-point warnings off, for the length of a run; and how it walks through arrays.

Both are in one context variable of NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

import numpy as np

_T = TypeVar("_T")


#: Elements of the buffers through which NumPy walks rows that do not lie beside each other. With
#: its 8,192 it copies rows of up to several thousand elements, which takes longer than to add them.
_BUFFER: Final = 1024


def _find() -> tuple[ContextVar[Any], Any, Any]:
    """The context variable in which NumPy keeps what to do about errors, and two values of it.

    They are "ignore all", and that with small buffers. `np.errstate` does the same and takes as
    long as three small ops.
    """
    quiet, small, again = copy_context(), copy_context(), copy_context()
    quiet.run(lambda: np.seterr(all="ignore"))
    small.run(lambda: (np.seterr(all="ignore"), np.setbufsize(_BUFFER)))
    again.run(lambda: np.seterr(all="warn"))
    changed = [v for v in quiet if again[v] is not quiet[v]]
    (variable,) = changed
    return variable, quiet[variable], small[variable]


_found: Final = _find()
error_state: Final = _found[0]
QUIET: Final = _found[1]
_SMALL_BUFFERS: Final = _found[2]


def quietly(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function with warnings off."""
    token = error_state.set(QUIET)
    try:
        return function(*args)
    finally:
        error_state.reset(token)


def row_by_row(function: Callable[..., _T], *args: Any, **places: Any) -> _T:
    """Call a function of NumPy's on arrays that are parts of others, whose rows are not copied.

    It is for functions of single elements: sums depend on the size of buffers.
    """
    token = error_state.set(_SMALL_BUFFERS)
    try:
        return function(*args, **places)
    finally:
        error_state.reset(token)
