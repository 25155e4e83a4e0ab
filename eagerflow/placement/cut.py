"""The cut: a lowered graph as one partition for each device, with Send and Recv between them.

After §3.3 of Abadi et al., "TensorFlow: A System for Large-Scale Machine Learning" (OSDI 2016), and
Yu et al. (EuroSys 2018) for loops. There is one pair for each value and device that needs it,
however many nodes there take it. A value in a branch or a loop is sent and received only if the
branch is taken, and once per iteration: each partition decides this for itself, by the predicate.
So no dead value is ever sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from eagerflow.graph.edit import copy_node
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering.cut_levels import Levels, has_level
from eagerflow.graph.lowering.frame_paths import (
    FramePath,
    FramePaths,
    find_size_values,
    loop_of,
)
from eagerflow.graph.signatures import lead_of
from eagerflow.graph.value_types import NumberType
from eagerflow.hardware import Device, as_device
from eagerflow.placement.demand import SHAPE, SIGNAL, VALUE, Demand
from eagerflow.placement.node_homes import (
    Homes,
    check_operands,
    is_gate,
    is_loop_merge,
    source_of,
    waits_of,
)

_COUNT: Final = NumberType(int)


@final
@dataclass(slots=True, eq=False)
class Partition:
    """The part of a graph that one device runs.

    Attributes:
        device: the device.
        graph: its nodes, with Send and Recv for values that go to and come from other devices.
        inputs: for each input of the partition, its index among the inputs of the whole graph.
    """

    device: Device
    graph: Graph
    inputs: list[int] = field(default_factory=list)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The result of cutting a graph.

    Attributes:
        graph: the lowered graph before the cut.
        partitions: one for each device that runs nodes, in the order of device names.
        outputs: for each output of the graph its partition, and the value there.
        pairs: for each edge its Send and its Recv.
        order: the nodes of all partitions in an order in which they can run. Each partition has
            its nodes in this order.
    """

    graph: Graph
    partitions: Sequence[Partition]
    outputs: Sequence[tuple[Partition, Value]]
    pairs: dict[str, tuple[Node, Node]]
    order: Sequence[Node]


def cut(graph: Graph, usual: Device | None = None) -> Cut:
    """Cut a lowered graph into partitions.

    Args:
        graph: a lowered graph (see `eagerflow.graph.lowering`). It stays as it is.
        usual: the device of nodes that have none; by default the current one.

    Raises:
        DeviceError: a node has operands on several devices, and no transfer between.

    >>> from eagerflow.placement.cut import cut
    >>> graph = ef.Graph.parse('''
    ...     graph f(%x: f32[2]@cpu:0) {
    ...       %y = exp(%x) : f32[2]@cpu:0
    ...       %moved = transfer(%y) {device=device("null:0"), source=device("cpu:0")}
    ...         : f32[2]@null:0
    ...       %z = log(%moved) : f32[2]@null:0
    ...       return %z
    ...     }''')
    >>> for partition in cut(graph).partitions:
    ...     print(partition.graph)
    graph f(%x: f32[2]@cpu:0) {
      %y = exp(%x) : f32[2]@cpu:0
      &send: Send(%y) {edge="y -> null:0", to=device("null:0")}
      return
    }
    graph f() {
      %recv = Recv() {edge="y -> null:0", source=device("cpu:0")} : f32[2]@null:0
      %z = log(%recv) : f32[2]@null:0
      return %z
    }
    """
    check_operands(graph)
    return _Cutter(graph, usual or as_device(None)).run()


@final
@dataclass(slots=True, eq=False)
class _Side:
    """A partition under construction.

    Attributes:
        partition: the partition.
        device: its device.
        values: for a value of the graph, its counterpart in the partition.
        nodes: for a node of the graph, its copy in the partition.
        signals: for a node of another partition, the node that receives its signal.
        tokens: by frame path, a value that is live if the path is reached.
        pivots: by frame path, a node that runs if the path is reached.
        back: the merges of loops, by the name of the ``NextIteration`` node of their back edge.
    """

    partition: Partition
    device: Device
    values: dict[Value, Value] = field(default_factory=dict)
    nodes: dict[Node, Node] = field(default_factory=dict)
    signals: dict[Node, Node] = field(default_factory=dict)
    tokens: dict[FramePath, Value] = field(default_factory=dict)
    pivots: dict[FramePath, Node] = field(default_factory=dict)
    back: dict[str, list[Node]] = field(default_factory=dict)


