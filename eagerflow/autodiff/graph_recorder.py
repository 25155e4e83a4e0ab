"""`Recorder`: puts the ops that run into a graph, which `replay` runs again.

Python does not run again, so nothing outside of the ops happens twice. Results of ops with an
effect are kept and used again: the effect is not repeated.

A composite becomes a ``call`` node with the attribute ``composite``, which gives the composite to
apply in a replay, from what runs a subgraph and the operands that it captures: those after the
first ``own``. Its forward pass, recorded as well, is the subgraph ``forward``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final
from weakref import ref

from eagerflow.autodiff.tape import attach, find
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.interpreter import (
    AbstractDifferentiator,
    AbstractInterpreter,
    installed,
    tracer_among,
    use,
)
from eagerflow.core.op import Op
from eagerflow.core.tensor import Tensor, handle_of
from eagerflow.graph.edit import needed
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.name_scopes import current_scope
from eagerflow.runtime.replay import Run
from eagerflow.source import Source, position
from eagerflow.types import TensorType


@final
class _Part:
    """A graph that grows: of a function, or of the forward pass of a composite in it.

    Args:
        name: of the graph.
        inputs: the tensors to start from.

    Attributes:
        graph: what was recorded so far.
        held: the tensors from outside that were used, and the results of effects: inputs as well.
    """

    def __init__(self, name: str, inputs: Sequence[Tensor]) -> None:
        self.graph = Graph(name)
        self.held: list[Tensor] = []
        # a note in a handle is a number: a value would keep nodes, and what their attributes hold
        self._values: list[Value] = []
        self._owner = ref(self)
        for x in inputs:
            self._add_input(x)

    def _note(self, x: Tensor, value: Value) -> None:
        attach(x, self._owner, len(self._values))
        self._values.append(value)

    def _add_input(self, x: Tensor) -> Value:
        lane = x._lane
        value = self.graph.add_input(TensorType(lane.dtype, x._data.shape), "x", lane.device)
        self._note(x, value)
        return value

    def hold(self, x: Tensor) -> Value:
        """A tensor that is not computed again."""
        self.held.append(handle_of(x))
        return self._add_input(x)

    def values_of(self, xs: Sequence[Tensor]) -> list[Value]:
        """What tensors are in the graph."""
        return [
            self.hold(x) if (n := find(x._mark, self._owner)) is None else self._values[n]
            for x in xs
        ]

    def append(
        self, op: str, inputs: Sequence[Value], outputs: Sequence[Tensor], attrs: dict[str, Any],
        forward: Any = None,
    ) -> None:  # fmt: skip
        """Add a node that gave the tensors ``outputs``; in a trace that node is ``forward``."""
        if not outputs:  # nothing can need it
            return
        code, offset = position(3)
        node = self.graph.add_node(
            op,
            inputs,
            [TensorType(y._lane.dtype, y._data.shape) for y in outputs],
            attrs,
            device=outputs[0]._lane.device,
            source=None if code is None else Source(code, offset),
            scope=current_scope(),
            forward=forward,
        )
        for y, value in zip(outputs, node.outputs, strict=True):
            self._note(y, value)

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        """The graph of what ``outputs`` need; nothing is recorded after this."""
        graph, nodes = self.graph, self.graph.nodes
        graph.outputs = self.values_of(outputs)
        graph.nodes = needed(graph, graph.outputs)
        for node in nodes:  # without ways back to nodes it is freed with its last reference
            for value in node.outputs:
                value.label, value.node = value.name, None
        return graph


@final
class Recorder(AbstractInterpreter):
    """Records what runs while it is installed.

    Args:
        inputs: the tensors to start from.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self._part = _Part("", inputs)
        self._inside = False  # of the forward pass of a composite

    def finish(self, outputs: Sequence[Tensor]) -> tuple[Graph, Sequence[Tensor]]:
        """The graph that gives ``outputs`` again, and the tensors that follow its inputs."""
        return self._part.finish(outputs), self._part.held

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        outputs = result if type(result) is tuple else (result,)
        if op.effect == "pure":
            tracer = tracer_among(self.below)
            node = None if tracer is None else tracer.newest
            root = node if node is None or node.forward is None else node.forward
            self._part.append(op.name, self._part.values_of(inputs), outputs, attrs, root)
        else:
            for y in outputs:
                self._part.hold(y)
        return result

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        """The forward pass of a composite is recorded apart, so that it stays one."""
        if composite.node is not None:
            return self._node(composite, inputs)
        if self._inside:  # its own rule may call it again
            return super().call(composite, inputs)
        around, part = self._part, _Part(composite.name, inputs)
        operands = around.values_of(inputs)
        self._part, self._inside = part, True
        try:
            with use(self):
                passed = composite.forward(*inputs)
        finally:
            self._part, self._inside = around, False
        graph = part.finish([*passed.outputs, *passed.residuals, *passed.captured])
        operands += around.values_of(_read(graph, part.held))
        ends = len(passed.outputs), len(passed.outputs) + len(passed.residuals)
        again = partial(_again, composite.name, composite.own_rule, graph, ends, passed.pull)
        return self._append(again, len(inputs), operands, passed.outputs, forward=graph)

    def _node(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """A composite that becomes a node runs again as it is; if it has effects, it is held."""
        if composite.node == "pure":
            outputs: Sequence[Tensor] = self.below.call(composite, inputs)
            operands = self._part.values_of(inputs)
        else:
            with use(self.below), installed(_AllWanted()):
                passed = composite.forward(*inputs)
            outputs = passed.outputs
            operands = self._part.values_of(
                [*inputs, *passed.captured, *outputs, *passed.residuals]
            )
            composite = _held(composite, passed, len(inputs) + len(passed.captured))
        return self._append(lambda *_: composite, len(operands), operands, outputs)

    def _append(
        self, again: Callable[..., Composite], own: int, operands: Sequence[Value],
        results: Sequence[Tensor], **attrs: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        outputs = tuple([handle_of(y) for y in results])
        self._part.append("call", operands, outputs, {**attrs, "composite": again, "own": own})
        return outputs


def _read(graph: Graph, held: Sequence[Tensor]) -> list[Tensor]:
    """Those of the tensors held that ``graph`` reads; the inputs for the others are dropped."""
    read = {*graph.outputs, *(v for node in graph.nodes for v in node.inputs)}
    own = len(graph.inputs) - len(held)
    pairs = [p for p in zip(graph.inputs[own:], held, strict=True) if p[0] in read]
    graph.inputs[own:] = [value for value, _ in pairs]
    return [x for _, x in pairs]


def _again(
    name: str, own_rule: bool, graph: Graph, ends: tuple[int, int],
    pull: Callable[..., Sequence[Any]], run: Run, captured: Sequence[Tensor],
) -> Composite:  # fmt: skip
    """A composite that runs the graph of its forward pass in place of Python.

    Args:
        name: of the composite; not itself, as it may hold the tensors that it was made for.
        own_rule: as the composite has it.
        graph: gives the outputs, the residuals and the captured values of `Passed`.
        ends: where among these the outputs and the residuals end.
        pull: as in `Passed`.
        run: runs the graph.
        captured: its inputs after those of the composite.
    """

    def forward(*inputs: Tensor) -> Passed:
        results, (first, last) = run(graph, [*inputs, *captured]), ends
        return Passed(results[:first], results[first:last], pull, results[last:])

    return Composite(name, lambda *inputs: tuple(forward(*inputs).outputs), forward, own_rule)


@final
class _AllWanted(AbstractDifferentiator):
    """Lets a composite keep what derivatives by any input need: requests for them come later."""

    def follows(self, x: Tensor) -> bool:
        return True

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        return self.below.bind(op, inputs, attrs)

    def call(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return self.below.call(composite, inputs)


def _held(composite: Composite, passed: Passed, first: int) -> Composite:
    """A composite that gets its outputs and its residuals as inputs, after ``first`` others."""
    last, pull = first + len(passed.outputs), passed.pull

    def body(*inputs: Tensor) -> tuple[Tensor, ...]:
        return inputs[first:last]

    def forward(*inputs: Tensor) -> Passed:
        def back(
            residuals: Sequence[Tensor], gs: Sequence[Any], wanted: Sequence[bool]
        ) -> Sequence[Any]:
            cotangents = pull(residuals, gs, wanted[:first])
            return [*cotangents, *[None] * (len(wanted) - first)]

        return Passed(inputs[first:last], inputs[last:], back)

    return Composite(composite.name, body, forward, own_rule=True, depends=composite.depends)
