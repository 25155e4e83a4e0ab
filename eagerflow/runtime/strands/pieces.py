"""Pieces of partitions: the nodes that a strand runs together, and their order relative to Sends.

Consecutive nodes with one frame path are a *region*, which ends where another node steers tokens or
waits, behind its Sends, or where the host reads a late value of it. A Send follows the region that
makes its value.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Literal, NamedTuple, final

from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.lowering.frame_paths import FramePath
from eagerflow.graph.lowering.steering import is_steering
from eagerflow.graph.signatures import late_reads, lead_of
from eagerflow.placement.cut import Partition
from eagerflow.runtime.strands.common_order import LEAVE, Item, LoopItem, OrderedCut

Kind = Literal["region", "send", "steer", "wait", "alias"]


class Piece(NamedTuple):
    """A part of a partition that a strand runs as one.

    Attributes:
        kind: a region, a Send, a node that steers tokens or receives, an op that may wait, or a
            node that only gives a value another name.
        nodes: the nodes of the region, or the single node.
        path: the frame path of the nodes.
    """

    kind: Kind
    nodes: Sequence[Node]
    path: FramePath


@final
class PieceBlock:
    """The outermost block of a partition, or an iteration of a loop.

    Args:
        order: all partitions, with a common order of their nodes.
        partition: the partition.
        waiting: the ops that may have to wait.
        loop: the frame of the loop; empty for the outermost block.
        frame: the frame path of the loop.
    """

    def __init__(
        self, order: OrderedCut, partition: Partition, waiting: Container[str],
        loop: str = "", frame: FramePath = (),
    ) -> None:  # fmt: skip
        self.order = order
        self.partition = partition
        self.waiting = waiting
        self.loop = loop
        self.frame = frame
        self.depth = len([what for what, _ in frame if what == "frame"]) - 1
        self._nodes: list[Node] = []  # of the region that is being collected
        self._path: FramePath = ()  # of these, and of the Sends after them
        self._sends: list[Node] = []

    def pieces(self, items: Sequence[Item]) -> Iterator[Piece | LoopItem]:
        """The pieces of the partition among items, and the loops that it takes part in, in order.

        Raises:
            GraphError: a node is in a part of a loop where it cannot run.
        """
        for item in items:
            if isinstance(item, LoopItem):
                if (self.partition, item.frame) in self.order.enters:
                    yield from self._flush()
                    yield item
            elif self.order.partition[item] is self.partition:
                yield from self._add(item)
        yield from self._flush()

    def within(self, loop: LoopItem) -> PieceBlock:
        """The block of an iteration of a loop that the partition takes part in."""
        (enter, *_) = self.order.enters[self.partition, loop.frame]
        frame = self.order.paths[self.partition].values[enter.outputs[0]]
        return PieceBlock(self.order, self.partition, self.waiting, loop.frame, frame)

    def _add(self, node: Node) -> Iterator[Piece]:
        path, lead = self.order.path(node), lead_of(node.op)
        leaves = bool(self.loop) and self.order.part(node, self.depth) == LEAVE
        if leaves and lead != "leave" and node.op != "Identity":
            raise GraphError(f"&{node.name} runs within a loop and after its end")
        if leaves or lead in ("leave", "enter") or node.op == "Identity":
            if self._makes(node.inputs[0]):
                yield from self._flush()
            yield Piece("alias", [node], path)
        elif lead == "send":
            yield from self._continue(path)
            self._sends.append(node)
        elif is_steering(node.op) or node.op in self.waiting:
            yield from self._flush()
            yield Piece("steer" if is_steering(node.op) else "wait", [node], path)
        else:
            if self._sends or any(self._makes(node.inputs[i]) for i in late_reads(node)):
                yield from self._flush()  # Sends go first; late values need a wait in between
            yield from self._continue(path)
            self._nodes.append(node)

    def _makes(self, value: Value) -> bool:
        """Whether the region that is being collected makes a value."""
        return value.node in self._nodes

    def _continue(self, path: FramePath) -> Iterator[Piece]:
        """Continue the present region, or begin a new one at another frame path."""
        if (self._nodes or self._sends) and path != self._path:
            yield from self._flush()
        self._path = path

    def _flush(self) -> Iterator[Piece]:
        nodes, sends, path = self._nodes, self._sends, self._path
        self._nodes, self._sends = [], []
        if nodes:
            yield Piece("region", nodes, path)
        for node in sends:
            yield Piece("send", [node], path)
