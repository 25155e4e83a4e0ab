"""Code that may set an attribute otherwise than by a statement that names it."""

from __future__ import annotations

from abc import ABC
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, Final, Generic, Protocol

from eagerflow.autograph.conversion.convert import is_library_class
from eagerflow.capture.bytecode import plain

__all__ = ["set_by_library", "sets_computed_names"]

#: names with which code sets attributes by names that do not show in it
_COMPUTED: Final = frozenset({"vars", "exec", "eval", "globals", "__dict__", "__globals__"})
#: and by names that are arguments
_BY_NAME: Final = frozenset({"setattr", "delattr", "__setattr__", "__delattr__"})
#: classes of libraries whose methods set no attributes
_WITHOUT_SETTERS: Final = (object, ABC, Generic, Protocol, SimpleNamespace)


def set_by_library(owner: Any, name: str) -> bool:
    """Whether methods or descriptors of a library may set an attribute: their code is not seen."""
    if isinstance(owner, (type, ModuleType, FunctionType)):
        return False
    classes = [c for c in type(owner).__mro__ if c not in _WITHOUT_SETTERS]
    return any(map(is_library_class, classes)) or any(
        hasattr(type(c.__dict__[name]), "__get__")
        and not isinstance(c.__dict__[name], (FunctionType, MemberDescriptorType))
        for c in classes
        if name in c.__dict__
    )


def sets_computed_names(code: CodeType) -> bool:
    """Whether code may set attributes whose names are made at run time."""
    if not _COMPUTED.isdisjoint(code.co_names):
        return True
    if _BY_NAME.isdisjoint(code.co_names):
        return False
    ops = [one for one in plain(code) if one[1] != "COPY"]
    return any(
        name in _BY_NAME and op.startswith("LOAD_") and not _names(ops, i)
        for i, (_, op, name) in enumerate(ops)
    )


def _names(ops: list[tuple[int, str, Any]], i: int) -> bool:
    """Whether what is loaded is called with a constant for the name of the attribute."""
    attribute = ops[i][1] not in ("LOAD_GLOBAL", "LOAD_NAME")
    i += 1
    if not attribute or ops[i - 2][2] == "object":  # the object comes first
        i += 1
        while i < len(ops) and ops[i][1] == "LOAD_ATTR":
            i += 1
    return i < len(ops) and ops[i][1] == "LOAD_CONST" and isinstance(ops[i][2], str)
