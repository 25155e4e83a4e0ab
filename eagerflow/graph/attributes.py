"""Which attributes a node has: those that the type rule of its op and its kernel take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from eagerflow.core.op import Op, get_op
from eagerflow.errors import EagerflowError
from eagerflow.hardware import as_device
from eagerflow_kernels import table

__all__ = ["WrongAttribute", "wrong_attribute"]


class _Attributes(NamedTuple):
    """The names of attributes.

    Attributes:
        needed: those without a default.
        known: all; None where any may be given.
    """

    needed: frozenset[str]
    known: frozenset[str] | None


class WrongAttribute(NamedTuple):
    """What is wrong with the attributes of a node.

    Attributes:
        text: in words.
        expected: the attributes that there are.
        name: the attribute, None if one is missing.
    """

    text: str
    expected: str
    name: str | None


def _of(needed: str, more: str = "") -> _Attributes:
    return _Attributes(frozenset(needed.split()), frozenset(f"{needed} {more}".split()))


#: those of nodes that stand for no op of `eagerflow.ops`
_STRUCTURE: Final = {
    "call": _Attributes(frozenset({"body"}), None),
    "cond": _of("branches"),
    "constant": _of("value"),
    "python_size": _of("size"),
    "scan": _of("body carry length", "reverse"),
    "switch": _of("branches"),
    "while_loop": _of("cond body", "max_iterations parallel_iterations recompute"),
}
_known: Final[dict[Callable[..., Any], _Attributes]] = {}  # by the type rule


def wrong_attribute(op: str, label: str, names: Iterable[str]) -> WrongAttribute | None:
    """What is wrong with the names of the attributes of a node, None if nothing is.

    Args:
        op: of the node; nothing is said of one that is not known.
        label: the name of the node.
        names: of its attributes.
    """
    found = _attributes(op)
    if found is None:
        return None
    names = set(names)
    listed = ", ".join(sorted(found.known if found.known is not None else found.needed))
    expected = f"the attributes {listed}" if listed else "no attribute"
    unknown = sorted(names - found.known) if found.known is not None else []
    if unknown:
        return WrongAttribute(
            f"&{label}: {op} has no attribute {unknown[0]!r}", expected, unknown[0]
        )
    missing = sorted(found.needed - names)
    if missing:
        wanted = " and ".join(map(repr, missing))
        return WrongAttribute(f"&{label}: {op} needs the attribute {wanted}", expected, None)
    return None


def _attributes(name: str) -> _Attributes | None:
    if name in _STRUCTURE:
        return _STRUCTURE[name]
    try:
        op = get_op(name)
    except EagerflowError:  # another check says so, or it is no op
        return None
    if op.infer is None:
        return None
    found = _known.get(op.infer)
    if found is None:
        found = _known[op.infer] = _keywords(op.infer)
    return found if found.known is not None else _with_kernel(op, found)


def _keywords(function: Callable[..., Any]) -> _Attributes:
    """The keywords of a function."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    needed = frozenset(p.name for p in named if p.default is p.empty)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return _Attributes(needed, None)
    return _Attributes(needed, frozenset(p.name for p in named))


def _with_kernel(op: Op, rule: _Attributes) -> _Attributes:
    """Those of an op whose rule hands the others on: its kernel knows them."""
    kernel = table.portable_kernel(op.name)
    if isinstance(kernel, str):  # the name of a function of the namespace
        kernel = getattr(as_device("cpu:0").backend.xp, kernel, None)
    if kernel is None:
        return rule
    if hasattr(kernel, "nin"):  # a ufunc, whose keywords are no attributes
        return _Attributes(rule.needed, rule.needed)
    try:
        parameters = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):  # it does not tell
        return rule
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return rule
    known = {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL} - {"out", "xp"}
    return _Attributes(rule.needed, frozenset(known | rule.needed))