@final
class _Cutter:
    """Builds the partitions of one graph, node by node in its order."""

    def __init__(self, graph: Graph, usual: Device) -> None:
        self.graph = graph
        self.paths = FramePaths(graph)
        self.homes = Homes(graph, self.paths, usual)
        self.demand = Demand(graph, self.paths, self.homes)
        leading = self.homes.leading
        switches = (n for n in leading if lead_of(n.op) == "branch")
        #: by predicate the number of branches it decides between
        self.widths = {n.inputs[1]: len(n.outputs) for n in switches}
        #: by the name of a frame one of the nodes that open it
        self.enters = {n.attrs["frame"]: n for n in leading if lead_of(n.op) == "enter"}
        self.sides: dict[Device, _Side] = {}
        #: by frame the loop merges created for tokens, each with its side
        self.controls: dict[str, list[tuple[_Side, Node]]] = {}
        self.pairs: dict[str, list[Node]] = {}
        self.order: list[Node] = []

    def run(self) -> Cut:
        sends = self.demand.sends
        for value in self.graph.inputs:
            self.send(value)
        for node in self.graph.nodes:
            if node in self.homes.steers:
                self.begin_iterations(node)
            for device in self.demand.runs.get(node, ()):
                self.node(node, self.side(device))
            for what in (*node.outputs, node):
                if what in sends:
                    self.send(what)
        outputs = []
        for value in self.graph.outputs:
            side = self.side(self.demand.place_of(value))
            outputs.append((side.partition, self.value(value, side)))
            side.partition.graph.outputs.append(outputs[-1][1])
        sides = sorted(self.sides.values(), key=lambda side: side.device.name)
        partitions = [side.partition for side in sides]
        pairs = {edge: (ends[0], ends[1]) for edge, ends in self.pairs.items()}
        made = Cut(self.graph, partitions, outputs, pairs, self.order)
        for node, level in levels_of(made).items():
            if level and has_level(node):
                node.attrs = {**node.attrs, "level": level}
        return made

    # --- partitions ---

    def side(self, device: Device) -> _Side:
        known = self.sides.get(device)
        if known is None:
            graph = Graph(self.graph.name)
            graph.resources = dict(self.graph.resources)
            known = self.sides[device] = _Side(Partition(device, graph), device)
        return known

    def add(self, side: _Side, op: str, inputs: Sequence[Value], types: Any, **rest: Any) -> Node:
        made = side.partition.graph.add_node(op, inputs, types, device=side.device, **rest)
        self.order.append(made)
        return made

    def node(self, node: Node, side: _Side) -> None:
        """Put a node into a partition."""
        device = side.device
        for teller in self.demand.tellers.get((node, device), ()):
            if (device, SHAPE) not in self.demand.sends.get(teller, ()):
                self.value(teller, side)
        inputs = [self.value(v, side) for v in node.inputs]
        before = [self.before(n, node, side) for n in waits_of(node)]
        waits = tuple(dict.fromkeys([n for n in before if n is not None])) if before else ()
        elsewhere = self.homes.is_copied(node) or self.homes.of(node) is not device
        made = copy_node(side.partition.graph, node, inputs, waits, device if elsewhere else None)
        self.order.append(made)
        side.nodes[node] = made
        for value, here in zip(node.outputs, made.outputs, strict=True):
            side.values[value] = here
        lead = lead_of(node.op)
        if not lead:
            return
        is_merge = is_loop_merge(node)
        if is_merge:
            side.back.setdefault(node.attrs["back"], []).append(made)
        elif lead == "repeat":
            for merge in side.back.get(node.name, ()):
                merge.attrs["back"] = made.name
        if is_merge or lead == "branch":  # their outputs show that frame paths are reached
            for value, here in zip(node.outputs, made.outputs, strict=True):
                side.tokens.setdefault(self.paths.values[value], here)

    # --- values ---

    def value(self, value: Value, side: _Side) -> Value:
        """The counterpart of a value in a partition."""
        value = source_of(value)
        known = side.values.get(value)
        if known is None:
            if value.node is None and self.is_here(value, side.device):
                known = self.input(value, side.partition)
            else:
                known = self.receive(value, side, VALUE).outputs[0]
            side.values[value] = known
        return known

    def is_here(self, value: Value, device: Device) -> bool:
        """Whether an input is fed to a partition."""
        return isinstance(value.type, NumberType) or self.homes.of_value(value) is device

    @staticmethod
    def input(value: Value, partition: Partition) -> Value:
        partition.inputs.append(value.index)
        return partition.graph.add_input(value.type, value.label, value.stated)

    # --- sends and receives ---

    def send(self, what: Value | Node) -> None:
        """Send a value, its shape or a node's signal to the partitions that need it."""
        inputs: tuple[Value, ...] = ()
        waits: tuple[Node, ...] = ()
        if isinstance(what, Value):
            home = self.side(self.homes.of_value(what))
            inputs = (self.value(what, home),)
        else:
            home = self.side(self.homes.of(what))
            waits = (home.nodes[what],)
        for device, kind in self.demand.sends.get(what, ()):
            if isinstance(what, Node) and self.demand.tells_end(what, device) is not None:
                continue
            edge = edge_name(what, device, kind)
            attrs: dict[str, Any] = {"edge": edge, "to": device}
            if kind == SHAPE:
                attrs["shape"] = True
            sent = self.add(
                home, "Send", inputs, (), attrs=attrs, name="send", control_inputs=waits,
                **self.line_of(what, device),
            )  # fmt: skip
            self.pairs[edge] = [sent]
            if kind == SHAPE:  # any node from here on may name the size
                self.receive(what, self.side(device), kind)

    def receive(self, what: Value | Node, side: _Side, kind: str) -> Node:
        """The node that receives something in a partition."""
        device = side.device
        edge = edge_name(what, device, kind)
        home = self.homes.of_value(what) if isinstance(what, Value) else self.homes.of(what)
        pivot = self.pivot(self.demand.path_of(what), side)
        made = self.add(
            side, "Recv", (), [what.type] if isinstance(what, Value) else (),
            attrs={"edge": edge, "source": home}, name="recv",
            control_inputs=() if pivot is None else (pivot,), **self.line_of(what, device),
        )  # fmt: skip
        self.pairs[edge].append(made)
        return made

    def line_of(self, what: Value | Node, device: Device) -> dict[str, Any]:
        """The line that asks for something on a device, or else computes it, and its scope."""
        asked = self.demand.moves.get((what, device)) if isinstance(what, Value) else None
        node = asked or (what.node if isinstance(what, Value) else what)
        return {} if node is None else {"source": node.source, "scope": node.scope}

    def before(self, before: Node, node: Node, side: _Side) -> Node | None:
        """The node that a node of a partition waits for in order to run after ``before``."""
        made = self.demand.ran_by(before)
        if made is None:
            return None
        if is_gate(made) and not self.demand.orders(made, node):
            return self.pivot(self.paths.nodes[made], side)
        if made in side.nodes:
            return side.nodes[made]
        if made not in side.signals:
            sent = self.demand.tells_end(made, side.device)
            if sent is not None:
                received = self.value(sent, side).node
            else:
                received = self.receive(made, side, SIGNAL)
            assert received is not None
            side.signals[made] = received
        return side.signals[made]

    # --- frame paths ---

    def pivot(self, path: FramePath, side: _Side) -> Node | None:
        """A node of a partition that runs if a frame path is reached; None for the outermost."""
        if not path:
            return None
        known = side.pivots.get(path)
        if known is None:
            token = self.token(path, side)
            known = self.add(side, "Identity", [token], [token.type], name="pivot")
            side.pivots[path] = known
        return known

    def token(self, path: FramePath, side: _Side) -> Value:
        """A value of a partition that is live if a frame path is reached."""
        known = side.tokens.get(path)
        if known is None:
            what, _ = path[-1]
            if what == "frame":
                self.open_loop(path, side)
            else:
                self.open_branch(path, what, side)
            known = side.tokens[path]
        return known

    def open_branch(self, path: FramePath, predicate: Value, side: _Side) -> None:
        """Add a ``Switch`` by which a partition knows which branch is taken."""
        chosen = self.value(predicate, side)
        around = self.pivot(path[:-1], side)
        made = self.add(
            side, "Switch", [chosen, chosen], [chosen.type] * self.widths[predicate],
            name="switch", control_inputs=() if around is None else (around,),
        )  # fmt: skip
        for port, value in enumerate(made.outputs):
            side.tokens.setdefault((*path[:-1], (predicate, port)), value)

    def open_loop(self, path: FramePath, side: _Side) -> None:
        """Add the ``Enter`` and ``Merge`` of a loop by which a partition follows iterations."""
        (_, frame) = path[-1]
        enter = self.enters[frame]
        around = self.pivot(path[:-1], side)
        if around is None:
            start = self.add(side, "constant", (), [_COUNT], attrs={"value": 0}, name="token")
            first = start.outputs[0]
        else:
            first = around.outputs[0]
        attrs = {k: v for k, v in enter.attrs.items() if k != "invariant" and k != "backwards"}
        inside = self.add(side, "Enter", [first], [first.type], attrs=attrs, name="enter",
                          source=enter.source, scope=enter.scope)  # fmt: skip
        merge = self.add(side, "Merge", [inside.outputs[0]], [first.type], name="merge",
                         attrs={"back": ""}, source=enter.source)  # fmt: skip
        self.controls.setdefault(frame, []).append((side, merge))
        side.tokens[path] = merge.outputs[0]

    def begin_iterations(self, node: Node) -> None:
        """At a loop's decision to go on, close the loops of partitions that have tokens only."""
        path = loop_of(self.paths.nodes[node])
        (_, frame) = path[-1]
        for device in self.demand.followers[frame]:
            self.token(path, self.side(device))
        for side, merge in self.controls.pop(frame, ()):
            self.go_on(merge, path, side)

    def go_on(self, merge: Node, path: FramePath, side: _Side) -> None:
        (_, frame) = path[-1]
        predicate = self.homes.predicates[frame]
        chosen = self.value(predicate, side)
        (token,) = merge.outputs
        switch = self.add(side, "Switch", [token, chosen], [token.type] * 2, name="switch")
        made = self.add(side, "NextIteration", [switch.outputs[0]], (), name="next")
        merge.attrs["back"] = made.name
        for port, value in enumerate(switch.outputs):
            side.tokens.setdefault((*path, (predicate, port)), value)


def edge_name(what: Value | Node, device: Device, kind: str) -> str:
    """The name of the edge that carries a value or signal to a device."""
    return f"{what.name} -> {device}" + (f" ({kind})" if kind != VALUE else "")


def levels_of(cut: Cut) -> dict[Node, int]:
    """The number of cuts before each node of all partitions (see `eagerflow.graph.lowering`)."""
    levels, senders = Levels(), {received: sent for sent, received in cut.pairs.values()}
    paths: dict[Node, FramePath] = {}
    sizes: dict[Node, list[Value]] = {}
    for partition in cut.partitions:
        known = FramePaths(partition.graph)
        paths |= known.nodes
        sizes |= find_size_values(partition.graph, known)
    for node in cut.order:
        if node.op == "constant":
            continue
        values = node.inputs if node not in sizes else (*node.inputs, *sizes[node])
        before = [v.node for v in values if v.node is not None]
        before += node.control_inputs
        sent = senders.get(node)
        if sent is not None:
            before.append(sent)
        levels.add(node, paths[node], before)
    return levels.of
