"""Dead-code elimination, also within loops and branches.

A loop-carried value is live if its last value is read, or if an iteration reads it for another
live value; a stacked result, or the result of a branch, is live if it has a reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

from eagerflow.graph.edit import size_values, sizes_named_by, with_graphs
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import Change, Form, Report, Rewriter, effect_of, shown
from eagerflow.graph.signatures import kind_of

#: indices of inputs or outputs, in order
Indices = tuple[int, ...]


def prune(graph: Graph) -> tuple[Graph, Report]:
    """Drop reads and pure nodes whose values have no reader. Inputs and other effects stay.

    Loops and branches lose results without a reader, values carried for these alone, and
    operands that they do not need any more.

    A control edge alone does not keep a read or a pure node: it has no effect to wait for.
    """
    return _Pruner().run(_LiveSearch().of(graph), None)


@final
class _Pruner:
    """The builder of pruned graphs; a subgraph that several nodes share stays shared."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Indices | None], tuple[Graph, Report]] = {}

    def run(self, live: Live, inputs: Indices | None) -> tuple[Graph, Report]:
        """The graph reduced to its live nodes, and to the inputs of these indices."""
        graph = live.graph
        rewriter = Rewriter("prune", graph)
        taken = graph.inputs if inputs is None else [graph.inputs[i] for i in inputs]
        rewriter.ends = taken, [graph.outputs[i] for i in live.outputs]
        for node in graph.nodes:
            if node not in live.nodes:
                rewriter.drop(node, (), f"dropped {shown(node)} = {node.op}, which is not needed")
            elif node in live.inside:
                self._inside(rewriter, node, live.inside[node])
        return rewriter.finish()

    def _part(self, live: Live, inputs: Indices | None) -> tuple[Graph, Report]:
        key = id(live), inputs
        if key not in self._known:
            self._known[key] = self.run(live, inputs)
        return self._known[key]

    def _inside(self, rewriter: Rewriter, node: Node, inside: Inside) -> None:
        unread = len(node.outputs) - len(inside.outputs)
        if unread:
            what = "result" if unread == 1 else "results"
            rewriter.note(f"&{node.name} = {node.op} lost {unread} unread {what}", node)
        made: dict[int, Graph] = {}
        for live in inside.parts:
            seen = id(live.graph) in made
            made[id(live.graph)], report = self._part(live, inside.given)
            if not seen:
                where = f"in &{node.name}: "
                rewriter.changes += [Change(where + c.text, c.source) for c in report.changes]
        attrs = {key: with_graphs(v, lambda g: made[id(g)]) for key, v in node.attrs.items()}
        if node.op == "scan":
            attrs["carry"] = sum(i < node.attrs["carry"] for i in inside.outputs)
        same = all(attrs[key] is value for key, value in node.attrs.items())
        fewer = len(inside.inputs) < len(node.inputs)
        if unread or fewer or not same:
            inputs = tuple([node.inputs[i] for i in inside.inputs])
            rewriter.forms[node] = (Form(node.op, inputs, attrs),)
            rewriter.kept[node] = inside.outputs


# --- liveness ----------------------------------------------------------------------------------


@final
@dataclass(slots=True, eq=False)
class Live:
    """The liveness of the values and nodes of one graph.

    Attributes:
        graph: the graph.
        outputs: the indices of its live outputs.
        nodes: the nodes that have to run.
        values: the live values: operands of these nodes, and live outputs.
        inside: for each of ``nodes`` that has subgraphs the liveness of its inputs and outputs.
    """

    graph: Graph
    outputs: Indices
    nodes: set[Node] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)
    inside: dict[Node, Inside] = field(default_factory=dict)

    @property
    def inputs(self) -> set[int]:
        """The indices of the inputs that are read."""
        return {v.index for v in self.values if v.node is None}


class Inside(NamedTuple):
    """The liveness of a node with subgraphs.

    Attributes:
        inputs: the indices of the inputs that it still needs.
        outputs: the indices of the outputs that it still gives.
        given: the indices of the inputs that its subgraphs still need; None for all.
        parts: the liveness of its subgraphs, in order.
    """

    inputs: Indices
    outputs: Indices
    given: Indices | None
    parts: Sequence[Live]


@final
class _LiveSearch:
    """The liveness analysis; no subgraph is searched twice for the same outputs."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Indices, frozenset[str]], Live] = {}

    def of(self, graph: Graph) -> Live:
        """The liveness of ``graph``, all of whose inputs and outputs stay."""
        told = frozenset(str(d) for v in graph.inputs for d in v.type.shape)
        return self._find(graph, _all(graph.outputs), told)

    def _find(self, graph: Graph, outputs: Indices, outside: frozenset[str]) -> Live:
        """The liveness if these outputs are live; ``outside`` are the sizes known outside of it."""
        key = id(graph), outputs, outside
        live = self._known.get(key)
        if live is None:
            live = self._known[key] = self._search(Live(graph, outputs), outside)
        return live

    def _search(self, live: Live, outside: frozenset[str]) -> Live:
        graph, nodes, values = live.graph, live.nodes, live.values
        tellers = size_values(graph.values(), outside)
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
        kind = kind_of(node.op)
        if kind == "branches":
            return self._branches(node, _sorted(outputs), outside)
        if kind == "loop":
            return self._loop(node, outputs, outside)
        parts = [self._find(g, _all(g.outputs), outside) for _, g in node.subgraphs()]
        return Inside(_all(node.inputs), _all(node.outputs), None, parts)

    def _branches(self, node: Node, outputs: Indices, outside: frozenset[str]) -> Inside:
        parts = [self._find(graph, outputs, outside) for graph in node.attrs["branches"]]
        given = _sorted(set[int]().union(*(part.inputs for part in parts)))
        return Inside((0, *[i + 1 for i in given]), outputs, given, parts)

    def _loop(self, node: Node, outputs: set[int], outside: frozenset[str]) -> Inside:
        """The live outputs of a loop, with the carried values that iterations need for them."""
        count: int = node.attrs.get("carry", len(node.inputs))
        parts = {"body": self._find(node.attrs["body"], _sorted(outputs), outside)}
        if "cond" in node.attrs:
            parts["cond"] = self._find(node.attrs["cond"], (0,), outside)
        while True:
            carry = {i for part in parts.values() for i in part.inputs if i < count}
            if carry <= outputs:
                break
            outputs |= carry
            parts["body"] = self._find(node.attrs["body"], _sorted(outputs), outside)
        inputs = _sorted({i for i in outputs if i < count} | parts["body"].inputs)
        inside = [parts[name] for name, _ in node.subgraphs()]
        return Inside(inputs, _sorted(outputs), inputs, inside)


def _all(values: Sequence[Value]) -> Indices:
    return tuple(range(len(values)))


def _sorted(indices: set[int]) -> Indices:
    return tuple(sorted(indices))
