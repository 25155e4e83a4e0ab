"""The map from nodes of a derivative to their counterparts in the trace.

The derivative is traced anew, so its nodes may have other names, and a name or a path need not be
unique: there is an `exp` in a loop and another one beside it. The order of the nodes that come from
one line stays the same, graph by graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from eagerflow.graph.edit import inner_nodes
from eagerflow.graph.ir import Graph, Node


def counterparts(graph: Graph, forward: Graph, backward: Graph) -> dict[Node, Node]:
    """For forward nodes of a derivative, the nodes of the trace that they repeat.

    Args:
        graph: the graph of the trace.
        forward: the forward graph of its derivative.
        backward: the backward graph, of which the forward nodes of its nodes count.

    >>> from eagerflow.placement.counterparts import counterparts
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> again = ef.Graph.parse("graph f(%x: f32[n]) { %z = exp(%x) : f32[n] return %z }")
    >>> counterparts(graph, again, ef.Graph("backward"))
    {<node z: exp>: <node y: exp>}
    """
    counterparts: dict[Node, Node] = {}
    _match(graph, forward, counterparts)
    outer = {node.name: counterparts[node] for node in forward.nodes if node in counterparts}
    for node in backward.nodes:
        if node.forward is not None and node.forward.name in outer:
            counterparts[node.forward] = outer[node.forward.name]
    counterparts |= _within(graph, backward)
    return counterparts


def _match(graph: Graph, again: Graph, counterparts: dict[Node, Node]) -> None:
    """Match the nodes of a graph, and of its subgraphs, with those of a retraced one.

    Nodes that are alike are matched by order, unless some were pruned as unused. Then they are
    matched by name, which the remaining ones have kept.
    """
    those = _by_likeness(again)
    for likeness, nodes in _by_likeness(graph).items():
        others = those.get(likeness, [])
        if len(others) != len(nodes):
            names = {node.name: node for node in others}
            nodes = [node for node in nodes if node.name in names]
            others = [names[node.name] for node in nodes]
        for node, first in zip(others, nodes, strict=True):
            counterparts[node] = first
            inner = dict(node.subgraphs())
            for key, one in first.subgraphs():
                if key in inner:
                    _match(one, inner[key], counterparts)


def _by_likeness(graph: Graph) -> dict[Hashable, list[Node]]:
    groups = defaultdict[Hashable, list[Node]](list)
    for node in graph.nodes:
        groups[_likeness(node)].append(node)
    return groups


def _within(graph: Graph, backward: Graph) -> dict[Node, Node]:
    """Counterparts of the forward nodes of nodes in branches and loops of a backward graph.

    A forward node lies in another graph. It is matched by its line, and by its name where a line
    gave several nodes; nodes that are alike in both have no counterpart.
    """
    alike = defaultdict[Hashable, list[Node]](list)
    for node in inner_nodes(graph.nodes):
        alike[_likeness(node)].append(node)
        alike[_likeness(node), node.name].append(node)
    counterparts: dict[Node, Node] = {}
    inside = inner_nodes(backward.nodes)
    for first in {n.forward for n in inside if n.forward is not None}:
        likeness = _likeness(first)
        same = alike[likeness] if len(alike[likeness]) == 1 else alike[likeness, first.name]
        if len(same) == 1:
            counterparts[first] = same[0]
    return counterparts


def _likeness(node: Node) -> Hashable:
    """The features of a node that stay the same when its graph is traced anew."""
    return node.op, node.scope, node.source
