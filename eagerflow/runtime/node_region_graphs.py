"""Regions of a lowered graph as graphs of their own, from which code is generated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from eagerflow.graph.edit import copy_node
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import is_constant

#: for each value its consumers; None stands for the step, which returns the outputs
Readers = Mapping[Value, Collection[Node | None]]


def readers_of(graph: Graph, size_values: Mapping[Node, Sequence[Value]]) -> Readers:
    """The nodes that read each value of a lowered graph, for its elements or for its sizes."""
    readers: dict[Value, list[Node | None]] = {v: [None] for v in graph.outputs}
    for node in graph.nodes:
        for value in (*node.inputs, *size_values.get(node, ())):
            readers.setdefault(value, []).append(node)
    return readers


def region_graph(
    graph: Graph, nodes: Sequence[Node], size_values: Mapping[Node, Sequence[Value]],
    readers: Readers,
) -> tuple[Graph, list[Value], list[Value]]:  # fmt: skip
    """Nodes as a graph of their own, with the values that are its inputs and outputs.

    Args:
        graph: a lowered graph.
        nodes: some of its nodes, in order.
        size_values: the values off which nodes read sizes, besides their inputs.
        readers: the consumers of the values of the graph.
    """
    inside = set(nodes)
    outer = list(dict.fromkeys(v for n in nodes for v in n.inputs if v.node not in inside))
    inputs = [v for v in outer if not is_constant(v)]
    sizes = dict.fromkeys(v for n in nodes for v in size_values.get(n, ()))
    inputs += [v for v in sizes if v.node not in inside and v not in inputs]
    result = Graph(graph.name)
    result.resources = dict(graph.resources)
    values = {v: result.add_input(v.type, v.name, v.device) for v in inputs}
    for value in outer:
        if is_constant(value) and value.node is not None:
            values[value] = copy_node(result, value.node, ()).outputs[0]
    for node in nodes:
        made = copy_node(result, node, [values[v] for v in node.inputs])
        values.update(zip(node.outputs, made.outputs, strict=True))
    outputs = [
        v for n in nodes for v in n.outputs if any(r not in inside for r in readers.get(v, ()))
    ]
    result.outputs = [values[v] for v in outputs]
    return result, inputs, outputs
