"""Takes out what nothing needs."""

from __future__ import annotations

from eagerflow.graph.edit import named_sizes, size_makers
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes.report import Report
from eagerflow.graph.passes.rewrite import Rewriter, effect_of, shown

__all__ = ["prune"]


def prune(graph: Graph) -> tuple[Graph, Report]:
    """Drop reads and pure nodes whose values nobody takes. Inputs and other effects stay.

    A control edge alone does not keep a read or a pure node: there is nothing to wait for.
    """
    wanted = _wanted(graph)
    rewriter = Rewriter("prune", graph)
    for node in graph.nodes:
        if node in wanted:
            if node.attrs:
                rewriter.inside(node, prune)
        else:
            rewriter.drop(node, (), f"dropped {shown(node)} = {node.op}, which nothing needs")
    return rewriter.finish()


def _wanted(graph: Graph) -> set[Node]:
    wanted = {v.node for v in graph.outputs if v.node is not None}
    makers = size_makers(graph)
    for node in reversed(graph.nodes):
        if node not in wanted:
            if effect_of(node) in ("pure", "reads"):
                continue
            wanted.add(node)
        for value in node.inputs:
            if value.node is not None:
                wanted.add(value.node)
        if makers:
            sizes = named_sizes(tuple(node.attrs.values()))
            wanted.update(makers[name] for name in sizes if name in makers)
    return wanted
