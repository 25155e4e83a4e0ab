"""Ctrl-C raised at chosen places within a call."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["ctrl_c_raises", "interrupted", "places"]


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Ctrl-C raises, even where the shell that started the tests has it ignored.

    It may come after NumPy's warnings were switched off for a step, before the block that switches
    them on again. So they are as before at the end, for later tests.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with np.errstate():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted(call: Callable[[], Any], after: int) -> Any:
    """The result of a call with Ctrl-C at the ``after``-th place where Python checks for signals.

    Such places are entries of functions and returns of C functions. Generator expressions are
    left out, since an exception raised while one is being closed is swallowed.
    """
    left = after

    def press(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        left -= _is_place(frame, event)
        if left == 0:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    return _profiled(call, press)


def places(call: Callable[[], Any]) -> int:
    """Returns the number of places of a call at which `interrupted` can raise Ctrl-C."""
    number = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal number
        number += _is_place(frame, event)

    _profiled(call, count)
    return number


def _is_place(frame: Any, event: str) -> bool:
    code = frame.f_code
    inside = "/eagerflow" in code.co_filename and code.co_name != "<genexpr>"
    return inside and event in ("call", "c_return")


def _profiled(call: Callable[[], Any], look: Callable[[Any, str, Any], None]) -> Any:
    sys.setprofile(look)
    try:
        return call()
    finally:
        sys.setprofile(None)
