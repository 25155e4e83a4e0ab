"""Check that partitions together do what their graph does, and that none waits for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node
from eagerflow.graph.lowering.cut_levels import has_level
from eagerflow.graph.verify import verify
from eagerflow.hardware import Device
from eagerflow.placement.cut import Cut, levels_of


def verify_cut(cut: Cut) -> None:
    """Check the partitions of a graph, each by itself and all together.

    Each is a well-formed graph whose values are on its device. Each Send has exactly one Recv, and
    each Recv exactly one Send. No node waits for itself: in the union of all partitions, with an
    edge from each Send to its Recv, there is no cycle but through a ``NextIteration``. Each Recv
    and each Exit has its level in that union as an attribute, so that the regions formed in the
    partitions do not wait for each other either.

    Raises:
        GraphError: one of these conditions does not hold.
    """
    for partition in cut.partitions:
        verify(partition.graph)
        for node in partition.graph.nodes:
            _check_device(node, partition.device)
    _check_pairs(cut)
    _check_order(cut)
    for node, level in levels_of(cut).items():
        if has_level(node) and node.attrs.get("level", 0) != level:
            raise GraphError(
                f"&{node.name} on {node.device} states a wrong level",
                given=str(node.attrs.get("level", 0)), expected=str(level),
            )  # fmt: skip


def _check_order(cut: Cut) -> None:
    """Check for cycles: all edges, Send to Recv included, go forward in one order of all nodes."""
    position = {node: i for i, node in enumerate(cut.order)}
    sent = {received: sent for sent, received in cut.pairs.values()}
    for partition in cut.partitions:
        for node in partition.graph.nodes:
            for before in (*_before(node), *([sent[node]] if node in sent else ())):
                if position.get(before, len(position)) >= position[node]:
                    raise GraphError(
                        f"&{node.name} on {node.device} waits for &{before.name} on"
                        f" {before.device}, which comes later",
                        expected="one order for all partitions",
                    )


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
            raise GraphError(f"{sorted(alone)[0]!r} is only sent or only received")
        twice = [edge for edge, count in edges.items() if count > 1]
        if twice:
            raise GraphError(f"{op} of {twice[0]!r} occurs twice")
        ends = {pair[end] for pair in cut.pairs.values()}
        if ends != {node for node in nodes if node.op == op}:
            raise GraphError(f"a {op} belongs to no pair")
