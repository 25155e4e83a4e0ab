"""Remedies for attributes that an object of eagerflow does not have.

Names of other frameworks that have a hint of their own are attributes that raise it
(`eagerflow.unknown_names.hint_at`). This is for all others: spellings, functions, updates in place.
"""

from __future__ import annotations

import inspect
import re
from types import FunctionType
from typing import Any, Final

import eagerflow as ef
from eagerflow.extending import hint_about, nearest
from eagerflow.hints import ATTRIBUTES, find
from eagerflow.hints.call_forms import form_of
from eagerflow.hints.parameter_names import VALUES

#: beginnings of hints that are expressions for a new value
_RESULTS: Final = ("ef.", "x ", "x.", "-x")

#: how many attributes of an object a hint lists
_FEW: Final = 24


def remedy(error: AttributeError) -> str | None:
    """The remedy for a missing attribute, if its object is one of eagerflow.

    Args:
        error: as Python raised it.

    >>> try:
    ...     ef.ones(3).cumsumm()
    ... except AttributeError as error:
    ...     print(ef.hints.missing_attributes.remedy(error))
    the nearest is cumsum(axis=None, dtype=None, *, out=None)
    """
    owner, name = error.obj, error.name
    if inspect.isfunction(owner) and name is not None and _is_ours(owner):
        return _of_result(owner, name)
    kind = owner if inspect.isclass(owner) else type(owner)
    if name is None or name.startswith("_") or not any(map(_is_ours, kind.__mro__)):
        return None
    if issubclass(kind, (ef.Tensor, ef.Variable)):
        function = vars(ef).get(name) if name in dir(ef) else None
        if inspect.isfunction(function):
            return f"ef.{form_of(function, name)}"
        return in_place(name) or find("eagerflow", name) or _nearest(owner, name)
    return ATTRIBUTES.get(kind.__name__, {}).get(name) or _nearest(owner, name)


def in_place(name: str) -> str | None:
    """The remedy for a method that elsewhere changes its tensor, ``exp_``, by that of ``exp``.

    >>> from eagerflow.hints.missing_attributes import in_place
    >>> in_place("exp_")
    'tensors are values: x = ef.exp(x); of a variable, v.assign(ef.exp(v))'

    Args:
        name: of the method.
    """
    if not name.endswith("_"):
        return None
    plain = name[:-1]
    text = hint_about(ef.Tensor, plain) or find("eagerflow", plain) or ""
    first = text.partition("; ")[0]
    if inspect.isfunction(getattr(ef.Tensor, plain, None)):
        first = f"x.{plain}(...)"
    elif plain in vars(ef):
        first = f"ef.{plain}(x)"
    if not first.startswith(_RESULTS):
        return VALUES
    of_variable = re.sub(r"\bx\b", "v", first)
    return f"tensors are values: x = {first}; of a variable, v.assign({of_variable})"


def _of_result(function: FunctionType, name: str) -> str | None:
    """The remedy where the attribute is one of the result: ``default_generator.state``."""
    parameters = inspect.signature(function).parameters.values()
    if name.startswith("_") or any(p.default is p.empty for p in parameters):
        return None
    called = function.__name__
    return f"{called} is a function: {called}() gives the object, and {called}().{name} this"


def _is_ours(kind: type | FunctionType) -> bool:
    return str(kind.__module__).partition(".")[0] == "eagerflow"


def _nearest(owner: Any, name: str) -> str | None:
    names = [n for n in dir(owner) if not n.startswith("_")]
    close = nearest(name, names, 0.75)
    if close is None:
        return f"it has {', '.join(names)}" if 0 < len(names) <= _FEW else None
    member = inspect.getattr_static(owner, close)
    return f"the nearest is {form_of(member, close) if inspect.isfunction(member) else close}"
