"""Translation of partitions: nodes of a lowered graph become statements, in one common order."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import final

from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.lowering.frame_paths import FramePath
from eagerflow.graph.signatures import is_constant, lead_of
from eagerflow.hardware import as_device
from eagerflow.placement.cut import Partition
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.late_values import is_sent_late, late_inputs
from eagerflow.runtime.node_region_graphs import readers_of, region_graph
from eagerflow.runtime.strands.common_order import Item, LoopItem, OrderedCut
from eagerflow.runtime.strands.pieces import Piece, PieceBlock
from eagerflow.runtime.strands.statements import (
    Assign,
    Await,
    Guard,
    Late,
    Leave,
    LoopStatement,
    PassOver,
    ReadOnHost,
    Repeat,
    RunRegion,
    Statement,
)
from eagerflow.types import TensorType


@final
class TranslatedPartition:
    """A partition as statements, of which its strand is made.

    Args:
        partition: the partition.
        order: all partitions, with a common order of their nodes.
        number: of the executable, for events.
        first: number of regions of the partitions before it.
        waiting: the ops that may have to wait.
        is_heavy: whether nodes are worth a thread of their own.

    Attributes:
        partition: the same.
        inputs: the variables of its inputs.
        outputs: the variables of its outputs.
        constants: by their variables, the constants that not only regions use.
        statements: the statements of its outermost block.
        regions: its regions.

    Raises:
        GraphError: loops or branches do not have the form that lowering gives them.
    """

    def __init__(
        self, partition: Partition, order: OrderedCut, number: int, first: int,
        waiting: Container[str], is_heavy: Callable[[Sequence[Node]], bool],
    ) -> None:  # fmt: skip
        self.is_heavy = is_heavy
        self.partition = partition
        self.order = order
        self.number = number
        self.first = first
        self.paths = order.paths[partition]
        self.readers = readers_of(partition.graph, order.size_values)
        self.regions: list[RunRegion] = []
        self.constants: dict[str, Node] = {}
        self.names: dict[Value, str] = {}
        self.inputs = [self.new(v) for v in partition.graph.inputs]
        self.choices: dict[tuple[FramePath, Value], str] = {}
        self.loops = 0
        self.waits = 0
        #: the Merges of loop-carried values, by the name of their NextIteration and by frame
        self.back: dict[str, list[Node]] = {}
        self.merges: dict[str, list[Node]] = {}
        for node in partition.graph.nodes:
            if lead_of(node.op) == "join" and "back" in node.attrs:
                self.back.setdefault(node.attrs["back"], []).append(node)
                (_, frame) = self.paths.nodes[node][-1]
                self.merges.setdefault(frame, []).append(node)
        self.statements = _Statements(self, PieceBlock(order, partition, waiting)).fill(order.items)
        self.outputs = [self.name(v) for v in partition.graph.outputs]

    def new(self, value: Value) -> str:
        """A variable for a value."""
        name = self.names[value] = f"v{len(self.names)}"
        return name

    def name(self, value: Value) -> str:
        """The variable of a value."""
        if is_constant(value) and value not in self.names:
            assert value.node is not None
            self.constants[self.new(value)] = value.node
        return self.names[value]

    def guard(self, path: FramePath, place: int) -> Guard:
        """The branches of a frame path, from a place in it on."""
        return tuple([
            (self.choices[path[:i], path[i][0]], path[i][1]) for i in range(place, len(path))
        ])  # fmt: skip


@final
class _Statements:
    """Makes the statements of the outermost block, or of an iteration of a loop."""

    def __init__(self, whole: TranslatedPartition, block: PieceBlock) -> None:
        self.whole = whole
        self.block = block
        self.loop = block.loop
        self.frame = block.frame
        self.test = whole.order.tests.get((whole.partition, block.loop))
        self.goes_on = ""  # the variable that says whether there is another iteration
        self.later: dict[str, str] = {}  # of loop-carried variables those of their next values
        self.made: list[Statement] = []
        self.late: list[Statement] = []  # of the body of a loop

    def fill(self, items: Sequence[Item]) -> list[Statement]:
        """The statements of the items that belong to the partition."""
        for piece in self.block.pieces(items):
            if isinstance(piece, LoopItem):
                self.add_loop(piece)
            else:
                self.add(piece)
        return self.made

    # --- where ---

    def guard(self, path: FramePath) -> Guard:
        return self.whole.guard(path, len(self.frame) + self.is_late(path))

    def is_late(self, path: FramePath) -> bool:
        """Whether a frame path lies behind the predicate of the loop."""
        if not self.loop or len(path) == len(self.frame):
            return False
        predicate, port = path[len(self.frame)]
        return predicate is self.test and port == 0

    def put(self, statement: Statement, path: FramePath) -> None:
        (self.late if self.is_late(path) else self.made).append(statement)

    # --- pieces ---

    def add(self, piece: Piece) -> None:
        (node, *_), path = piece.nodes, piece.path
        if piece.kind == "region":
            self.put(self.region(piece.nodes, self.guard(path)), path)
            self.read_on_host([v for one in piece.nodes for v in one.outputs], path)
        elif piece.kind == "send":
            given = tuple(map(self.whole.name, node.inputs))
            late = node if self.is_moved_late(node) else None
            self.put(PassOver(self.guard(path), node, reads=given, late=late), path)
        elif piece.kind == "steer":
            self.steer(node, path)
        elif piece.kind == "wait":
            self.wait(node, path)
        else:
            self.whole.names[node.outputs[0]] = self.whole.name(node.inputs[0])

    def steer(self, node: Node, path: FramePath) -> None:
        lead = lead_of(node.op)
        if lead == "branch":
            self.switch(node, path)
        elif lead == "join":
            if "back" not in node.attrs:  # else `add_loop` handles it
                self.merge(node)
        elif lead == "repeat":
            self.next(node)
        elif node.op == "Slice":
            values, at = map(self.whole.name, node.inputs)
            name = self.whole.new(node.outputs[0])
            text = f"{values}[{at}, ...]"
            late = self.reads_late([node], node.inputs)
            self.put(Assign(self.guard(path), node, text, (values, at), (name,), late), path)
        elif lead == "receive":
            made = tuple(map(self.whole.new, node.outputs))
            sent = self.whole.order.senders[node]
            maker = sent if self.is_moved_late(sent) else None
            self.put(PassOver(self.guard(path), node, makes=made, late=maker), path)
        else:
            raise GraphError(f"&{node.name} has no statement")

    def wait(self, node: Node, path: FramePath) -> None:
        whole = self.whole
        if whole.order.size_values.get(node):
            raise GraphError(f"&{node.name} waits, and names sizes that are not among its operands")
        given = tuple(map(whole.name, node.inputs))
        made = tuple(map(whole.new, node.outputs))
        self.put(Await(self.guard(path), node, whole.waits, given, made), path)
        whole.waits += 1

    def switch(self, node: Node, path: FramePath) -> None:
        whole = self.whole
        value, predicate = node.inputs
        for output in node.outputs:
            whole.names[output] = whole.name(value)
        if (path, predicate) in whole.choices:
            return
        chosen = whole.choices[path, predicate] = f"c{len(whole.choices)}"
        asked, kind = whole.name(predicate), predicate.type
        text = f"choose({asked}, {len(node.outputs)})"
        if isinstance(kind, TensorType) and kind.dtype.category == "bool":
            text = f"0 if {asked} else 1"
        late = self.reads_late([node], node.inputs)
        self.put(Assign(self.guard(path), node, text, (asked,), (chosen,), late), path)
        if predicate is self.test and path == self.frame:
            self.goes_on = chosen

    def merge(self, node: Node) -> None:
        made = self.whole.new(node.outputs[0])
        for value in node.inputs:
            there = self.whole.paths.values[value]
            name = self.whole.name(value)
            self.put(Assign(self.guard(there), node, name, (name,), (made,)), there)

    def next(self, node: Node) -> None:
        for merge in self.whole.back.get(node.name, ()):
            name = self.whole.names[merge.outputs[0]]
            self.later[name] = self.whole.name(node.inputs[0])

    # --- regions ---

    def region(self, nodes: Sequence[Node], guard: Guard) -> RunRegion:
        whole = self.whole
        graph, inputs, outputs = region_graph(
            whole.partition.graph, nodes, whole.order.size_values, whole.readers
        )
        count = whole.first + len(whole.regions)
        code = RegionCode(graph, whole.number, graph.name, count, is_part=True)
        made = RunRegion(
            guard, count, code, nodes, tuple(map(whole.name, inputs)),
            tuple(map(whole.new, outputs)), code.checked and whole.is_heavy(nodes),
            self.reads_late(nodes, inputs),
        )  # fmt: skip
        whole.regions.append(made)
        return made

    def is_moved_late(self, send: Node) -> bool:
        return is_sent_late(send) and send.inputs[0] not in self.whole.order.for_host

    def read_on_host(self, values: Sequence[Value], path: FramePath) -> None:
        """Read those of ``values`` that only the host reads into its memory."""
        for value in values:
            if value in self.whole.order.for_host and value in self.whole.names:
                name, node = (self.whole.name(value),), value.node
                assert node is not None
                device = as_device(value.device)
                self.put(ReadOnHost(self.guard(path), node, device, name, name), path)

    def reads_late(self, nodes: Sequence[Node], inputs: Sequence[Value]) -> Late:
        known = self.whole.order.for_host
        return [
            (self.whole.name(inputs[i]), of)
            for i, of in late_inputs(nodes, inputs) if inputs[i] not in known
        ]  # fmt: skip

    # --- loops ---

    def add_loop(self, item: LoopItem) -> None:
        whole = self.whole
        block = _Statements(whole, self.block.within(item))
        path = block.frame[:-1]
        enters = whole.order.enters[whole.partition, item.frame]
        loop = LoopStatement(self.guard(path), enters[0], f"n{whole.loops}")
        whole.loops += 1
        for enter in enters:
            if enter.attrs.get("backwards"):
                loop.length = whole.name(enter.inputs[0])
        for merge in whole.merges.get(item.frame, ()):
            before = whole.name(merge.inputs[0])
            made = whole.new(merge.outputs[0])
            self.put(Assign(self.guard(path), merge, before, (before,), (made,)), path)
            loop.merges += (made,)
        carried = [merge.outputs[0] for merge in whole.merges.get(item.frame, ())]
        block.read_on_host(carried, block.frame)
        test = block.fill(item.items)
        if not block.goes_on or set(block.later) != set(loop.merges):
            raise GraphError(f"the loop {item.frame} lacks a predicate or a NextIteration")
        sends = [n for one in (*test, *block.late) for n in _sent(one)]
        loop.items = [*test, Leave((block.goes_on,)), *block.late, Repeat(block.later, sends)]
        self.put(loop, path)


def _sent(one: Statement) -> Sequence[Node]:
    return (one.node,) if isinstance(one, PassOver) and lead_of(one.node.op) == "send" else ()
