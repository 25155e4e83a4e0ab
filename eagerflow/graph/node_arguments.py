"""Checks of a node's arguments: the number of operands, the attributes, the kind of resource.

They follow from the type rule of its op, from its kernel and from its derivative; the types and
devices of operands are checked by the rules themselves (`eagerflow.graph.signatures`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from eagerflow.core.op import Op, find_op
from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import NodeSignature, signatures
from eagerflow.graph.value_types import Reference
from eagerflow.hardware import as_device
from eagerflow.hardware.device_rules import common_device
from eagerflow.resources.kind_words import class_of, kind_name
from eagerflow_kernels import table


class _Arguments(NamedTuple):
    """The arguments that a node may have.

    Attributes:
        least: the least number of operands.
        most: the greatest number of operands; None for any number.
        needed: the names of attributes without a default.
        known: the names of all attributes that are listed.
        more: whether unlisted attributes may be given as well.
    """

    least: int
    most: int | None
    needed: frozenset[str]
    known: frozenset[str]
    more: bool


def check_arguments(node: Node) -> None:
    """Refuse a node with a wrong number of operands, wrong names of attributes, a wrong resource.

    A node of an unknown op is not checked.

    Raises:
        GraphError: states the mistake, and the arguments that the op takes.
    """
    signature, op = signatures.get(node.op), find_op(node.op)
    if signature is not None:
        arguments = _stated(signature)
        _check_operands(node, arguments)
        if signature.needs:
            _check_attributes(node, arguments)
    elif op is not None:
        arguments = _of_op(op)
        _check_operands(node, arguments)
        _check_attributes(node, arguments)
        _check_resource(node, op)


def _check_operands(node: Node, arguments: _Arguments) -> None:
    count, least, most = len(node.inputs), arguments.least, arguments.most
    if count < least or (most is not None and count > most):
        limit = least if count < least else most
        some = "" if least == most else "at least " if count < least else "at most "
        noun = "operand" if limit == 1 else "operands"
        raise GraphError(
            f"&{node.name}: {node.op} takes {some}{limit or 'no'} {noun}, and has {count}",
            expected=f"{some}{limit or 'no'} {noun}",
        )


def _check_attributes(node: Node, arguments: _Arguments) -> None:
    needed, known = arguments.needed, arguments.known
    listed = ", ".join(sorted(needed if arguments.more else known))
    expected = f"the attributes {listed}" if listed else "no attribute"
    unknown = [] if arguments.more else sorted(node.attrs.keys() - known)
    missing = sorted(needed - node.attrs.keys())
    if unknown:
        wrong = f"has no attribute {unknown[0]!r}"
    elif missing:
        wrong = f"needs the attribute {' and '.join(map(repr, missing))}"
    else:
        return
    raise GraphError(f"&{node.name}: {node.op} {wrong}", expected=expected)


def _check_resource(node: Node, op: Op) -> None:
    given = node.attrs.get("resource")
    if op.resource is None or isinstance(given, Reference):
        return
    if not issubclass(class_of(given), op.resource):
        kind = kind_name(op.resource)
        raise GraphError(
            f"&{node.name}: the resource of {node.op} is no {kind}",
            expected=f"{kind}, not {kind_name(class_of(given))}",
        )


def _stated(signature: NodeSignature) -> _Arguments:
    needed = frozenset(signature.needs.split())
    known = needed.union((signature.takes or "").split())
    more = signature.takes is None
    return _Arguments(signature.operands or 0, signature.operands, needed, known, more)


def _of_op(op: Op) -> _Arguments:
    assert op.infer is not None
    rule = _of_rule(op.infer)
    kernel = table.portable_kernel(op.base)
    if isinstance(kernel, str):  # the name of a function of the namespace
        kernel = getattr(as_device("cpu:0").xp, kernel, None)
    if rule.more:
        rule = _with_kernel(rule, kernel)
    return rule if rule.most is not None else _counted(op, kernel, rule)


@cache
def _of_rule(function: Callable[..., Any]) -> _Arguments:
    """The arguments that a type rule takes."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return _Arguments(
        count,
        None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else count,
        frozenset(p.name for p in named if p.default is p.empty),
        frozenset(p.name for p in named),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def _counted(op: Op, kernel: Any, rule: _Arguments) -> _Arguments:
    """The number of operands of an op whose rule takes any number."""
    count = len(op.vjp) if isinstance(op.vjp, tuple) else getattr(kernel, "nin", None)
    if count is not None:
        return rule._replace(least=count, most=count)
    # an op without operands states its device
    somewhere = op.devices is not common_device or "device" in rule.known
    return rule if somewhere else rule._replace(least=max(rule.least, 1))


def _with_kernel(rule: _Arguments, kernel: Any) -> _Arguments:
    """Adds the attributes of an op whose type rule accepts any, from the kernel's parameters."""
    if kernel is None:
        return rule
    if hasattr(kernel, "nin"):  # a ufunc, whose keywords are no attributes
        return rule._replace(more=False)
    try:
        parameters = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):  # the kernel has no signature
        return rule
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return rule
    known = {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL} - {"out", "xp"}
    return rule._replace(known=rule.known | known, more=False)
