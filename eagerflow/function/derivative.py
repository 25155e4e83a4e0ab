"""The derivative of a trace: a forward graph that also outputs residuals, and a backward graph.

A traced function that is called under a tape runs the forward graph, and the tape the backward
graph. Both come from one joint graph, made by tracing the tape itself as it records and
differentiates the function: nodes that the results need are forward, all others backward, and
values that cross are residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, final

from eagerflow.autodiff.tape import Tape
from eagerflow.control.apply import mixed
from eagerflow.control.derivatives.building import flowing_gradients, passed_on
from eagerflow.control.derivatives.joint import Joint, part_of
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import Tensor
from eagerflow.errors import EagerflowError
from eagerflow.graph.edit import clone, copy_node
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes import optimise
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import is_read, kind_of
from eagerflow.graph.value_types import NumberType
from eagerflow.placement.apply_rules import place
from eagerflow.placement.counterparts import counterparts
from eagerflow.placement.rules import Rules
from eagerflow.runtime.background_compilation import Mode
from eagerflow.runtime.executable import Executable
from eagerflow.runtime.replay import is_watched, replay
from eagerflow.types import TensorType

#: runs an executable on tensors and numbers; returns tensors and numbers
Run = Callable[[Executable, Sequence[Any]], list[Any]]


@final
class Derivative:
    """The forward and the backward graph of a trace.

    Args:
        graph: of the trace.
        rules: by which both graphs are placed; None where the program says.
        compile: when both graphs are compiled.

    Attributes:
        forward: from the inputs and the reads of variables to the outputs and the residuals.
        backward: from the residuals and the cotangents of the outputs to the cotangents of the
            inputs.
    """

    def __init__(self, graph: Graph, rules: Rules | None = None, compile: Mode = "off") -> None:
        self._compile: Mode = compile
        self._graph = graph
        self._count = len(graph.outputs)
        plain, self._reads = without_reads(graph)
        self._joint = Joint(plain)
        self.forward, self.backward = self._placed(rules)
        self._forward = Executable(optimise(self.forward)[0], compile)
        #: backward graph and executable, by flags of the inputs whose cotangents are wanted
        self._backward: dict[tuple[bool, ...], tuple[Graph, Executable]] = {}

    @staticmethod
    def of(graph: Graph, rules: Rules | None = None, compile: Mode = "off") -> Derivative | None:
        """The derivative; None where the tape has to record each op."""
        if not is_smooth(graph) or not _depend_alike(graph):
            return None
        try:
            return Derivative(graph, rules, compile)
        except EagerflowError:  # the tape raises it with its own text, or does not need the op
            return None

    # --- making ---

    def _placed(self, rules: Rules | None) -> tuple[Graph, Graph]:
        """Both graphs, placed. Residuals stay on the device where they are made."""
        forward, backward = self._joint.forward, self._joint.backward
        if rules is None:
            return forward, backward
        known, originals = rules.targets.keys(), counterparts(self._graph, forward, backward)
        forward = place(
            forward, rules, returned=self._count, known=known, originals=originals
        ).graph
        backward, _ = clone(backward)
        for given, made in zip(backward.inputs, forward.outputs[self._count :], strict=False):
            given.stated = made.device
        return forward, place(backward, rules, known=known, originals=originals).graph

    # --- running ---

    @property
    def executables(self) -> list[Executable]:
        """The executables of the graphs made so far."""
        return [self._forward, *[executable for _, executable in list(self._backward.values())]]

    def call(
        self, tape: Tape, inputs: Sequence[Any], run: Run = Executable.apply
    ) -> Sequence[Tensor]:
        """The outputs for these inputs (tensors and numbers), as one step of ``tape``.

        Args:
            tape: the tape.
            inputs: tensors and numbers.
            run: runs the executable of either graph.
        """
        tensors = [x for x in inputs if type(x) is Tensor]

        def body(*xs: Tensor) -> tuple[Any, ...]:
            return tuple(replay(self._graph, mixed(inputs, xs)))

        def forward(*xs: Tensor) -> Passed:
            return self._run(mixed(inputs, xs), run)

        return tape.call(Composite(self._graph.name, body, forward, own_rule=False), tensors)

    def _run(self, inputs: Sequence[Any], run: Run) -> Passed:
        reads = [bind(get_op(node.op), **node.attrs) for node in self._reads]
        everything = [*inputs, *reads]
        values = run(self._forward, everything)
        tensors = [type(x) is Tensor for x in everything]

        def pull(
            residuals: Sequence[Any], gs: Sequence[Any], wanted: Sequence[bool]
        ) -> Sequence[Any]:
            flags = iter(wanted)
            return self._pull(residuals, gs, [next(flags) if t else False for t in tensors], run)

        return passed_on(values[: self._count], values[self._count :], pull, reads)

    def _pull(
        self, residuals: Sequence[Any], gs: Sequence[Any], wanted: Sequence[bool], run: Run
    ) -> Sequence[Any]:
        """The cotangents of all tensors among the inputs, then of the reads."""
        graph, executable = self._part(tuple(wanted))
        inputs = [*residuals, *[g for g in gs if g is not None]]
        values = replay(graph, inputs) if is_watched() else run(executable, inputs)
        gradients = self._joint.gradients
        asked = [
            g if want else g._replace(values=()) for g, want in zip(gradients, wanted, strict=True)
        ]
        tensors = [type(v.type) is TensorType for v in self._joint.inputs]
        cotangents = compress(flowing_gradients(asked, values), tensors)
        return [g.link or x for g, x in zip(compress(gradients, tensors), cotangents, strict=True)]

    def _part(self, wanted: tuple[bool, ...]) -> tuple[Graph, Executable]:
        """The backward graph for the wanted inputs, with its executable."""
        entry = self._backward.get(wanted)
        if entry is None:
            outputs = iter(self.backward.outputs)
            ends = []
            for gradient, want in zip(self._joint.gradients, wanted, strict=True):
                values = [next(outputs) for _ in gradient.values]
                ends += values if want else []
            part = part_of(self.backward, self.backward.inputs, self.backward.nodes, ends)
            entry = self._backward[wanted] = (
                part, Executable(optimise(part)[0], self._compile)
            )  # fmt: skip
        return entry


def without_reads(graph: Graph) -> tuple[Graph, list[Node]]:
    """A graph with further inputs in place of reads of variables, and the nodes of these reads."""
    result = Graph(graph.name)
    result.resources = dict(graph.resources)
    values = {v: result.add_input(v.type, v.label, v.device) for v in graph.inputs}
    reads = [node for node in graph.nodes if is_read(node.op)]
    for node in reads:
        (read,) = node.outputs
        values[read] = result.add_input(read.type, node.name, read.device)
    copies: dict[Node, Node] = {}
    for node in graph.nodes:
        if not is_read(node.op):
            before = tuple([copies[n] for n in node.control_inputs if n in copies])
            made = copies[node] = copy_node(result, node, [values[v] for v in node.inputs], before)
            values.update(zip(node.outputs, made.outputs, strict=True))
    result.outputs = [values[v] for v in graph.outputs]
    return result, reads


def is_smooth(graph: Graph) -> bool:
    """Whether a graph has no effects but reads and draws, and gives tensors."""
    plain = all(is_read(n.op) or _only_draws(n) for n in graph.nodes)
    return plain and not any(isinstance(v.type, NumberType) for v in graph.outputs)


def _only_draws(node: Node) -> bool:
    """Whether a node has no effect other than drawing random numbers."""
    inner = [graph for _, graph in node.subgraphs()]
    if inner:
        return all(_only_draws(n) for graph in inner for n in graph.nodes)
    return effect_of(node) == "pure" or (kind_of(node.op) == "op" and get_op(node.op).draws)


def _depend_alike(graph: Graph) -> bool:
    """Whether all floating outputs depend on the same inputs and variables.

    Otherwise the derivative of one output with respect to an input that only another output
    depends on would be zero, not None.
    """
    known: dict[Value, frozenset[Value]] = {v: frozenset((v,)) for v in graph.inputs}
    for node in graph.nodes:
        origins = frozenset().union(*(known[v] for v in node.inputs))
        for value in node.outputs:
            known[value] = frozenset((value,)) if is_read(node.op) else origins
    kinds = [v for v in graph.outputs if isinstance(v.type, TensorType) and v.type.dtype.is_inexact]
    return len({known[v] for v in kinds}) <= 1
