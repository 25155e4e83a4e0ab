"""The proof that partitions do together what their graph does, and that none waits for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node
from eagerflow.graph.verify import verify
from eagerflow.hardware import Device
from eagerflow.placement.cut import Cut


def verify_cut(cut: Cut) -> None:
    """Check the partitions of a graph, each by itself and all together.

    Each is a well-formed graph whose values are on its device. What is sent is received by one
    node, and what is received is sent by one. Nothing waits for itself: in the union of all
    partitions, with an edge from each Send to its Recv, there is no cycle but through a
    ``NextIteration``. The levels of nodes never decrease along its edges, so that the regions that
    are made of them do not wait for each other either.

    Raises:
        GraphError: something is not so.
    """
    for partition in cut.partitions:
        verify(partition.graph)
        for node in partition.graph.nodes:
            _check_device(node, partition.device)
    _check_pairs(cut)
    before = {node: set(_before(node)) for p in cut.partitions for node in p.graph.nodes}
    for sent, received in cut.pairs.values():
        before[received].add(sent)
        if received.attrs.get("level", 0) < sent.attrs.get("level", 0):
            raise GraphError(f"&{received.name} has a lower level than what is sent to it")
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        names = " -> ".join(f"&{node.name} on {node.device}" for node in error.args[1])
        raise GraphError(
            "partitions wait for each other", given=names, expected="no cycle"
        ) from None


def _before(node: Node) -> Iterator[Node]:
    yield from node.control_inputs
    for value in node.inputs:
        if value.node is not None:
            yield value.node


def _check_device(node: Node, device: Device) -> None:
    for value in (*node.inputs, *node.outputs):
        if value.device not in (None, device):
            raise GraphError(
                f"&{node.name} is in the partition of {device}, and %{value.name} is elsewhere",
                given=str(value.device),
            )


def _check_pairs(cut: Cut) -> None:
    nodes = [node for p in cut.partitions for node in p.graph.nodes]
    for op, end in (("Send", 0), ("Recv", 1)):
        edges = Counter(node.attrs["edge"] for node in nodes if node.op == op)
        alone = edges.keys() ^ cut.pairs.keys()
        if alone:
            raise GraphError(f"{sorted(alone)[0]!r} is sent or received, and not both")
        twice = [edge for edge, count in edges.items() if count > 1]
        if twice:
            raise GraphError(f"{op} of {twice[0]!r} is there twice")
        ends = {pair[end] for pair in cut.pairs.values()}
        if ends != {node for node in nodes if node.op == op}:
            raise GraphError(f"a {op} belongs to no pair")
