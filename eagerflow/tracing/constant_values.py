"""Values in a trace that follow from constants alone, computed when Python asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.core.interpreter import BASE, use
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.dims import Dim
from eagerflow.errors import TraceError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.signatures import kind_of
from eagerflow.tracing.symbols import asked_in
from eagerflow.types import TensorType

if TYPE_CHECKING:
    from eagerflow.tracing.tracer import Tracer

#: remedies where Python asks a tensor of a trace for its value, by the operation that asks
_REMEDY: Final = (
    "return the tensor and look at it outside of the traced function, or run Python code on it in "
    "each step: ef.py_call(f, x.type, x), for a function f of the array with a result like x"
)
_REMEDIES: Final = {
    "bool()": "choose elements with ef.where(condition, a, b), compute the condition outside, or "
    "do not trace this function",
    "int()": "use the tensor itself as an index, or x.shape[i] for a size",
    "index()": "index with the tensor itself (x[i]), use x.shape[i] for a size, and in the place "
    "of x[:n] the mask x[ef.arange(x.shape[0]) < n] or a loop over range(n)",
    "numpy.asarray()": "use eagerflow's function in the place of NumPy's, return the tensor and "
    "look at it outside of the traced function, or run NumPy in each step: "
    "ef.py_call(f, x.type, x)",
}


@final
class NotConstantError(Exception):
    """A value depends on an input or an effect.

    Attributes:
        value: the input, or the result of the effect.
        source: of the value.
    """

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value
        self.source = value.node.source if value.node is not None else None


@final
class Constants:
    """The values of a graph that follow from constants alone, computed as needed.

    Args:
        tracer: the trace that makes the graph.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._known: dict[Value, Any] = {}
        #: the input or effect that each depends on; an exception would hold frames
        self._refused: dict[Value, Value] = {}

    def has(self, value: Value) -> bool:
        """Whether a value follows from constants alone."""
        try:
            self._evaluate(value)
        except NotConstantError:
            return False
        return True

    def of(self, value: Value, what: str) -> Any:
        """The array of a value.

        Args:
            value: the value.
            what: the operation that asks: ``"bool()"``.

        Raises:
            TraceError: only a run of the graph computes it.
        """
        try:
            return self._evaluate(value)
        except NotConstantError as error:
            made = f", from {error.source}" if error.source else ""
            raise TraceError(
                f"{asked_in(what)} of a tensor whose value is known only when the graph runs",
                given=f"{value!r} in {self._tracer.function}{made}",
                hint=_REMEDIES.get(what, _REMEDY),
            ) from None

    def _evaluate(self, value: Value) -> Any:
        """The array of a value; runs the nodes that it depends on.

        Raises:
            NotConstantError: one of these is not pure, or works on numbers or symbolic sizes.
        """
        inputs: dict[Value, Any] = {}
        path = [value]  # no recursion: loops that are unrolled make long chains
        while path:
            last = path[-1]
            try:
                missing = self._step(last, inputs)
            except NotConstantError as error:
                self._refused.update(dict.fromkeys(path, error.value))
                raise
            if missing is None:
                path.pop()
            else:
                path.append(missing)
        return inputs[value] if value in inputs else self._known[value]

    def _step(self, value: Value, inputs: dict[Value, Any]) -> Value | None:
        """Compute the array of a value; return a value whose array is needed first, if any."""
        if value in self._known or value in inputs:
            return None
        if value in self._refused:
            raise NotConstantError(self._refused[value])
        node = value.node
        if node is None:
            inputs[value] = self._given(value)
            return None
        _check(node)
        operands = []
        for x in node.inputs:
            if not isinstance(kind := x.type, TensorType):
                continue
            device: Any = x.device
            if x not in self._known and x not in inputs:
                return x
            array = inputs[x] if x in inputs else self._known[x]
            operands.append(make_tensor(array, device.lanes[kind.dtype]))
        self._known.update(zip(node.outputs, _run(node, operands), strict=True))
        return None

    def _given(self, value: Value) -> Any:
        """The array of an input of the graph, if it is a constant outside."""
        tracer, around = self._tracer, self._tracer.parent
        for captured in tracer.captures.values():
            if captured.value is value and captured.fresh:
                return captured.handle._data
        for key, operand in tracer.operands.items():
            if operand.value is value and around is not None:
                whole = key if type(key) is Value else around.value_of(operand.given)
                return around.constants._evaluate(whole)
        raise NotConstantError(value)


def _check(node: Node) -> None:
    """Refuse a node whose results are never constants, whatever its inputs."""
    if kind_of(node.op) != "op" or _has_dims(node) or next(node.subgraphs(), None) is not None:
        raise NotConstantError(node.outputs[0])
    if get_op(node.op).effect != "pure":
        raise NotConstantError(node.outputs[0])


def _run(node: Node, operands: Sequence[Tensor]) -> Sequence[Any]:
    with use(BASE):
        result: Any = bind(get_op(node.op), *operands, **node.attrs)
    return [y._data for y in (result if type(result) is tuple else (result,))]


def _has_dims(node: Node) -> bool:
    return any(
        isinstance(v.type, TensorType) and any(isinstance(d, Dim) for d in v.type.shape)
        for v in (*node.inputs, *node.outputs)
    )
