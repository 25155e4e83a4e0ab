"""Attributes of modules: properties that are not methods, and assignments that are refused.

Traces follow the file of `Module` as user code; the code here is not relevant to them.
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
    """A property whose call, as of a method in other frameworks, raises a helpful error.

    Python would report that a dict is not callable. The getter runs before the call, but can look
    at the instruction after the read; where that is unclear, Python's error remains.

    Args:
        getter: the getter of the property, which returns a dict of variables by path.
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
    if method < 256:  # greater numbers are pseudo-instructions of the compiler
        return code[at] == method
    return code[at] == opmap["LOAD_ATTR"] and bool(code[at + 1] & 1)  # since Python 3.12


def keeping_variables(module: Any, name: str, value: object) -> None:
    """Set an attribute of a module, unless a variable would be replaced by a value.

    ``net.weight = x`` is meant to assign to the parameter; instead it would silently be trained
    no longer. PyTorch refuses this, too.

    Raises:
        VariableError: the new value is neither a variable, nor a module, nor None.
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
