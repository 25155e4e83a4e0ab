"""How attributes of modules differ from those of other objects.

Traces read the file of `Module` as code of the user; here is nothing that they have to know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from opcode import opmap
from types import FrameType
from typing import Any, TypeVar

import eagerflow as ef
from eagerflow.errors import UnknownNameError, VariableError, hide_frames

_S = TypeVar("_S")
_R = TypeVar("_R")


def never_called(getter: Callable[[_S], _R]) -> Callable[[_S], _R]:
    """Let the error for a property, a method in other frameworks, say so where it is called.

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


def keeping_variables(module: Any, name: str, value: object) -> None:
    """Set an attribute of a module, unless a variable would be lost for a value.

    Whoever writes ``net.weight = x`` means to give the parameter a value; it would be trained no
    longer, without a word. PyTorch refuses that, too.

    Raises:
        VariableError: neither a variable, nor a module, nor None is to take its place.
    """
    if isinstance(module.__dict__.get(name), ef.Variable):
        try:
            _check_replacement(type(module).__name__, name, value)
        except BaseException as error:
            hide_frames(error)
            raise
    super(ef.nn.Module, module).__setattr__(name, value)


def _check_replacement(owner: str, name: str, value: object) -> None:
    if value is None or isinstance(value, (ef.Variable, ef.nn.Module)):
        return
    raise VariableError(
        f"{owner}.{name} is a variable, and would be lost for a value",
        given=str(value.type) if isinstance(value, ef.Tensor) else type(value).__name__,
        expected="ef.Variable(...), a module or None",
        hint=f"module.{name}.assign(x) gives it the value; "
        f"to hold a constant in its place: del module.{name} first",
    )
