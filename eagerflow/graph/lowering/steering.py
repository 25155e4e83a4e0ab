"""The ops that only lowered graphs have, and their specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagerflow.errors import DTypeError, GraphError
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_together, kind_of, signature
from eagerflow.graph.value_types import NumberType, ValueSpec
from eagerflow.types import TensorSpec

_INT: Final = NumberType(int)


def is_steering(op: str) -> bool:
    """Whether only lowered graphs have nodes of ``op``."""
    return kind_of(op) == "steering"


@signature("Switch", kind="steering", leads="branch", operands=2, host_inputs=(1,))
def _switch(node: Node) -> Sequence[ValueSpec]:
    value, predicate = [v.spec for v in node.inputs]
    if not isinstance(predicate, TensorSpec) or predicate.shape or predicate.dtype.is_inexact:
        raise DTypeError("Switch is chosen by a bool or an integer", given=str(predicate))
    return [value] * len(node.outputs)


@signature("Merge", kind="steering", leads="join")
def _merge(node: Node) -> Sequence[ValueSpec]:
    """The spec of the output as the node has it, since sizes may differ between the inputs."""
    (kind,) = [v.spec for v in node.outputs]
    for value in node.inputs:
        _alike(node, value.spec, kind)
    if len(node.inputs) == 1 and not isinstance(node.attrs.get("back"), str):
        raise GraphError("Merge has one input, and no attribute 'back'")
    return [kind]


@signature("Enter", kind="steering", leads="enter", operands=1)
def _enter(node: Node) -> Sequence[ValueSpec]:
    if not isinstance(node.attrs.get("frame"), str):
        raise GraphError("Enter needs the attribute 'frame'")
    return [node.inputs[0].spec]


@signature("Exit", kind="steering", leads="leave", operands=1)
def _exit(node: Node) -> Sequence[ValueSpec]:
    (kind,) = [v.spec for v in node.outputs]
    _alike(node, node.inputs[0].spec, kind)
    return [kind]


@signature("NextIteration", kind="steering", leads="repeat", operands=1)
def _next(node: Node) -> Sequence[ValueSpec]:
    return []


@signature("Identity", kind="steering", operands=1)
def _identity(node: Node) -> Sequence[ValueSpec]:
    return [node.inputs[0].spec]


@signature("Slice", kind="steering", operands=2)
def _slice(node: Node) -> Sequence[ValueSpec]:
    values, at = [v.spec for v in node.inputs]
    if not isinstance(values, TensorSpec) or not values.shape or at != _INT:
        raise DTypeError("Slice takes a tensor with axes and an int", given=f"{values}, {at}")
    return [values.like(shape=values.shape[1:])]


@signature("Send", kind="steering", leads="send", needs="edge to", takes="shape")
def _send(node: Node) -> Sequence[ValueSpec]:
    """No output; without an operand it signals that its control inputs have run."""
    if len(node.inputs) > 1:
        raise GraphError("Send takes one value")
    return []


@signature("Recv", kind="steering", leads="receive", needs="edge source", takes="level", operands=0)
def _recv(node: Node) -> Sequence[ValueSpec]:
    return [v.spec for v in node.outputs]


def _alike(node: Node, got: ValueSpec, want: ValueSpec) -> None:
    same_rank = len(got.shape) == len(want.shape)
    dtypes = [getattr(k, "dtype", k) for k in (got, want)]
    if not same_rank or dtypes[0] != dtypes[1] or not is_together(got, want):
        raise DTypeError(
            f"the output of {node.op} does not have the type of its input",
            given=str(got),
            expected=str(want),
        )
