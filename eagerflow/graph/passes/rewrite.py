"""The changes of a pass: collected, applied in one go to a new graph, and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple, final

from eagerflow.core.op import find_op
from eagerflow.graph.edit import with_graphs
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import kind_of
from eagerflow.graph.value_types import NumberType
from eagerflow.source import Source
from eagerflow.types import TensorType

#: bytes of an array from which on allocating memory costs more than looking for a free buffer
LARGE: Final = 1 << 16
#: effects on state, from the weakest
RANKS: Final = ("pure", "reads", "writes", "fence", "blocks")


def effect_of(node: Node) -> str:
    """The effect of ``node`` on state (see `Op.effect`); for an unknown op, the strongest."""
    op = find_op(node.op)
    if op is not None:
        return op.effect
    kind = kind_of(node.op)
    if kind == "constant" or kind == "number":
        return "pure"
    if kind == "steering" or kind == "op":
        return "blocks"
    inside = (effect_of(n) for _, graph in node.subgraphs() for n in graph.nodes)
    return max(inside, key=RANKS.index, default="pure")


def is_pure(node: Node) -> bool:
    """Whether ``node`` has no effect, so that it may run any number of times, or not at all."""
    return effect_of(node) == "pure"


def is_large(value: Value) -> bool:
    """Whether writing ``value`` into an existing buffer is faster than allocating one."""
    kind = value.type
    if isinstance(kind, NumberType) or any(type(d) is not int for d in kind.shape):
        return False
    return prod(kind.shape) * kind.dtype.itemsize >= LARGE


def may_be_large(kind: TensorType) -> bool:
    """Whether values of a type are that large, or may be, where sizes are not known."""
    sizes = [size for size in kind.shape if type(size) is int]
    return len(sizes) < len(kind.shape) or prod(sizes) * kind.dtype.itemsize >= LARGE


def shown(node: Node) -> str:
    """The name of a node in the text form."""
    return f"%{node.name}" if len(node.outputs) == 1 else f"&{node.name}"


@final
@dataclass(frozen=True, slots=True)
class Change:
    """A change that a pass made.

    Attributes:
        text: the change, in the words of the text form.
        source: the user's line; formatted only when it is read.
    """

    text: str
    source: Source | str | None = None

    def __str__(self) -> str:
        return self.text if self.source is None else f"{self.text}  # {self.source}"


@final
@dataclass(frozen=True, slots=True)
class Report:
    """The changes of one run of a pass.

    Attributes:
        name: of the pass.
        changes: in the order of the graph.
        before: the number of nodes before the run.
        after: the number of nodes after the run.
    """

    name: str
    changes: Sequence[Change]
    before: int
    after: int

    def __str__(self) -> str:
        what = f"{len(self.changes)} change{'' if len(self.changes) == 1 else 's'}"
        lines = [f"{self.name}: {what}, {self.before} -> {self.after} nodes"]
        return "\n".join(lines + [f"  {change}" for change in self.changes])


@final
@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an optimised graph.

    Attributes:
        graph: the graph that was optimised.
        reports: of the runs of passes that changed something, in order.
    """

    graph: Graph
    reports: tuple[Report, ...]


#: a function from graph to graph that reports its changes
Pass = Callable[[Graph], tuple[Graph, Report]]


class Form(NamedTuple):
    """The computation of a node: op, inputs and attributes."""

    op: str
    inputs: tuple[Value, ...]
    attrs: dict[str, Any]


