"""`Recorder`: records ops as they run into a graph, for `replay`.

Python code does not run again, so nothing besides ops happens twice. Results of ops with an
effect are kept and reused: the effect is not repeated.

A composite becomes a ``call`` node with the attribute ``composite``, a function that makes the
composite for a replay from the runner of subgraphs and the captured operands, which follow the
first ``own`` operands. Its forward pass, recorded as well, is the subgraph ``forward``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final
from weakref import ref

from eagerflow.core.composites import Composite, Passed
from eagerflow.core.interpreter import (
    AbstractDifferentiator,
    AbstractInterpreter,
    attach_note,
    find_note,
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
    """A graph under construction, of a function or of the forward pass of a composite in it.

    Args:
        name: name of the graph.
        inputs: the input tensors.

    Attributes:
        graph: the graph recorded so far.
        held: captured tensors, and results of effects, which are inputs of the graph as well.
    """

    def __init__(self, name: str, inputs: Sequence[Tensor]) -> None:
        self.graph = Graph(name)
        self.held: list[Tensor] = []
        # handles note the number of a value: a value would keep nodes and their attributes alive
        self._values: list[Value] = []
        self._owner = ref(self)
        for x in inputs:
            self._add_input(x)

    def _note(self, x: Tensor, value: Value) -> None:
        attach_note(x, self._owner, len(self._values))
        self._values.append(value)

    def _add_input(self, x: Tensor) -> Value:
        lane = x._lane
        value = self.graph.add_input(TensorType(lane.dtype, x._data.shape), "x", lane.device)
        self._note(x, value)
        return value

    def hold(self, x: Tensor) -> Value:
        """Add an input for a tensor that is not recomputed; returns its value."""
        self.held.append(handle_of(x))
        return self._add_input(x)

    def values_of(self, xs: Sequence[Tensor]) -> list[Value]:
        """The graph values of tensors."""
        return [
            self.hold(x) if (n := find_note(x._mark, self._owner)) is None else self._values[n]
            for x in xs
        ]

    def append(
        self, op: str, inputs: Sequence[Value], outputs: Sequence[Tensor], attrs: dict[str, Any],
        forward: Any = None,
    ) -> None:  # fmt: skip
        """Add a node with results ``outputs``; ``forward`` is its forward node in a trace."""
        if not outputs:  # no node can depend on it
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
        """The graph of the nodes that ``outputs`` need; ends the recording."""
        graph, nodes = self.graph, self.graph.nodes
        graph.outputs = self.values_of(outputs)
        graph.nodes = needed(graph, graph.outputs)
        for node in nodes:  # without reference cycles the graph is freed with its last reference
            for value in node.outputs:
                value.label, value.node = value.name, None
        return graph


@final
class Recorder(AbstractInterpreter):
    """An interpreter that records ops into a graph while it is installed.

    Args:
        inputs: the tensors to start from.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self._part = _Part("", inputs)
        self._inside = False  # of the forward pass of a composite

    def finish(self, outputs: Sequence[Tensor]) -> tuple[Graph, Sequence[Tensor]]:
        """The graph that recomputes ``outputs``, and the tensors for its additional inputs."""
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
        """Record the forward pass of a composite separately, so that it stays a composite."""
        if composite.node is not None:
            return self._node(composite, inputs)
        if self._inside:  # the rule of a composite may call the composite
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
        """Record a composite that is a node: if pure it runs again, else its results are held."""
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
    """The held tensors that ``graph`` reads; drops the inputs of all others from the graph."""
    read = {*graph.outputs, *(v for node in graph.nodes for v in node.inputs)}
    own = len(graph.inputs) - len(held)
    pairs = [p for p in zip(graph.inputs[own:], held, strict=True) if p[0] in read]
    graph.inputs[own:] = [value for value, _ in pairs]
    return [x for _, x in pairs]


def _again(
    name: str, own_rule: bool, graph: Graph, ends: tuple[int, int],
    pull: Callable[..., Sequence[Any]], run: Run, captured: Sequence[Tensor],
) -> Composite:  # fmt: skip
    """A composite that runs the graph of its forward pass in place of Python code.

    Args:
        name: name of the composite; not the composite, which may hold the tensors of its call.
        own_rule: as in the composite.
        graph: computes the outputs, the residuals and the captured values of `Passed`.
        ends: the ends of the outputs and of the residuals among these.
        pull: as in `Passed`.
        run: runs the graph.
        captured: further inputs of the graph, after those of the composite.
    """

    def forward(*inputs: Tensor) -> Passed:
        results, (first, last) = run(graph, [*inputs, *captured]), ends
        return Passed(results[:first], results[first:last], pull, results[last:])

    return Composite(name, lambda *inputs: tuple(forward(*inputs).outputs), forward, own_rule)


@final
class _AllWanted(AbstractDifferentiator):
    """Makes a composite keep residuals for derivatives by all inputs, requested later."""

    def follows(self, x: Tensor) -> bool:
        return True

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        return self.below.bind(op, inputs, attrs)

    def call(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return self.below.call(composite, inputs)


def _held(composite: Composite, passed: Passed, first: int) -> Composite:
    """A composite whose outputs and residuals are given as inputs, after ``first`` others."""
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
