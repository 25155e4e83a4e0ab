"""Translates partitions: nodes of a lowered graph become statements, in one order for all."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import final

from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.lowering.frame_paths import FramePath
from eagerflow.graph.lowering.steering import is_steering
from eagerflow.graph.signatures import is_constant, late_reads, lead_of
from eagerflow.hardware import as_device
from eagerflow.placement.cut import Partition
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.late_values import is_sent_late, late_inputs
from eagerflow.runtime.node_region_graphs import readers_of, region_graph
from eagerflow.runtime.strands.common_order import LEAVE, Item, LoopItem, OrderedCut
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
        order: of all partitions.
        number: of the executable, for events.
        first: how many regions those before it have.
        waiting: the ops that may have to wait.
        is_heavy: whether nodes are worth a thread of their own.

    Attributes:
        partition: the same.
        inputs: the variables of its inputs.
        outputs: those of its outputs.
        constants: by their variables, those that are taken by more than regions.
        statements: what it does.
        regions: the regions of it.

    Raises:
        GraphError: something in it is not made of loops and branches as lowering makes them.
    """

    def __init__(
        self, partition: Partition, order: OrderedCut, number: int, first: int,
        waiting: Container[str], is_heavy: Callable[[Sequence[Node]], bool],
    ) -> None:  # fmt: skip
        self.waiting = waiting
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
        #: by frame what enters it, and by what goes back, and by frame, what is carried through it
        self.enters: dict[str, list[Node]] = {}
        self.back: dict[str, list[Node]] = {}
        self.merges: dict[str, list[Node]] = {}
        for node in partition.graph.nodes:
            lead = lead_of(node.op)
            if lead == "enter":
                self.enters.setdefault(node.attrs["frame"], []).append(node)
            elif lead == "join" and "back" in node.attrs:
                self.back.setdefault(node.attrs["back"], []).append(node)
                (_, frame) = self.paths.nodes[node][-1]
                self.merges.setdefault(frame, []).append(node)
        self.statements = _Block(self, "", ()).fill(order.items)
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
class _Block:
    """Makes the statements of the outermost block, or of an iteration of a loop."""

    def __init__(self, whole: TranslatedPartition, loop: str, frame: FramePath) -> None:
        self.whole = whole
        self.loop = loop
        self.frame = frame
        self.test = whole.order.tests.get((whole.partition, loop))
        self.goes_on = ""  # the variable that says whether there is another iteration
        self.later: dict[str, str] = {}  # what the loop-carried variables are in the next one
        self.made: list[Statement] = []
        self.late: list[Statement] = []  # of the body of a loop
        self.nodes: list[Node] = []  # of the region that is being collected
        self.path: FramePath = ()  # of these, and of what is sent after them
        self.sends: list[Node] = []

    def fill(self, items: Sequence[Item]) -> list[Statement]:
        """The statements of those items that the partition has."""
        for item in items:
            if isinstance(item, LoopItem):
                self.add_loop(item)
            elif self.whole.order.partition[item] is self.whole.partition:
                self.add(item)
        self.flush()
        return self.made

    # --- where ---

    def guard(self, path: FramePath) -> Guard:
        return self.whole.guard(path, len(self.frame) + self.is_late(path))

    def is_late(self, path: FramePath) -> bool:
        """Whether a frame path lies behind the question whether the loop goes on."""
        if not self.loop or len(path) == len(self.frame):
            return False
        predicate, port = path[len(self.frame)]
        return predicate is self.test and port == 0

    def put(self, statement: Statement, path: FramePath) -> None:
        (self.late if self.is_late(path) else self.made).append(statement)

    # --- nodes ---

    def add(self, node: Node) -> None:
        path, lead = self.whole.paths.nodes[node], lead_of(node.op)
        if self.loop and self.whole.order.part(node, self.depth) == LEAVE:
            if lead != "leave" and node.op != "Identity":
                raise GraphError(f"&{node.name} runs when a loop has ended, and within it")
            self.alias(node)
        elif lead in ("leave", "enter") or node.op == "Identity":
            self.alias(node)
        elif lead == "send":
            self.collect(path)
            self.sends.append(node)
        elif is_steering(node.op):
            self.flush()
            self.steer(node, path)
        elif node.op in self.whole.waiting:
            self.flush()
            self.wait(node, path)
        else:
            if self.sends or self.reads_what_is_collected(node):
                self.flush()
            self.collect(path)
            self.nodes.append(node)

    def reads_what_is_collected(self, node: Node) -> bool:
        """Whether the host reads for it, and may have to wait for, what the same region makes."""
        return bool(self.nodes) and any(node.inputs[i].node in self.nodes for i in late_reads(node))

    @property
    def depth(self) -> int:
        """How many loops there are around this one."""
        return len([what for what, _ in self.frame if what == "frame"]) - 1

    def alias(self, node: Node) -> None:
        (value,) = node.inputs
        if value.node in self.nodes:
            self.flush()
        self.whole.names[node.outputs[0]] = self.whole.name(value)

    def steer(self, node: Node, path: FramePath) -> None:
        lead = lead_of(node.op)
        if lead == "branch":
            self.switch(node, path)
        elif lead == "join":
            if "back" not in node.attrs:  # else the loop has it
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
            raise GraphError(f"&{node.name} waits, and names sizes that it does not take")
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
        if isinstance(kind, TensorType) and kind.dtype.kind == "bool":
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

    def collect(self, path: FramePath) -> None:
        if (self.nodes or self.sends) and path != self.path:
            self.flush()
        self.path = path

    def flush(self) -> None:
        """What was collected becomes statements."""
        nodes, sends, path = self.nodes, self.sends, self.path
        self.nodes, self.sends = [], []
        if nodes:
            self.put(self.region(nodes, self.guard(path)), path)
            self.read_on_host([v for node in nodes for v in node.outputs], path)
        for node in sends:
            given = tuple(map(self.whole.name, node.inputs))
            late = node if self.is_moved_late(node) else None
            self.put(PassOver(self.guard(path), node, reads=given, late=late), path)

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
        """Read those of some values that are for the host alone."""
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
        enters = whole.enters.get(item.frame)
        if not enters:
            return
        self.flush()
        frame = whole.paths.values[enters[0].outputs[0]]
        path = frame[:-1]
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
        block = _Block(whole, item.frame, frame)
        carried = [merge.outputs[0] for merge in whole.merges.get(item.frame, ())]
        block.read_on_host(carried, frame)
        test = block.fill(item.items)
        if not block.goes_on or set(block.later) != set(loop.merges):
            raise GraphError(f"the loop {item.frame} does not say how it goes on")
        sends = [n for one in (*test, *block.late) for n in _sent(one)]
        loop.items = [*test, Leave((block.goes_on,)), *block.late, Repeat(block.later, sends)]
        self.put(loop, path)


def _sent(one: Statement) -> Sequence[Node]:
    return (one.node,) if isinstance(one, PassOver) and lead_of(one.node.op) == "send" else ()
