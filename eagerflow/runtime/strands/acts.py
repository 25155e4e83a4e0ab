"""The acts of strands, in order and without generated code, for estimates of their time."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import lead_of
from eagerflow.placement.automatic.strand_acts import StrandAct
from eagerflow.runtime.late_values import late_inputs
from eagerflow.runtime.strands.common_order import Item, LoopItem, OrderedCut
from eagerflow.runtime.strands.pieces import PieceBlock


def acts_of(order: OrderedCut, waiting: Container[str]) -> list[list[StrandAct]]:
    """The acts of each partition; acts in a loop appear once.

    Args:
        order: the partitions, with a common order of their nodes.
        waiting: the ops that may have to wait.

    Raises:
        GraphError: a loop does not have the form that lowering gives it.
    """
    blocks = [PieceBlock(order, partition, waiting) for partition in order.partitions]
    return [list(_acts(block, order.items)) for block in blocks]


def _acts(block: PieceBlock, items: Sequence[Item]) -> Iterator[StrandAct]:
    for piece in block.pieces(items):
        if isinstance(piece, LoopItem):
            yield from _acts(block.within(piece), piece.items)
        elif piece.kind in ("region", "wait"):
            yield StrandAct("run", piece.nodes)
            read = [n for n in piece.nodes if not block.order.for_host.isdisjoint(n.outputs)]
            yield from [StrandAct("wait", [node]) for node in read]
        elif piece.kind == "send":
            yield StrandAct("send", piece.nodes)
        elif piece.kind == "steer":
            (node,) = piece.nodes
            if lead_of(node.op) == "receive":
                yield StrandAct("receive", piece.nodes)
            yield from [StrandAct("wait", [maker]) for maker in _read_late(node)]


def _read_late(node: Node) -> Iterator[Node]:
    """The producers of late values that the host reads for a steering node."""
    for i, _ in late_inputs([node], node.inputs):
        maker = node.inputs[i].node
        if maker is not None:
            yield maker
