"""Which attributes a node has: those that the type rule of its op and its kernel take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from eagerflow.core.op import Op, get_op
from eagerflow.errors import EagerflowError
from eagerflow.graph.signatures import NodeSignature, signatures
from eagerflow.hardware import as_device
from eagerflow_kernels import table

__all__ = ["WrongAttribute", "wrong_attribute"]


class _Attributes(NamedTuple):
    """The names of attributes.

    Attributes:
        needed: those without a default.
        known: all that are named.
        more: whether others may be given as well.
    """

    needed: frozenset[str]
    known: frozenset[str]
    more: bool


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


_known: Final[dict[Callable[..., Any], _Attributes]] = {}  # by the type rule


def wrong_attribute(op: str, label: str, names: Iterable[str]) -> WrongAttribute | None:
    """What is wrong with the names of the attributes of a node, None if nothing is.

    Args:
        op: of the node; an unknown op is not checked.
        label: the name of the node.
        names: of its attributes.
    """
    attributes = _attributes(op)
    if attributes is None:
        return None
    names = set(names)
    listed = ", ".join(sorted(attributes.needed if attributes.more else attributes.known))
    expected = f"the attributes {listed}" if listed else "no attribute"
    unknown = sorted(names - attributes.known)
    if unknown and not attributes.more:
        return WrongAttribute(
            f"&{label}: {op} has no attribute {unknown[0]!r}", expected, unknown[0]
        )
    missing = sorted(attributes.needed - names)
    if missing:
        wanted = " and ".join(map(repr, missing))
        return WrongAttribute(f"&{label}: {op} needs the attribute {wanted}", expected, None)
    return None


def _attributes(name: str) -> _Attributes | None:
    structure = signatures.get(name)
    if structure is not None:
        return _stated(structure) if structure.needs else None
    try:
        op = get_op(name)
    except EagerflowError:  # another check says so, or it is no op
        return None
    if op.infer is None:
        return None
    keywords = _known.get(op.infer)
    if keywords is None:
        keywords = _known[op.infer] = _keywords(op.infer)
    return _with_kernel(op, keywords) if keywords.more else keywords


def _stated(structure: NodeSignature) -> _Attributes:
    needed = frozenset(structure.needs.split())
    return _Attributes(
        needed, needed.union((structure.takes or "").split()), structure.takes is None
    )


def _keywords(function: Callable[..., Any]) -> _Attributes:
    """The keywords of a function."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    needed = frozenset(p.name for p in named if p.default is p.empty)
    more = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return _Attributes(needed, frozenset(p.name for p in named), more)


def _with_kernel(op: Op, rule: _Attributes) -> _Attributes:
    """The keywords of an op whose rule passes further ones on: its kernel knows them."""
    kernel = table.portable_kernel(op.name)
    if isinstance(kernel, str):  # the name of a function of the namespace
        kernel = getattr(as_device("cpu:0").backend.xp, kernel, None)
    if kernel is None:
        return rule
    if hasattr(kernel, "nin"):  # a ufunc, whose keywords are no attributes
        return rule._replace(more=False)
    try:
        parameters = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):  # it does not tell
        return rule
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return rule
    known = {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL} - {"out", "xp"}
    return _Attributes(rule.needed, rule.known | known, False)
