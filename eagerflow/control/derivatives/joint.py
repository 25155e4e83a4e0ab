"""The derivative of a graph as two graphs: forward, with residuals as outputs, and backward.

Both come from one joint graph, made by tracing a tape that records a replay and its backward pass.
Nodes that the results need are forward, the rest is backward, and values that cross are residuals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, final

from eagerflow.autodiff.backward import Cotangent, add_at, search
from eagerflow.autodiff.tape import Link, Tape
from eagerflow.control.structured import names_of
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import installed
from eagerflow.core.op import find_op, functions, get_op
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size, symbols
from eagerflow.errors import EagerflowError
from eagerflow.graph.edit import copy_node, named_sizes, needed
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.value_types import NumberType
from eagerflow.runtime.replay import replay
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import Shape


class Gradient(NamedTuple):
    """The source of the cotangent of an input.

    Attributes:
        values: an output of the joint graph; two for a sparse cotangent; none for zero.
        shape: the dense shape of a sparse cotangent.
        dense: whether the final cotangent is to be dense all the same.
        link: the link at which the derivative is lost, if any.
    """

    values: tuple[Value, ...]
    shape: Any = None
    dense: bool = False
    link: Link | None = None


class _Watched(NamedTuple):
    """A stand-in for a variable that a tape watches.

    Attributes:
        resource: the state of the variable.
    """

    resource: Any


@final
class Joint:
    """The forward and the backward graph of a graph.

    Args:
        graph: the graph.
        watched: which inputs need a cotangent; by default all that can have one.
        seeded: which outputs have cotangents; by default all that can have one.
        symbolic: whether rows of values with symbolic sizes are made dense; else they are errors.
        recompute: whether the backward graph recomputes intermediate values, from inputs and
            results of effects.
        known: the outer sizes that are known in the backward graph.
        reads: the resources of the variables that need a cotangent. Cotangents of reads inside
            are summed; they follow the cotangents of inputs.
        apart: the numbers of the gradients that may be rows to be made dense in the end (see
            `_rows_in`); numbers of reads follow those of inputs.

    Attributes:
        inputs: the inputs of the graph, as values of the joint graph.
        forward: graph from the inputs to the outputs and the residuals.
        backward: graph from the residuals and output cotangents to input cotangents.
        residuals: values of the joint graph.
        gradients: a `Gradient` for each input, then for each of ``reads``.
    """

    def __init__(
        self, graph: Graph, watched: Sequence[bool] | None = None,
        seeded: Sequence[bool] | None = None, *, symbolic: bool = False,
        recompute: bool = False, known: Mapping[str, Size] = MappingProxyType({}),
        reads: Sequence[Any] = (), apart: Collection[int] = (),
    ) -> None:  # fmt: skip
        self._graph = graph
        self._reads = [_Watched(resource) for resource in reads]
        self._watched = [True] * len(graph.inputs) if watched is None else watched
        self._seeded = [True] * len(graph.outputs) if seeded is None else seeded
        self._symbolic = symbolic
        self._apart = apart
        self._known = known
        self._cotangents: list[Value] = []
        self.gradients: list[Gradient] = []
        self._whole = self._trace()
        self._split(self._whole, recompute)

    def _trace(self) -> Graph:
        """The joint graph from inputs and cotangents to outputs and gradients."""
        tracer = Tracer(self._graph.name)
        own = (name for _, name, _ in names_of(self._graph))
        tracer.sizes.reserve(frozenset(self._known).union(own))
        tape = Tape(self._reads)

        def trace() -> list[Value]:
            inputs = [_input(tracer, v) for v in self._graph.inputs]
            slots = [
                (tape.watch(x),) if watched and type(x) is Tensor and x.dtype.is_inexact else ()
                for x, watched in zip(inputs, self._watched, strict=True)
            ]
            with installed(tape):
                outputs = replay(self._graph, inputs, self._known, again=True)
            seeds: dict[int, Any] = {}
            for y, seeded in zip(outputs, self._seeded, strict=True):
                if seeded and type(y) is Tensor and y.dtype.is_inexact:
                    g = tracer.add_input(y.type, "g")
                    self._cotangents.append(tracer.value_of(g))
                    add_at(seeds, tape.slot_of(y), g)
            reads = [tape.slots_of_reads(variable) for variable in self._reads]
            cotangents = search(tape, seeds, [*slots, *reads], consume=True)
            values = list(map(tracer.graph_value, outputs))
            self.gradients = [self._gradient(tracer, i, g) for i, g in enumerate(cotangents)]
            return values

        values = tracer.run(trace)
        joint = tracer.graph
        if any(r.why is not None for r in tracer.numbers) or tracer.sizes.static:
            raise EagerflowError("the derivative asks for a number")
        close_constants(tracer)
        joint.outputs = [*values, *[v for g in self.gradients for v in g.values]]
        tracer.forget()
        return joint

    def _gradient(self, tracer: Tracer, i: int, g: Cotangent | Link | None) -> Gradient:
        if g is None or isinstance(g, Link):
            return Gradient((), link=g)
        dense = False
        if type(g) is Tensor and i in self._apart and symbols(g.shape) <= self._known.keys():
            slices = _rows_in(tracer, tracer.value_of(g))
            if slices is not None:
                g, dense = slices, True
        if not isinstance(g, IndexedSlices):
            return Gradient((tracer.value_of(g),))
        if dense or all(type(d) is int for d in g.shape):
            both = (tracer.value_of(g.values), tracer.value_of(g.indices))
            return Gradient(both, g.shape, dense)
        if not self._symbolic:
            raise EagerflowError("the size of a sparse gradient is symbolic")
        return Gradient((tracer.value_of(g.to_dense()),))

    def _split(self, joint: Graph, recompute: bool) -> None:
        """Cut the joint graph into forward and backward."""
        count = len(self._graph.outputs)
        ends = [v for g in self.gradients for v in g.values]
        outputs = joint.outputs[:count]
        effects = [n for n in joint.nodes if effect_of(n) != "pure"]  # some have no outputs
        first = {n for n in needed(joint, [*outputs, *effects]) if n.op != "constant"}
        kept = first
        if recompute:
            kept = {n for n in needed(joint, effects) if n.op != "constant"}
        rest = [n for n in needed(joint, ends) if n not in kept]
        made = {v for n in rest for v in n.outputs} | set(self._cotangents)
        crossing = dict.fromkeys(v for n in rest for v in n.inputs if v not in made)
        crossing.update(dict.fromkeys(v for v in ends if v not in made))
        passed = [v for v in joint.values() if v.node is None or v.node in kept]
        given = [*crossing, *self._cotangents]
        crossing.update(dict.fromkeys(_tell_sizes(passed, rest, given, self._known)))
        self.residuals = list(crossing)
        self.inputs = [v for v in joint.inputs if v not in set(self._cotangents)]
        self.forward = part_of(
            joint, self.inputs, [n for n in joint.nodes if n in first or n.op == "constant"],
            [*outputs, *self.residuals],
        )  # fmt: skip
        self.backward = part_of(joint, [*self.residuals, *self._cotangents], rest, ends)

    def lifted(self, numbers: Collection[int]) -> tuple[list[int], list[Value], Graph]:
        """The residuals that follow from some inputs alone, by ops that cannot fail.

        Args:
            numbers: the numbers of these inputs.

        Returns:
            The numbers of the inputs used, the residuals, and the graph from these inputs to the
            residuals.
        """
        known = {self.inputs[i] for i in numbers}
        made = set[Value]()
        for node in self._whole.nodes:
            given = {v for v in node.inputs if v.node is None or v.node.op != "constant"}
            if given and given <= known and _is_safe(node):
                made.update(node.outputs)
                known.update(node.outputs)
        residuals = [v for v in self.residuals if v in made]
        nodes = needed(self._whole, residuals)
        read = {v for node in nodes for v in node.inputs}
        bases = [i for i in numbers if self.inputs[i] in read]
        return bases, residuals, part_of(
            self._whole, [self.inputs[i] for i in bases], nodes, residuals
        )  # fmt: skip


def _rows_in(tracer: Tracer, value: Value) -> IndexedSlices | None:
    """The rows whose sum ``value`` is, in the order of addition.

    The cotangent of ``x[i]`` with an index that has no axes is as large as ``x``. A loop that reads
    an element in each iteration would make and add one such array per iteration, so inside of loops
    and branches cotangents are split into rows again: rows are loop-carried, and summed once in
    the end. The result is dense, as without a loop.

    Args:
        tracer: the trace under way, to which ``value`` belongs.
        value: a dense cotangent.

    Returns:
        The rows; None if ``value`` is not a sum of rows alone.
    """
    parts = _scattered(value)
    if not parts:
        return None
    shape = value.type.shape
    slices = [_rows(tracer, part, shape) for part in parts]
    if len(slices) == 1:
        return slices[0]
    values = functions["concat"]([one.values for one in slices], axis=0)
    return IndexedSlices(values, functions["concat"]([one.indices for one in slices]), shape)


def _scattered(value: Value) -> list[Value] | None:
    """The scattered rows that are summands of ``value``; None if there are other summands."""
    node = value.node
    if node is None or node.control_inputs or not value.type.shape:
        return None
    op = find_op(node.op)
    if op is None:
        return None
    if op.sums:
        parts = [_scattered(summand) for summand in node.inputs]
        return None if None in parts else [row for part in parts if part for row in part]
    if op.row_sum is None or len(node.inputs) != 2:
        return None
    values, indices = [v.spec.shape for v in node.inputs]
    return [value] if op.row_sum.is_whole(values, indices, value.type.shape, node.attrs) else None


def _rows(tracer: Tracer, value: Value, shape: Shape) -> IndexedSlices:
    assert value.node is not None
    row_sum = get_op(value.node.op).row_sum
    assert row_sum is not None
    values, indices = [tracer.result(v) for v in value.node.inputs]
    return row_sum.slices(values, indices, shape)


def _is_safe(node: Node) -> bool:
    """Whether a node is a pure op of one array that never fails."""
    op = find_op(node.op)
    if op is None or op.effect != "pure" or len(node.inputs) != 1:
        return False
    fails_on = op.failing(node.attrs)
    if fails_on == "nothing" or (fails_on == "sizes" and op.elementwise):
        return True
    types = [v.type.shape for v in node.inputs]
    return fails_on == "sizes" and not any(named_sizes((*types, *node.attrs.values())))


def _input(tracer: Tracer, value: Value) -> Any:
    if isinstance(value.type, NumberType):
        return tracer.add_number(value.type.kind(1), value.label)
    return tracer.add_input(value.type.on(value.device), value.label)


def close_constants(tracer: Tracer) -> None:
    """Make the concrete tensors that a trace used constants of its graph."""
    graph = tracer.graph
    constants = {c.value: c.handle for c in tracer.captures.values()}
    graph.inputs = [v for v in graph.inputs if v not in constants]
    for value, handle in constants.items():
        value.node = Node(
            "constant", value.label, (), {"value": handle}, (value,), device=value.device
        )
        value.index, value.stated = 0, None
        graph.nodes.insert(0, value.node)
    for i, value in enumerate(graph.inputs):
        value.index = i


def _tell_sizes(
    passed: Sequence[Value], nodes: Sequence[Node], given: Sequence[Value], known: Collection[str]
) -> list[Value]:
    """The values of the forward part whose shapes determine sizes that ``nodes`` need."""
    told = {*known, *(str(d) for v in given for d in v.type.shape)}
    values = []
    for node in nodes:
        for name in named_sizes(tuple(node.attrs.values())):
            if name not in told:
                told.add(name)
                values += [v for v in passed if name in map(str, v.type.shape)][:1]
        # the backward part computes sizes that depend on data itself
        told.update(str(d) for v in node.outputs for d in v.type.shape)
    return values


def part_of(
    graph: Graph, inputs: Sequence[Value], nodes: Sequence[Node], outputs: Sequence[Value]
) -> Graph:
    """The graph from some values of ``graph`` to others; effects keep their order."""
    result = Graph(graph.name)
    result.resources = dict(graph.resources)
    values = {v: result.add_input(v.type, v.label or "residual", v.device) for v in inputs}
    copies: dict[Node, Node] = {}
    for node in nodes:
        if all(v in values for v in node.outputs) and node.outputs:
            continue  # an input of the part
        before = tuple([copies[n] for n in node.control_inputs if n in copies])
        made = copies[node] = copy_node(result, node, [values[v] for v in node.inputs], before)
        values.update(zip(node.outputs, made.outputs, strict=True))
    result.outputs = [values[v] for v in outputs]
    return result
