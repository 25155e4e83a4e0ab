"""The derivative of a trace: a forward graph that gives residuals as well, and a backward graph.

A traced function that is called under a tape runs the one, and the tape the other. Both come from
one graph, made by tracing the tape itself as it records and goes back over the function; what the
results need is forward, the rest is backward, and what crosses is a residual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

from eagerflow.autodiff.backward import search
from eagerflow.autodiff.cotangents import Cotangent, add
from eagerflow.autodiff.tape import Link, Tape
from eagerflow.core.interpreter import Composite, Passed, installed
from eagerflow.core.op import bind, get_op
from eagerflow.core.slices import IndexedSlices
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.errors import EagerflowError
from eagerflow.graph.edit import copy_node, named_sizes, needed
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import NumberType
from eagerflow.graph.passes import optimise
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.trace import Tracer
from eagerflow.runtime.program import Program
from eagerflow.runtime.replay import is_watched, replay
from eagerflow.types import TensorType

__all__ = ["Derivative"]

_DRAWS: Final = ("next_key",)


class _Gradient(NamedTuple):
    """Where the cotangent of an input comes from.

    Attributes:
        values: an output of the joint graph; two for rows of a sparse one; none for zero.
        shape: of the whole of a sparse one.
        link: what the derivative is lost at, if it is.
    """

    values: tuple[Value, ...]
    shape: Any = None
    link: Link | None = None


@final
class Derivative:
    """The forward and the backward graph of a trace.

    Attributes:
        forward: from the inputs and the reads of variables to the outputs and the residuals.
        backward: from the residuals and the cotangents of the outputs to those of the inputs.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._count = len(graph.outputs)
        self._reads: list[Node] = []
        joint, self._cotangents, self._gradients = self._joint()
        self._split(joint)
        self._forward = Program(optimise(self.forward)[0])
        self._programs: dict[tuple[bool, ...], tuple[Graph, Program]] = {}

    @staticmethod
    def of(graph: Graph) -> Derivative | None:
        """The derivative; None where each op has to be seen by the tape."""
        effects = [n for n in graph.nodes if effect_of(n) != "pure"]
        plain = all(n.op == "read" or n.op in _DRAWS for n in effects)
        numbers = any(isinstance(v.type, NumberType) for v in graph.outputs)
        if not plain or numbers:
            return None
        if not _depend_alike(graph):
            return None
        try:
            return Derivative(graph)
        except EagerflowError:  # the tape words it, or does without
            return None

    # --- making ---

    def _joint(self) -> tuple[Graph, list[Value], list[_Gradient]]:
        """One graph from inputs and cotangents to outputs and gradients."""
        tracer = Tracer(self._graph.name)
        plain = self._without_reads()
        tape = Tape()
        with tracer:
            inputs = [self._input(tracer, v) for v in plain.inputs]
            slots = [
                (tape.watch(x),) if type(x) is Tensor and x.dtype.is_inexact else () for x in inputs
            ]
            with installed(tape):
                outputs = replay(plain, inputs)
            seeds: dict[int, Any] = {}
            cotangents = []
            for y in outputs:
                if y.dtype.is_inexact:
                    g = tracer.add_input(TensorType(y.dtype, y.shape, y.device), "g")
                    cotangents.append(tracer.value_of(g))
                    slot = tape.slot_of(y)
                    seeds[slot] = add(seeds[slot], g) if slot in seeds else g
            found = search(tape, seeds, slots, consume=True)
            values = [tracer.value_of(y) for y in outputs]
            gradients = [self._gradient(tracer, g) for g in found]
        joint = tracer.graph
        if any(r.why is not None for r in tracer.numbers) or tracer.static_sizes:
            raise EagerflowError("the derivative asks for a number")
        constants = {c.value: c.handle for c in tracer.captures.values()}
        joint.inputs = [v for v in joint.inputs if v not in constants]
        for value, handle in constants.items():
            value.node = Node("constant", value.label, (), {"value": handle}, (value,))
            value.index = 0
            joint.nodes.insert(0, value.node)
        joint.outputs = [*values, *[v for g in gradients for v in g.values]]
        tracer.forget()
        return joint, cotangents, gradients

    def _without_reads(self) -> Graph:
        """The graph with inputs in the place of reads of variables."""
        result = Graph(self._graph.name)
        result.resources = dict(self._graph.resources)
        values = {v: result.add_input(v.type, v.label) for v in self._graph.inputs}
        for node in self._graph.nodes:
            if node.op == "read":
                self._reads.append(node)
                values[node.outputs[0]] = result.add_input(node.outputs[0].type, node.name)
        for node in self._graph.nodes:
            if node.op != "read":
                made = copy_node(result, node, [values[v] for v in node.inputs])
                values.update(zip(node.outputs, made.outputs, strict=True))
        result.outputs = [values[v] for v in self._graph.outputs]
        return result

    def _input(self, tracer: Tracer, value: Value) -> Any:
        if isinstance(value.type, NumberType):
            return tracer.add_number(value.type.kind(1), value.label)
        return tracer.add_input(value.type, value.label)

    def _gradient(self, tracer: Tracer, g: Cotangent | Link | None) -> _Gradient:
        if g is None:
            return _Gradient(())
        if isinstance(g, Link):
            return _Gradient((), link=g)
        if isinstance(g, IndexedSlices):
            if any(type(d) is not int for d in g.shape):
                raise EagerflowError("the size of a sparse gradient is symbolic")
            both = (tracer.value_of(g.values), tracer.value_of(g.indices))
            return _Gradient(both, g.shape)
        return _Gradient((tracer.value_of(g),))

    def _split(self, joint: Graph) -> None:
        """Cut the joint graph in two."""
        ends = [v for g in self._gradients for v in g.values]
        outputs = joint.outputs[: self._count]
        effects = [v for n in joint.nodes if effect_of(n) != "pure" for v in n.outputs]
        first = {n for n in needed(joint, [*outputs, *effects]) if n.op != "constant"}
        rest = [n for n in needed(joint, ends) if n not in first]
        made = {v for n in rest for v in n.outputs} | set(self._cotangents)
        crossing = dict.fromkeys(v for n in rest for v in n.inputs if v not in made)
        crossing.update(dict.fromkeys(v for v in ends if v not in made))
        passed = [v for v in joint.values() if v.node is None or v.node in first]
        given = [*crossing, *self._cotangents]
        crossing.update(dict.fromkeys(self._sizes(passed, rest, given)))
        self._residuals = list(crossing)
        self.inputs = [v for v in joint.inputs if v not in set(self._cotangents)]
        self.forward = _part(
            joint, self.inputs, [n for n in joint.nodes if n in first or n.op == "constant"],
            [*outputs, *self._residuals],
        )  # fmt: skip
        self.backward = _part(joint, [*self._residuals, *self._cotangents], rest, ends)

    def _sizes(
        self, passed: Sequence[Value], nodes: Sequence[Node], given: Sequence[Value]
    ) -> list[Value]:
        """Those of the values of the forward part whose shapes tell sizes that ``nodes`` need."""
        known = {str(d) for v in given for d in v.type.shape}
        found = []
        for node in nodes:
            for name in named_sizes(tuple(node.attrs.values())):
                if name not in known:
                    known.add(name)
                    found.append(next(v for v in passed if name in map(str, v.type.shape)))
            # sizes that depend on data are told by what the backward part computes itself
            known.update(str(d) for v in node.outputs for d in v.type.shape)
        return found

    # --- running ---

    def call(self, tape: Tape, inputs: Sequence[Any]) -> Sequence[Tensor]:
        """The outputs for these inputs (tensors and numbers), as one step of ``tape``."""
        tensors = [x for x in inputs if type(x) is Tensor]

        def body(*xs: Tensor) -> tuple[Any, ...]:
            return tuple(replay(self._graph, _mixed(inputs, xs)))

        def forward(*xs: Tensor) -> Passed:
            return self._run(_mixed(inputs, xs))

        return tape.call(Composite(self._graph.name, body, forward, own_rule=False), tensors)

    def _run(self, inputs: Sequence[Any]) -> Passed:
        reads = [bind(get_op("read"), **node.attrs) for node in self._reads]
        everything = [*inputs, *reads]
        raw = self._forward(*[x._data if type(x) is Tensor else x for x in everything])
        values = [
            make_tensor(data, lane)
            for data, lane in zip(raw, self._forward.lanes, strict=True)
            if lane is not None
        ]
        tensors = [type(x) is Tensor for x in everything]

        def pull(
            residuals: Sequence[Tensor], gs: Sequence[Any], wanted: Sequence[bool]
        ) -> Sequence[Any]:
            flags = iter(wanted)
            return self._pull(residuals, gs, [next(flags) if t else False for t in tensors])

        return Passed(values[: self._count], values[self._count :], pull, reads)

    def _pull(
        self, residuals: Sequence[Tensor], gs: Sequence[Any], wanted: Sequence[bool]
    ) -> Sequence[Any]:
        """The cotangents of all inputs that are tensors, then of the reads."""
        graph, program = self._program(tuple(wanted))
        inputs = [*residuals, *[g for g in gs if g is not None]]
        values: Sequence[Tensor]
        if is_watched():
            values = replay(graph, inputs)
        else:
            raw = program(*[x._data for x in inputs])
            lanes = zip(raw, program.lanes, strict=True)
            values = [make_tensor(y, lane) for y, lane in lanes if lane is not None]
        rest = iter(values)
        found: list[Any] = []
        kinds = [type(v.type) is TensorType for v in self.inputs]
        for gradient, want, tensor in zip(self._gradients, wanted, kinds, strict=True):
            if not tensor:
                continue
            if gradient.link is not None:
                found.append(gradient.link)
            elif not want or not gradient.values:
                found.append(None)
            elif gradient.shape is not None:
                found.append(IndexedSlices(next(rest), next(rest), gradient.shape))
            else:
                found.append(next(rest))
        return found

    def _program(self, wanted: tuple[bool, ...]) -> tuple[Graph, Program]:
        """The backward graph for some of the inputs."""
        found = self._programs.get(wanted)
        if found is None:
            outputs = iter(self.backward.outputs)
            ends = []
            for gradient, want in zip(self._gradients, wanted, strict=True):
                values = [next(outputs) for _ in gradient.values]
                ends += values if want else []
            part = _part(self.backward, self.backward.inputs, self.backward.nodes, ends)
            found = self._programs[wanted] = (part, Program(optimise(part)[0]))
        return found


