"""Values in a trace that follow from constants alone, computed when Python asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from eagerflow.core.interpreter import BASE, use
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import make_tensor
from eagerflow.dims import Dim
from eagerflow.graph.ir import Node, Value
from eagerflow.types import TensorType

__all__ = ["NotConstantError", "remedy_of", "run_constants"]


@final
class NotConstantError(Exception):
    """A value depends on an input or an effect."""

    def __init__(self, value: Value) -> None:
        self.source = value.node.source if value.node is not None else None


def run_constants(value: Value, known: dict[Value, Any], given: Callable[[Value], Any]) -> Any:
    """The array of a value; it is noted in ``known``, as are those that it needs.

    However long the way to the constants is: nodes are visited without recursion.

    Args:
        value: the value.
        known: arrays that are known already.
        given: gives the array of a value that no node makes.

    Raises:
        NotConstantError: a node is not pure, or works on numbers or on symbolic sizes.
    """
    pending = [value]
    while pending:
        top = pending[-1]
        node = top.node
        if top in known:
            pending.pop()
        elif node is None:
            known[top] = given(top)
        else:
            missing = [v for v in _tensors(node) if v not in known]
            pending += missing
            if not missing:
                known.update(zip(node.outputs, _run(node, known), strict=True))
    return known[value]


def _tensors(node: Node) -> list[Value]:
    """The tensors that a node computes with, if it gives the same in each run for the same."""
    special = node.op.startswith("python_") or node.op == "constant"
    if special or _has_dims(node) or next(node.subgraphs(), None) is not None:
        raise NotConstantError(node.outputs[0])
    if get_op(node.op).effect != "pure":
        raise NotConstantError(node.outputs[0])
    return [v for v in node.inputs if isinstance(v.type, TensorType)]


def _run(node: Node, known: dict[Value, Any]) -> Sequence[Any]:
    inputs = [
        make_tensor(known[v], kind.device.lanes[kind.dtype])
        for v in node.inputs
        if isinstance(kind := v.type, TensorType)
    ]
    with use(BASE):
        result = bind(get_op(node.op), *inputs, **node.attrs)
    return [y._data for y in (result if type(result) is tuple else (result,))]


def _has_dims(node: Node) -> bool:
    return any(
        isinstance(v.type, TensorType) and any(isinstance(d, Dim) for d in v.type.shape)
        for v in (*node.inputs, *node.outputs)
    )


_REMEDY: Final = (
    "return the tensor and look at it outside of the traced function, or use ef.py_call to run "
    "Python code on it in each step"
)
_REMEDIES: Final = {
    "bool()": "choose elements with ef.where(condition, a, b), compute the condition outside, or "
    "do not trace this function",
    "int()": "use the tensor itself as an index, or x.shape[i] for a size",
    "index()": "index with the tensor itself (x[i]), use x.shape[i] for a size, and in the place "
    "of x[:n] the mask x[ef.arange(x.shape[0]) < n] or a loop over range(n)",
}


def remedy_of(what: str) -> str:
    """What to do where Python asks a tensor of a trace for its value.

    Args:
        what: who asks: ``"bool()"``.
    """
    return _REMEDIES.get(what, _REMEDY)
