"""Folding: values that this process would only pass on go with the messages of a step.

An input of this process that a task receives becomes an input of the task's partition, and a result
that a task sends here becomes an output of it. So a step whose nodes are all at tasks takes one
message to each of them and one back, and no partition runs here.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.placement.cut import Cut, Partition

#: for each output of the graph its partition, and its index among the outputs of that partition
Places = list[tuple[Partition, int]]


def fold(cut: Cut, here: Partition | None) -> Places:
    """Change the partitions of a cut so that inputs and results go with the messages of a step.

    Args:
        cut: a cut not used elsewhere; the pairs that are folded are removed from it.
        here: the partition of this process.

    Returns:
        The places of the graph's outputs.
    """
    places = _places(cut)
    if here is None:
        return places
    owners = {node: p for p in cut.partitions for node in p.graph.nodes}
    used = _used(here.graph)
    for edge, (sent, received) in list(cut.pairs.items()):
        if "shape" in sent.attrs or sent.control_inputs or received.control_inputs:
            continue
        if not (sent.inputs and received.outputs):
            continue
        (value,) = sent.inputs
        if owners[sent] is here and value.node is None:
            _feed(owners[received], received, here.inputs[value.index])
        elif owners[received] is here and received.outputs[0] not in used:
            _give(places, owners[sent], value, here, received)
        else:
            continue
        owners[sent].graph.nodes.remove(sent)
        owners[received].graph.nodes.remove(received)
        del cut.pairs[edge]
    return places


def _places(cut: Cut) -> Places:
    counts: dict[Partition, int] = {}
    places = []
    for partition, _ in cut.outputs:
        places.append((partition, counts.get(partition, 0)))
        counts[partition] = counts.get(partition, 0) + 1
    return places


def _used(graph: Graph) -> set[Value]:
    """The values that nodes of a graph use."""
    return {value for node in graph.nodes for value in node.inputs}


def _feed(partition: Partition, received: Node, index: int) -> None:
    """Make a value that a partition receives an input of the partition."""
    (old,) = received.outputs
    graph = partition.graph
    new = graph.add_input(old.type, received.name, old.device)
    partition.inputs.append(index)
    _replace(graph, old, new, received)


def _replace(graph: Graph, old: Value, new: Value, gone: Node) -> None:
    for node in graph.nodes:
        if old in node.inputs:
            node.inputs = tuple([new if value is old else value for value in node.inputs])
        if gone in node.control_inputs:
            node.control_inputs = tuple([n for n in node.control_inputs if n is not gone])
    graph.outputs[:] = [new if value is old else value for value in graph.outputs]


def _give(
    places: Places, partition: Partition, value: Value, here: Partition, received: Node
) -> None:
    """Make a value that a partition sends an output of the partition."""
    old = received.outputs[0]
    partition.graph.outputs.append(value)
    there = partition, len(partition.graph.outputs) - 1
    _move_outputs(places, here, old, there)


def _move_outputs(
    places: Places, here: Partition, old: Value, there: tuple[Partition, int]
) -> None:
    kept: Sequence[Value] = list(here.graph.outputs)
    numbers = {}
    here.graph.outputs[:] = []
    for i, value in enumerate(kept):
        if value is not old:
            numbers[i] = len(here.graph.outputs)
            here.graph.outputs.append(value)
    for k, (partition, i) in enumerate(places):
        if partition is here:
            places[k] = (here, numbers[i]) if i in numbers else there
