"""Properties that tell when they are called, as the methods that they are in other frameworks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from opcode import opmap
from types import FrameType
from typing import TypeVar

from eagerflow.errors import UnknownNameError

_S = TypeVar("_S")
_R = TypeVar("_R")


def never_called(getter: Callable[[_S], _R]) -> Callable[[_S], _R]:
    """Let the error for a property say so that is called as if it were a method.

    Python would say that a dict cannot be called. The getter runs before the call, but can look at
    the instruction that reads the attribute; where that does not tell, Python's error remains.

    Args:
        getter: of the property; it gives a dict of variables by path.
    """
    name = getter.__name__

    @wraps(getter)
    def get(self: _S) -> _R:
        if _is_called(sys._getframe(1)):
            raise UnknownNameError(
                f"{type(self).__name__} has no method {name!r}",
                hint=f"{name} is a dict of variables by path: leave out the brackets; "
                f"{name}.values() gives the variables alone, and `trainable` is the dict of those "
                "that are not frozen",
            )
        return getter(self)

    return get


def _is_called(frame: FrameType) -> bool:
    """Whether the attribute that ``frame`` is about to read is called at once: ``x.name()``."""
    code, at = frame.f_code.co_code, frame.f_lasti
    method = opmap.get("LOAD_METHOD", 256)
    if method < 256:  # greater numbers are the compiler's own
        return code[at] == method
    return code[at] == opmap["LOAD_ATTR"] and bool(code[at + 1] & 1)  # since Python 3.12
