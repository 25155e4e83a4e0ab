"""The ops that only lowered graphs have, and their specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagerflow.errors import DTypeError, GraphError
from eagerflow.graph.ir import Node
from eagerflow.graph.kinds import NumberType, ValueSpec
from eagerflow.graph.signatures import kind_of, signature
from eagerflow.types import TensorSpec

__all__ = ["is_steering"]

_INT: Final = NumberType(int)


def is_steering(op: str) -> bool:
    """Whether only lowered graphs have nodes of ``op``."""
    return kind_of(op) == "steering"


@signature("Switch", kind="steering")
def _switch(node: Node) -> Sequence[ValueSpec]:
    value, predicate = _inputs(node, 2)
    if not isinstance(predicate, TensorSpec) or predicate.shape or predicate.dtype.is_inexact:
        raise DTypeError("Switch is chosen by a bool or an integer", given=str(predicate))
    return [value] * len(node.outputs)


@signature("Merge", kind="steering")
def _merge(node: Node) -> Sequence[ValueSpec]:
    """Sizes that differ between the inputs are as the node says."""
    (kind,) = [v.spec for v in node.outputs]
    for value in node.inputs:
        _alike(node, value.spec, kind)
    if len(node.inputs) == 1 and not isinstance(node.attrs.get("back"), str):
        raise GraphError("Merge has one input, and no attribute 'back'")
    return [kind]


@signature("Enter", kind="steering")
def _enter(node: Node) -> Sequence[ValueSpec]:
    if not isinstance(node.attrs.get("frame"), str):
        raise GraphError("Enter needs the attribute 'frame'")
    return _inputs(node, 1)


@signature("Exit", kind="steering")
def _exit(node: Node) -> Sequence[ValueSpec]:
    (value,), (kind,) = _inputs(node, 1), [v.spec for v in node.outputs]
    _alike(node, value, kind)
    return [kind]


@signature("NextIteration", kind="steering")
def _next(node: Node) -> Sequence[ValueSpec]:
    _inputs(node, 1)
    return []


@signature("Identity", kind="steering")
def _identity(node: Node) -> Sequence[ValueSpec]:
    return _inputs(node, 1)


@signature("Slice", kind="steering")
def _slice(node: Node) -> Sequence[ValueSpec]:
    values, at = _inputs(node, 2)
    if not isinstance(values, TensorSpec) or not values.shape or at != _INT:
        raise DTypeError("Slice takes a tensor with axes and an int", given=f"{values}, {at}")
    return [values.like(shape=values.shape[1:])]


def _inputs(node: Node, count: int) -> list[ValueSpec]:
    specs = [v.spec for v in node.inputs]
    if len(specs) != count:
        raise GraphError(f"{node.op} takes {count} inputs", given=str(len(specs)))
    return specs


def _alike(node: Node, got: ValueSpec, want: ValueSpec) -> None:
    same_rank = len(got.shape) == len(want.shape)
    dtypes = [getattr(k, "dtype", k) for k in (got, want)]
    if not same_rank or dtypes[0] != dtypes[1] or not _same_device(got, want):
        raise DTypeError(f"{node.op} gives what it takes", given=str(got), expected=str(want))


def _same_device(a: ValueSpec, b: ValueSpec) -> bool:
    return a.device is None or b.device is None or bool(a.device == b.device)
