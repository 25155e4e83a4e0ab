"""One order for the nodes of all partitions, in which a loop is one item.

Partitions that run their nodes one after the other never wait for each other in a circle if all of
them keep to one order. In the order of a cut, other nodes may lie between the nodes of a loop. Here
each loop is one item of the block around it, the same one for all partitions. Its operands come
before it, and within an iteration the predicate of the loop comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, final

from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.lowering.frame_paths import FramePath, FramePaths, find_size_values
from eagerflow.graph.signatures import lead_of
from eagerflow.placement.cut import Cut, Partition
from eagerflow.runtime.late_values import values_for_the_host

#: the parts of an iteration: the predicate, the body, and the values that leave the loop
TEST: Final = 0
BODY: Final = 1
LEAVE: Final = 2


@final
@dataclass(slots=True, eq=False)
class LoopItem:
    """A loop as one item of the order.

    Attributes:
        frame: its name, the same in all partitions.
        items: the items of an iteration, in order.
    """

    frame: str
    items: Sequence[Item]


Item = Node | LoopItem


@final
class OrderedCut:
    """The nodes of a cut in a common order, without constants.

    Args:
        cut: the partitions.

    Attributes:
        partitions: the partitions.
        partition: of each node its partition.
        paths: the frame paths of each partition.
        size_values: of each node the values off which it reads sizes, besides its inputs.
        senders: of each Recv its Send.
        for_host: the values that are read once, into the memory of the host.
        tests: by partition and frame the predicate of the loop.
        enters: by partition and frame the Enter nodes of the loop.
        items: the nodes outside of loops, and the outermost loops.

    Raises:
        GraphError: there is no common order.
    """

    def __init__(self, cut: Cut) -> None:
        self.partitions = cut.partitions
        self.for_host = values_for_the_host(cut)
        self.partition: dict[Node, Partition] = {}
        self.paths: dict[Partition, FramePaths] = {}
        self.size_values: dict[Node, list[Value]] = {}
        self.tests: dict[tuple[Partition, str], Value] = {}
        self.enters: dict[tuple[Partition, str], list[Node]] = {}
        self.senders = {received: sent for sent, received in cut.pairs.values()}
        for partition in cut.partitions:
            paths = self.paths[partition] = FramePaths(partition.graph)
            self.size_values |= find_size_values(partition.graph, paths)
            for node in partition.graph.nodes:
                self.partition[node] = partition
                lead = lead_of(node.op)
                if lead in ("repeat", "leave"):
                    self._note_test(partition, paths.nodes[node])
                elif lead == "enter":
                    self.enters.setdefault((partition, node.attrs["frame"]), []).append(node)
        nodes = [n for n in cut.order if n.op != "constant"]
        self._positions = {n: i for i, n in enumerate(nodes)}
        self.items = self._items(nodes, 0)

    @property
    def has_common_loops(self) -> bool:
        """Whether several partitions have loops."""
        return len({partition for partition, _ in self.enters}) > 1

    def path(self, node: Node) -> FramePath:
        """The frame path of a node."""
        return self.paths[self.partition[node]].nodes[node]

    def _note_test(self, partition: Partition, path: FramePath) -> None:
        if len(path) < 2 or path[-2][0] != "frame":
            raise GraphError("an iteration begins or ends in a branch of its loop")
        predicate: Value = path[-1][0]
        if self.tests.setdefault((partition, path[-2][1]), predicate) is not predicate:
            raise GraphError("a loop has several predicates")

    def part(self, node: Node, depth: int) -> int:
        """The part of an iteration that a node belongs to, in the loop at nesting ``depth``."""
        path = self.path(node)
        place = _frame_places(path)[depth]
        frame = path[place][1]
        if place + 1 == len(path):
            return TEST
        predicate, port = path[place + 1]
        if predicate is not self.tests.get((self.partition[node], frame)):
            return TEST
        return LEAVE if port else BODY

    def _items(self, nodes: Sequence[Node], depth: int) -> list[Item]:
        """Nodes as items; nodes of inner loops are within the items of these."""
        homes = dict[Node, Item]()
        inside = dict[str, list[Node]]()
        loops = dict[str, LoopItem]()
        for node in nodes:
            path = self.path(node)
            places = _frame_places(path)
            if len(places) == depth:
                homes[node] = node
                continue
            frame = path[places[depth]][1]
            inside.setdefault(frame, []).append(node)
            homes[node] = loops.setdefault(frame, LoopItem(frame, ()))
        for frame, loop in loops.items():
            loop.items = self._items(inside[frame], depth + 1)
        return self._sorted(nodes, homes, depth)

    def _sorted(self, nodes: Sequence[Node], homes: Mapping[Node, Item], depth: int) -> list[Item]:
        """Items in an order in which they can run, as near as possible to that of the nodes."""
        rank = dict[Item, tuple[int, int]]()
        before = dict[Item, set[Item]]()
        after = dict[Item, list[Item]]()
        for node in nodes:
            item = homes[node]
            part = self.part(node, depth - 1) if depth else TEST
            rank.setdefault(item, (part, self._positions[node]))
            known = before.setdefault(item, set())
            for other in map(homes.get, self._before(node)):
                if other is not None and other is not item and other not in known:
                    known.add(other)
                    after.setdefault(other, []).append(item)
        items = list(rank)
        numbers = {item: i for i, item in enumerate(items)}
        left = {item: len(others) for item, others in before.items()}
        ready = [(rank[item], numbers[item]) for item in items if not left[item]]
        heapify(ready)
        result: list[Item] = []
        while ready:
            item = items[heappop(ready)[1]]
            result.append(item)
            for other in after.get(item, ()):
                left[other] -= 1
                if not left[other]:
                    heappush(ready, (rank[other], numbers[other]))
        if len(result) < len(items):
            raise GraphError("deadlock: parts of a loop wait for each other")
        return result

    def _before(self, node: Node) -> Iterator[Node]:
        """The nodes, of any partition, that must have run before a node."""
        for value in (*node.inputs, *self.size_values.get(node, ())):
            if value.node is not None:
                yield value.node
        yield from node.control_inputs
        if node in self.senders:
            yield self.senders[node]


def _frame_places(path: FramePath) -> list[int]:
    """The positions of loops in a frame path."""
    return [i for i, (what, _) in enumerate(path) if what == "frame"]
