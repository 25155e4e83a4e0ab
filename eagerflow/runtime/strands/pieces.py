"""Pieces of partitions: which nodes a strand runs together, and in which order with what it sends.

Nodes with one frame path that follow each other are a *region*, until another one steers tokens,
waits, or needs what was sent after them. What is sent follows the region that makes it.
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
    """What a strand does as one.

    Attributes:
        kind: a region, a Send, a node that steers tokens or receives, one that may wait, or one
            that is another name for a value.
        nodes: those of the region, or the one node.
        path: where in branches and loops that is.
    """

    kind: Kind
    nodes: Sequence[Node]
    path: FramePath


@final
class PieceBlock:
    """What is in no loop, or an iteration of one.

    Args:
        order: of all partitions.
        partition: the one whose pieces are wanted.
        waiting: the ops that may have to wait.
        loop: the frame of the loop; empty for what is in none.
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
        self._path: FramePath = ()  # of these, and of what is sent after them
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
        """An iteration of a loop that the partition takes part in."""
        (enter, *_) = self.order.enters[self.partition, loop.frame]
        frame = self.order.paths[self.partition].values[enter.outputs[0]]
        return PieceBlock(self.order, self.partition, self.waiting, loop.frame, frame)

    def _add(self, node: Node) -> Iterator[Piece]:
        path, lead = self.order.path(node), lead_of(node.op)
        leaves = bool(self.loop) and self.order.part(node, self.depth) == LEAVE
        if leaves and lead != "leave" and node.op != "Identity":
            raise GraphError(f"&{node.name} runs when a loop has ended, and within it")
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
                yield from self._flush()  # what was sent goes first; the host waits for the other
            yield from self._continue(path)
            self._nodes.append(node)

    def _makes(self, value: Value) -> bool:
        """Whether the region that is being collected makes a value."""
        return value.node in self._nodes

    def _continue(self, path: FramePath) -> Iterator[Piece]:
        """Go on with a region, or begin one at another frame path."""
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
