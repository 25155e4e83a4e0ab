"""NumPy's floating-point warnings: off while a graph runs, and at the user's line in eager code.

One context variable of NumPy's controls both, and the size of NumPy's buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from functools import partial
from types import CodeType
from typing import Any, Final, TypeVar

import numpy as np

from eagerflow.source import replayed, warn

_T = TypeVar("_T")

#: NumPy's name for the warning about NaNs that result from numbers
_INVALID: Final = "invalid value"

#: Elements of NumPy's buffers for rows that are not contiguous. With its default of 8,192 it copies
#: rows of up to several thousand elements, which takes longer than adding them.
_BUFFER: Final = 1024


def _find() -> tuple[ContextVar[Any], Any, Any]:
    """NumPy's context variable for its handling of errors, and two values of it.

    The values are "ignore all", and the same with small buffers. `np.errstate` does the same, but
    takes as long as three small ops.
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
    """Call a function of NumPy's on views of arrays, without copies of their rows.

    For elementwise functions only: sums depend on the size of buffers.
    """
    token = error_state.set(_SMALL_BUFFERS)
    try:
        return function(*args, **places)
    finally:
        error_state.reset(token)


#: NumPy's own settings
_USUAL: Final = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
#: the last state with these settings: that of a program that has not set any, at first
_usual = Context().run(error_state.get)


def _is_usual(state: Any) -> bool:
    """Whether a state has NumPy's own settings; each `np.seterr` makes another state."""
    global _usual
    if np.geterr() != _USUAL or np.geterrcall() is not None:
        return False
    _usual = state
    return True


def warning_at_users_line(kernel: Callable[..., Any], name: str, hint: str) -> Callable[..., Any]:
    """A kernel of NumPy's functions that warns at the user's line, which applies the op.

    NumPy itself would name a line of eagerflow, once for all programs. If a program has changed
    NumPy's state, as with ``np.errstate``, that state applies.

    Args:
        kernel: the kernel.
        name: the name of the op.
        hint: a hint for warnings about NaNs.
    """
    state = Context().run(_state_that_calls, partial(_warn, name, hint))
    get, enter, leave = error_state.get, error_state.set, error_state.reset

    def called(*arrays: Any, **attrs: Any) -> Any:
        now = get()
        if now is not _usual and not _is_usual(now):
            return kernel(*arrays, **attrs)
        token = enter(state)
        try:
            return kernel(*arrays, **attrs)
        finally:
            leave(token)

    return called


def _state_that_calls(function: Callable[[str, int], None]) -> Any:
    """The state in which NumPy calls a function instead of warning."""
    np.seterr(divide="call", over="call", invalid="call")
    np.seterrcall(function)
    return error_state.get()


def _warn(name: str, hint: str, what: str, _flag: int) -> None:
    origin = replayed()
    text = f"{what} encountered in {name}"
    if origin is not None:
        text = f"{what} encountered in the gradient of {origin[0]}, applied at {origin[1]}"
    if what == _INVALID and hint:
        text += f"\n  hint: {hint}"
    warn(text, RuntimeWarning, _CALLED)


_CALLED: Final[CodeType] = warning_at_users_line(abs, "", "").__code__
