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

__all__ = ["NotConstantError", "remedy_of", "run_constant"]


@final
class NotConstantError(Exception):
    """A value depends on an input or an effect."""

    def __init__(self, value: Value) -> None:
        self.source = value.node.source if value.node is not None else None


def run_constant(node: Node, evaluate: Callable[[Value], Any]) -> Sequence[Any]:
    """The arrays that ``node`` makes.

    Args:
        node: the node.
        evaluate: gives the array of an input.

    Raises:
        NotConstantError: the node is not pure, or works on numbers or on symbolic sizes.
    """
    special = node.op.startswith("python_") or node.op == "constant"
    if special or _has_dims(node) or next(node.subgraphs(), None) is not None:
        raise NotConstantError(node.outputs[0])
    op = get_op(node.op)
    if op.effect != "pure":
        raise NotConstantError(node.outputs[0])
    inputs = [
        make_tensor(evaluate(v), kind.device.lanes[kind.dtype])
        for v in node.inputs
        if isinstance(kind := v.type, TensorType)
    ]
    with use(BASE):
        result = bind(op, *inputs, **node.attrs)
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
    "index()": "index with the tensor itself (x[i]), or use x.shape[i] for a size",
}


def remedy_of(what: str) -> str:
    """What to do where Python asks a tensor of a trace for its value.

    Args:
        what: who asks: ``"bool()"``.
    """
    return _REMEDIES.get(what, _REMEDY)
