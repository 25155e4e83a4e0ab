"""Takes out what nothing needs, also of loops and branches.

A loop-carried value is read if its last value is, or if an iteration reads it for something
else that is; a stacked result, or the result of a branch, if it has a reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from eagerflow.dims import Dim
from eagerflow.graph.edit import sizes_named_by
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import Change, Form, Report, Rewriter, effect_of, shown
from eagerflow.graph.signatures import kind_of

__all__ = ["prune"]

#: numbers of inputs or outputs, in order
Places = tuple[int, ...]


def prune(graph: Graph) -> tuple[Graph, Report]:
    """Drop reads and pure nodes whose values have no reader. Inputs and other effects stay.

    Loops and branches lose results without a reader, values carried for these alone, and
    operands that they do not need any more.

    A control edge alone does not keep a read or a pure node: there is nothing to wait for.
    """
    return _Pruner().run(_LiveSearch().of(graph), None)


@final
class _Pruner:
    """Makes the new graphs; a subgraph that several nodes share stays one."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Places | None], tuple[Graph, Report]] = {}

    def run(self, live: Live, inputs: Places | None) -> tuple[Graph, Report]:
        """The graph with those of its nodes that are needed, and these of its inputs."""
        graph = live.graph
        rewriter = Rewriter("prune", graph)
        taken = graph.inputs if inputs is None else [graph.inputs[i] for i in inputs]
        rewriter.ends = taken, [graph.outputs[i] for i in live.outputs]
        for node in graph.nodes:
            if node not in live.nodes:
                rewriter.drop(node, (), f"dropped {shown(node)} = {node.op}, which nothing needs")
            elif node in live.inside:
                self._inside(rewriter, node, live.inside[node])
        return rewriter.finish()

    def _part(self, live: Live, inputs: Places | None) -> tuple[Graph, Report]:
        key = id(live), inputs
        if key not in self._known:
            self._known[key] = self.run(live, inputs)
        return self._known[key]

    def _inside(self, rewriter: Rewriter, node: Node, inside: Inside) -> None:
        unread = len(node.outputs) - len(inside.outputs)
        if unread:
            what = "result" if unread == 1 else "results"
            rewriter.note(f"&{node.name} = {node.op} lost {unread} {what}, read by nothing", node)
        made: dict[int, Graph] = {}
        for live in inside.parts:
            seen = id(live.graph) in made
            made[id(live.graph)], report = self._part(live, inside.given)
            if not seen:
                where = f"in &{node.name}: "
                rewriter.changes += [Change(where + c.text, c.source) for c in report.changes]
        attrs = {key: _with(made, value) for key, value in node.attrs.items()}
        if node.op == "scan":
            attrs["carry"] = sum(i < node.attrs["carry"] for i in inside.outputs)
        same = all(attrs[key] is value for key, value in node.attrs.items())
        fewer = len(inside.inputs) < len(node.inputs)
        if unread or fewer or not same:
            inputs = tuple([node.inputs[i] for i in inside.inputs])
            rewriter.forms[node] = (Form(node.op, inputs, attrs),)
            rewriter.kept[node] = inside.outputs


def _with(graphs: Mapping[int, Graph], item: Any) -> Any:
    """An attribute with other subgraphs."""
    if type(item) is Graph:
        return graphs[id(item)]
    if type(item) is tuple and any(type(part) is Graph for part in item):
        parts = tuple([_with(graphs, part) for part in item])
        return item if all(a is b for a, b in zip(item, parts, strict=True)) else parts
    return item


# --- what is read ------------------------------------------------------------------------------


@final
@dataclass(slots=True, eq=False)
class Live:
    """What is read in one graph.

    Attributes:
        graph: the graph.
        outputs: the indices of its outputs that are.
        nodes: those that have to run.
        values: those that these, or the outputs, take.
        inside: for each of ``nodes`` that has subgraphs what is read of and in it.
    """

    graph: Graph
    outputs: Places
    nodes: set[Node] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)
    inside: dict[Node, Inside] = field(default_factory=dict)

    @property
    def inputs(self) -> set[int]:
        """The indices of the inputs that are read."""
        return {v.index for v in self.values if v.node is None}


class Inside(NamedTuple):
    """What is read of a node with subgraphs.

    Attributes:
        inputs: the indices of the inputs that it still needs.
        outputs: the indices of the outputs that it still gives.
        given: the indices of the inputs that its subgraphs still need; None for all.
        parts: the subgraphs, in order.
    """

    inputs: Places
    outputs: Places
    given: Places | None
    parts: Sequence[Live]