@final
class Rewriter:
    """The changes of one pass to one graph, which stays as it is.

    Nodes are to be visited in order. The replacement of a value is always final, as the value was
    defined, and perhaps replaced, before.

    Args:
        name: of the pass.
        graph: the graph.
    """

    def __init__(self, name: str, graph: Graph) -> None:
        self.name = name
        self.graph = graph
        self.changes: list[Change] = []
        self.replaced: dict[Value, Value] = {}
        self.forms: dict[Node, tuple[Form, ...]] = {}
        self.dropped: set[Node] = set()
        self.order = graph.nodes
        self._joined: dict[Node, Node] = {}
        #: for nodes that lose some of their outputs the indices of the others
        self.kept: dict[Node, Sequence[int]] = {}
        #: the inputs and the outputs of the new graph
        self.ends: tuple[Sequence[Value], Sequence[Value]] = graph.inputs, graph.outputs
        self._bodies: dict[tuple[int, Pass], Graph] = {}

    def inputs(self, node: Node) -> tuple[Value, ...]:
        """The current inputs of ``node``, after replacements."""
        replaced = self.replaced
        if not replaced:
            return node.inputs
        return tuple([replaced.get(v, v) for v in node.inputs])

    def form(self, node: Node) -> Form:
        """The current form of ``node``."""
        forms = self.forms.get(node)
        return Form(node.op, self.inputs(node), node.attrs) if forms is None else forms[0]

    def drop(self, node: Node, instead: Sequence[Value], text: str) -> None:
        """Remove ``node``; ``instead`` are the replacements of its outputs, if they are used."""
        self.dropped.add(node)
        self.replaced.update(zip(node.outputs, instead, strict=False))
        self.note(text, node)

    def put(self, node: Node, forms: Iterable[Form], text: str) -> None:
        """Replace the computation of ``node``: by one form for all outputs, or one for each."""
        self.forms[node] = tuple(forms)
        self.note(text, node)

    def join(self, first: Node, second: Node, form: Form, text: str) -> None:
        """Replace two nodes by one of a given form, which gives the outputs of both.

        Call it when the inputs of ``form`` are final and come before ``first`` in `order`.
        """
        self._joined[first] = second
        self.forms[first] = (form,)
        self.dropped.add(second)
        self.note(text, first)

    def note(self, text: str, node: Node) -> None:
        """Add a line to the report."""
        self.changes.append(Change(text, node.source))

    def inside(self, node: Node, run: Pass) -> None:
        """Run the pass on the subgraphs of ``node``."""
        attrs = {}
        for key, value in node.attrs.items():
            if type(value) is Graph or (type(value) is tuple and Graph in map(type, value)):
                new = with_graphs(value, lambda graph: self._body(graph, run, node))
                if new is not value:
                    attrs[key] = new
        if attrs:
            form = self.form(node)
            self.forms[node] = (form._replace(attrs={**form.attrs, **attrs}),)

    def _body(self, graph: Graph, run: Pass, node: Node) -> Graph:
        key = id(graph), run
        body = self._bodies.get(key)
        if body is None:
            body, report = run(graph)
            self._bodies[key] = body
            where = f"in &{node.name}: "
            self.changes += [Change(where + c.text, c.source) for c in report.changes]
        return body

    def finish(self) -> tuple[Graph, Report]:
        """The new graph, or the old one if nothing has changed."""
        before = len(self.graph.nodes)
        graph = self.graph
        inputs, outputs = self.ends
        shorter = len(inputs) < len(graph.inputs) or len(outputs) < len(graph.outputs)
        if self.dropped or self.forms or self.replaced or shorter:
            graph = self.build()
        return graph, Report(self.name, self.changes, before, len(graph.nodes))

    def build(self) -> Graph:
        old, result = self.graph, Graph(self.graph.name)
        result.resources = dict(old.resources)
        result._names = dict(old._names)
        values: dict[Value, Value] = {}
        inputs, outputs = self.ends
        for i, value in enumerate(inputs):
            values[value] = Value(value.type, None, i, value.label, value.stated)
        result.inputs = list(values.values())
        self._redirect(values, inputs)
        nodes: dict[Node, tuple[Node, ...]] = {}  # the new sources of control edges from a node
        for node in self.order:
            before = node.control_inputs
            if before:
                before = tuple(dict.fromkeys([n for c in before for n in nodes[c]]))
            if node in self.dropped:
                nodes[node] = before
                for value in node.outputs:
                    instead = self.replaced.get(value)
                    if instead is not None:
                        values[value] = values[instead]
                continue
            forms = self.forms.get(node) or (Form(node.op, node.inputs, node.attrs),)
            own = node.outputs
            if node in self._joined:
                own = (*own, *self._joined[node].outputs)
            elif node in self.kept:
                own = tuple([own[i] for i in self.kept[node]])
            nodes[node] = made = _make(result, node, forms, values, before, own)
            if len(made) == 1:
                for value, new in zip(own, made[0].outputs, strict=True):
                    values[value] = new
            else:
                for value, part in zip(node.outputs, made, strict=True):
                    values[value] = part.outputs[0]
            self._redirect(values, own)
        result.outputs = [values[v] for v in outputs]
        return result

    def _redirect(self, values: dict[Value, Value], own: Sequence[Value]) -> None:
        """Apply replacements of values whose nodes stay."""
        if self.replaced:
            values.update((v, values[self.replaced[v]]) for v in own if v in self.replaced)


def _make(
    graph: Graph,
    node: Node,
    forms: tuple[Form, ...],
    values: dict[Value, Value],
    before: tuple[Node, ...],
    own: tuple[Value, ...],
) -> tuple[Node, ...]:
    made = []
    several = len(forms) > 1
    for i, (op, inputs, attrs) in enumerate(forms):
        # not by `add_node`, which is for names that may be taken
        name = graph.unique(f"{node.name}_{i}") if several else node.name
        new = Node(
            op, name, tuple([values[v] for v in inputs]), dict(attrs), (), before,
            node.device, node.because, node.scope, node.source, forward=node.forward,
            within=node.within,
        )  # fmt: skip
        outputs = (own[i],) if several else own
        # an output whose index changes keeps its name
        moved = len(outputs) != len(node.outputs) and not several
        labels = [v.label or v.name if moved else v.label for v in outputs]
        stated = [v.stated for v in outputs]
        if op != node.op and stated and stated[0] is not None:
            # a node with another op, such as a constant, is where its output is
            new.device, stated = stated[0], [None] * len(stated)
        new.outputs = tuple([
            Value(v.type, new, j, label, device)
            for j, (v, label, device) in enumerate(zip(outputs, labels, stated, strict=True))
        ])  # fmt: skip
        graph.nodes.append(new)
        made.append(new)
    return tuple(made)
