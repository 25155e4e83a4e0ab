"""Ctrl-C at chosen places of a call."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ctrl_c_raises", "interrupted"]


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Ctrl-C raises, even where the shell that started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted(call: Callable[[], Any], after: int) -> Any:
    """Call with Ctrl-C at the ``after``-th place where Python looks for it; what it gave.

    It does so where functions begin, and after calls of C functions.
    """
    left = after

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("call", "c_return") and "/eagerflow" in frame.f_code.co_filename:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(count)
    try:
        return call()
    finally:
        sys.setprofile(None)