@final
class _LiveSearch:
    """Finds what is read; no subgraph is searched twice."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Places, frozenset[str]], Live] = {}

    def of(self, graph: Graph) -> Live:
        """What is read in ``graph``, all of whose inputs and outputs stay."""
        told = frozenset(str(d) for v in graph.inputs for d in v.type.shape)
        return self._find(graph, _all(graph.outputs), told)

    def _find(self, graph: Graph, outputs: Places, outside: frozenset[str]) -> Live:
        """What is read if these outputs are; ``outside`` are the sizes that are known around it."""
        key = id(graph), outputs, outside
        live = self._known.get(key)
        if live is None:
            live = self._known[key] = self._search(Live(graph, outputs), outside)
        return live

    def _search(self, live: Live, outside: frozenset[str]) -> Live:
        graph, nodes, values = live.graph, live.nodes, live.values
        tellers = _tellers(graph, outside)
        inner: frozenset[str] | None = None
        values.update(graph.outputs[i] for i in live.outputs)
        nodes.update(v.node for v in values if v.node is not None)
        for node in reversed(graph.nodes):
            if node not in nodes:
                if effect_of(node) in ("pure", "reads"):
                    continue
                nodes.add(node)
            taken: Sequence[Value] = node.inputs
            if node.attrs and any(node.subgraphs()):
                inner = outside.union(tellers) if inner is None else inner
                inside = live.inside[node] = self._inside(node, values, inner)
                taken = [node.inputs[i] for i in inside.inputs]
            if tellers:
                names = sizes_named_by(node)
                taken = [*taken, *[tellers[name] for name in names if name in tellers]]
            for value in taken:
                values.add(value)
                if value.node is not None:
                    nodes.add(value.node)
        return live

    # --- subgraphs ---

    def _inside(self, node: Node, read: set[Value], outside: frozenset[str]) -> Inside:
        outputs = {i for i, v in enumerate(node.outputs) if v in read}
        if kind_of(node.op) == "branches":
            return self._branches(node, _sorted(outputs), outside)
        if node.op == "while_loop":
            return self._loop(node, outputs, outside)
        if node.op == "scan":
            return self._scan(node, outputs, outside)
        parts = [self._find(g, _all(g.outputs), outside) for _, g in node.subgraphs()]
        return Inside(_all(node.inputs), _all(node.outputs), None, parts)

    def _branches(self, node: Node, outputs: Places, outside: frozenset[str]) -> Inside:
        parts = [self._find(graph, outputs, outside) for graph in node.attrs["branches"]]
        given = _sorted(set[int]().union(*(part.inputs for part in parts)))
        return Inside((0, *[i + 1 for i in given]), outputs, given, parts)

    def _loop(self, node: Node, round_: set[int], outside: frozenset[str]) -> Inside:
        test = self._find(node.attrs["cond"], (0,), outside)
        round_ |= test.inputs
        while True:
            places = _sorted(round_)
            body = self._find(node.attrs["body"], places, outside)
            if body.inputs <= round_:
                parts = {"cond": test, "body": body}
                return Inside(places, places, places, [parts[name] for name, _ in node.subgraphs()])
            round_ |= body.inputs

    def _scan(self, node: Node, outputs: set[int], outside: frozenset[str]) -> Inside:
        count: int = node.attrs["carry"]
        while True:
            places = _sorted(outputs)
            body = self._find(node.attrs["body"], places, outside)
            round_ = {i for i in body.inputs if i < count}
            if round_ <= outputs:
                inputs = {i for i in outputs if i < count} | body.inputs
                return Inside(_sorted(inputs), places, _sorted(inputs), [body])
            outputs |= round_


def _all(values: Sequence[Value]) -> Places:
    return tuple(range(len(values)))


def _sorted(places: set[int]) -> Places:
    return tuple(sorted(places))


def _tellers(graph: Graph, outside: frozenset[str]) -> dict[str, Value]:
    """For each name of a size that is not known around the graph the first value that has it."""
    tellers: dict[str, Value] = {}
    for value in graph.values():
        for size in value.type.shape:
            if isinstance(size, Dim) and size.is_name and str(size) not in outside:
                tellers.setdefault(str(size), value)
    return tellers
