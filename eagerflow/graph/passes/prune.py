"""Takes out what nothing needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes.liveness import Inside, Live, LiveSearch, Places
from eagerflow.graph.passes.report import Change, Report
from eagerflow.graph.passes.rewrite import Form, Rewriter, shown

__all__ = ["prune"]


def prune(graph: Graph) -> tuple[Graph, Report]:
    """Drop reads and pure nodes whose values have no reader. Inputs and other effects stay.

    Loops and branches lose results without a reader, values carried for these alone, and
    operands that they do not need any more.

    A control edge alone does not keep a read or a pure node: there is nothing to wait for.
    """
    return _Pruner().run(LiveSearch().of(graph), None)


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