def _depend_alike(graph: Graph) -> bool:
    """Whether all floating outputs depend on the same inputs and variables.

    Else a derivative of one output by what only another depends on would be zero, not None.
    """
    known: dict[Value, frozenset[Value]] = {v: frozenset((v,)) for v in graph.inputs}
    for node in graph.nodes:
        found = frozenset().union(*(known[v] for v in node.inputs))
        for value in node.outputs:
            known[value] = frozenset((value,)) if node.op == "read" else found
    kinds = [v for v in graph.outputs if isinstance(v.type, TensorType) and v.type.dtype.is_inexact]
    return len({known[v] for v in kinds}) <= 1


def _mixed(inputs: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
    """``inputs`` with other tensors in the place of theirs."""
    rest = iter(tensors)
    return [next(rest) if type(x) is Tensor else x for x in inputs]


def _part(
    graph: Graph, inputs: Sequence[Value], nodes: Sequence[Node], outputs: Sequence[Value]
) -> Graph:
    """The graph from some values of ``graph`` to others."""
    result = Graph(graph.name)
    result.resources = dict(graph.resources)
    values = {v: result.add_input(v.type, v.label or "residual") for v in inputs}
    for node in nodes:
        if all(v in values for v in node.outputs) and node.outputs:
            continue  # it comes as an input
        made = copy_node(result, node, [values[v] for v in node.inputs])
        values.update(zip(node.outputs, made.outputs, strict=True))
    result.outputs = [values[v] for v in outputs]
    return result
