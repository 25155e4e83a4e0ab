"""The cut: a lowered graph as one partition for each device, with Send and Recv between them.

After §3.3 of Abadi et al., "TensorFlow: A System for Large-Scale Machine Learning" (OSDI 2016), and
Yu et al. (EuroSys 2018) for loops. There is one pair for each value and device that needs it,
however many nodes there take it. What lies in a branch or a loop is sent and received there only
if the branch is taken, and once for each iteration: each partition decides this for itself, by the
predicate. So nothing that is dead is ever sent.
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
    """What one device runs of a graph.

    Attributes:
        device: the device.
        graph: its nodes, with Send and Recv for what comes from and goes to others.
        inputs: for each input of its graph the number of that of the whole one.
    """

    device: Device
    graph: Graph
    inputs: list[int] = field(default_factory=list)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A graph that was cut.

    Attributes:
        graph: the lowered graph before.
        partitions: of each device that has something to run, in the order of their names.
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
        usual: the device of what is on none; by default the current one.

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
class _Cutter:
    """Makes the partitions of one graph, its nodes in their order."""

    def __init__(self, graph: Graph, usual: Device) -> None:
        self.graph = graph
        self.paths = FramePaths(graph)
        self.homes = Homes(graph, self.paths, usual)
        self.demand = Demand(graph, self.paths, self.homes)
        leading = self.homes.leading
        switches = (n for n in leading if lead_of(n.op) == "branch")
        #: between how many branches a predicate decides
        self.widths = {n.inputs[1]: len(n.outputs) for n in switches}
        #: by the name of a frame one of the nodes that open it
        self.enters = {n.attrs["frame"]: n for n in leading if lead_of(n.op) == "enter"}
        self.partitions: dict[Device, Partition] = {}
        #: what stands for a value in a partition
        self.values: dict[tuple[Value, Device], Value] = {}
        self.nodes: dict[tuple[Node, Device], Node] = {}
        self.signals: dict[tuple[Node, Device], Node] = {}
        self.tokens: dict[tuple[FramePath, Device], Value] = {}
        self.pivots: dict[tuple[FramePath, Device], Node] = {}
        #: by frame, and by device, the merge of a loop that was made for a token
        self.controls: dict[str, dict[Device, Node]] = {}
        self.back: dict[tuple[str, Device], list[Node]] = {}  # merges, by what goes back to them
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
                self.node(node, device)
            for what in (*node.outputs, node):
                if what in sends:
                    self.send(what)
        outputs = []
        for value in self.graph.outputs:
            device = self.demand.place_of(value)
            outputs.append((self.partition(device), self.value(value, device)))
            outputs[-1][0].graph.outputs.append(outputs[-1][1])
        partitions = sorted(self.partitions.values(), key=lambda p: str(p.device))
        pairs = {edge: (ends[0], ends[1]) for edge, ends in self.pairs.items()}
        made = Cut(self.graph, partitions, outputs, pairs, self.order)
        for node, level in levels_of(made).items():
            if level and has_level(node):
                node.attrs = {**node.attrs, "level": level}
        return made

    # --- partitions ---

    def partition(self, device: Device) -> Partition:
        known = self.partitions.get(device)
        if known is None:
            known = self.partitions[device] = Partition(device, Graph(self.graph.name))
            known.graph.resources = dict(self.graph.resources)
        return known

    def add(
        self, device: Device, op: str, inputs: Sequence[Value], types: Any, **rest: Any
    ) -> Node:
        made = self.partition(device).graph.add_node(op, inputs, types, device=device, **rest)
        self.order.append(made)
        return made

    def node(self, node: Node, device: Device) -> None:
        """Put a node into a partition."""
        for teller in self.demand.tellers.get((node, device), ()):
            if (device, SHAPE) not in self.demand.sends.get(teller, ()):
                self.value(teller, device)
        inputs = [self.value(v, device) for v in node.inputs]
        before = [self.before(n, node, device) for n in waits_of(node)]
        waits = tuple(dict.fromkeys([n for n in before if n is not None])) if before else ()
        elsewhere = self.homes.is_copied(node) or self.homes.of(node) is not device
        graph = self.partition(device).graph
        made = copy_node(graph, node, inputs, waits, device if elsewhere else None)
        self.order.append(made)
        self.nodes[node, device] = made
        for value, here in zip(node.outputs, made.outputs, strict=True):
            self.values[value, device] = here
        if is_loop_merge(node):
            self.back.setdefault((node.attrs["back"], device), []).append(made)
        elif lead_of(node.op) == "repeat":
            for merge in self.back.get((node.name, device), ()):
                merge.attrs["back"] = made.name
        self.note_tokens(node, made, device)

    def note_tokens(self, node: Node, made: Node, device: Device) -> None:
        """Steering nodes of a partition tell which frame paths are reached."""
        if lead_of(node.op) == "branch" or is_loop_merge(node):
            for value, here in zip(node.outputs, made.outputs, strict=True):
                self.tokens.setdefault((self.paths.values[value], device), here)

    # --- values ---

    def value(self, value: Value, device: Device) -> Value:
        """What stands for a value in a partition."""
        value = source_of(value)
        known = self.values.get((value, device))
        if known is None:
            if value.node is None and self.is_here(value, device):
                known = self.input(value, device)
            else:
                known = self.receive(value, device, VALUE).outputs[0]
            self.values[value, device] = known
        return known

    def is_here(self, value: Value, device: Device) -> bool:
        """Whether an input is fed to a partition."""
        return isinstance(value.type, NumberType) or self.homes.of_value(value) is device

    def input(self, value: Value, device: Device) -> Value:
        partition = self.partition(device)
        partition.inputs.append(value.index)
        return partition.graph.add_input(value.type, value.label, value.stated)

    # --- what is sent and received ---

    def send(self, what: Value | Node) -> None:
        """Send what others need of it."""
        for device, kind in self.demand.sends.get(what, ()):
            if isinstance(what, Node) and self.tells_end(what, device) is not None:
                continue
            home = self.homes.of_value(what) if isinstance(what, Value) else self.homes.of(what)
            inputs = [self.value(what, home)] if isinstance(what, Value) else []
            waits = () if isinstance(what, Value) else (self.nodes[what, home],)
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
                self.receive(what, device, kind)

    def receive(self, what: Value | Node, device: Device, kind: str) -> Node:
        """The node that receives something in a partition."""
        edge = edge_name(what, device, kind)
        home = self.homes.of_value(what) if isinstance(what, Value) else self.homes.of(what)
        pivot = self.pivot(self.demand.path_of(what), device)
        made = self.add(
            device, "Recv", (), [what.type] if isinstance(what, Value) else (),
            attrs={"edge": edge, "source": home}, name="recv",
            control_inputs=() if pivot is None else (pivot,), **self.line_of(what, device),
        )  # fmt: skip
        self.pairs[edge].append(made)
        return made

    def line_of(self, what: Value | Node, device: Device) -> dict[str, Any]:
        """The line that asks for something on a device, or else makes it, and its scope."""
        asked = self.demand.moves.get((what, device)) if isinstance(what, Value) else None
        node = asked or (what.node if isinstance(what, Value) else what)
        return {} if node is None else {"source": node.source, "scope": node.scope}

    def before(self, before: Node, node: Node, device: Device) -> Node | None:
        """What a node of a partition waits for, so that it runs after another node."""
        made = self.demand.ran_by(before)
        if made is None:
            return None
        if is_gate(made) and not self.demand.orders(made, node):
            return self.pivot(self.paths.nodes[made], device)
        if (made, device) in self.nodes:
            return self.nodes[made, device]
        if (made, device) not in self.signals:
            sent = self.tells_end(made, device)
            if sent is not None:
                received = self.value(sent, device).node
            else:
                received = self.receive(made, device, SIGNAL)
            assert received is not None
            self.signals[made, device] = received
        return self.signals[made, device]

    def tells_end(self, node: Node, device: Device) -> Value | None:
        """An output of a node that a partition receives, and so hears that the node has run."""
        sends = self.demand.sends
        return next((v for v in node.outputs if (device, VALUE) in sends.get(v, ())), None)

    # --- frame paths ---

    def pivot(self, path: FramePath, device: Device) -> Node | None:
        """A node of a partition that runs if a frame path is reached; None for the outermost."""
        if not path:
            return None
        known = self.pivots.get((path, device))
        if known is None:
            token = self.token(path, device)
            known = self.add(device, "Identity", [token], [token.type], name="pivot")
            self.pivots[path, device] = known
        return known

    def token(self, path: FramePath, device: Device) -> Value:
        """A value of a partition that is there if a frame path is reached."""
        known = self.tokens.get((path, device))
        if known is None:
            what, _ = path[-1]
            if what == "frame":
                self.open_loop(path, device)
            else:
                self.open_branch(path, what, device)
            known = self.tokens[path, device]
        return known

    def open_branch(self, path: FramePath, predicate: Value, device: Device) -> None:
        """A ``Switch`` that tells a partition which branch is taken."""
        chosen = self.value(predicate, device)
        around = self.pivot(path[:-1], device)
        made = self.add(
            device, "Switch", [chosen, chosen], [chosen.type] * self.widths[predicate],
            name="switch", control_inputs=() if around is None else (around,),
        )  # fmt: skip
        for port, value in enumerate(made.outputs):
            self.tokens.setdefault(((*path[:-1], (predicate, port)), device), value)

    def open_loop(self, path: FramePath, device: Device) -> None:
        """The beginning of a loop that tells a partition of iterations."""
        (_, frame) = path[-1]
        enter = self.enters[frame]
        around = self.pivot(path[:-1], device)
        if around is None:
            start = self.add(device, "constant", (), [_COUNT], attrs={"value": 0}, name="token")
            first = start.outputs[0]
        else:
            first = around.outputs[0]
        attrs = {k: v for k, v in enter.attrs.items() if k != "invariant" and k != "backwards"}
        inside = self.add(device, "Enter", [first], [first.type], attrs=attrs, name="enter",
                          source=enter.source, scope=enter.scope)  # fmt: skip
        merge = self.add(device, "Merge", [inside.outputs[0]], [first.type], name="merge",
                         attrs={"back": ""}, source=enter.source)  # fmt: skip
        self.controls.setdefault(frame, {})[device] = merge
        self.tokens[path, device] = merge.outputs[0]

    def begin_iterations(self, node: Node) -> None:
        """Where a loop asks for another iteration, let the partitions ask that have tokens only."""
        path = loop_of(self.paths.nodes[node])
        (_, frame) = path[-1]
        for device in self.demand.followers[frame]:
            self.token(path, device)
        for device, merge in self.controls.pop(frame, {}).items():
            self.go_on(merge, path, device)

    def go_on(self, merge: Node, path: FramePath, device: Device) -> None:
        (_, frame) = path[-1]
        predicate = self.homes.predicates[frame]
        chosen = self.value(predicate, device)
        (token,) = merge.outputs
        switch = self.add(device, "Switch", [token, chosen], [token.type] * 2, name="switch")
        made = self.add(device, "NextIteration", [switch.outputs[0]], (), name="next")
        merge.attrs["back"] = made.name
        for port, value in enumerate(switch.outputs):
            self.tokens.setdefault(((*path, (predicate, port)), device), value)


def edge_name(what: Value | Node, device: Device, kind: str) -> str:
    """What the edge is called by which something is sent."""
    return f"{what.name} -> {device}" + (f" ({kind})" if kind != VALUE else "")


def levels_of(cut: Cut) -> dict[Node, int]:
    """How many cuts lie before each node, in all partitions (see `eagerflow.graph.lowering`)."""
    levels, senders = Levels(), {received: sent for sent, received in cut.pairs.values()}
    paths: dict[Node, FramePath] = {}
    sizes: dict[Node, list[Value]] = {}
    for partition in cut.partitions:
        known = FramePaths(partition.graph)
        paths |= known.nodes
        sizes |= find_size_values(partition.graph, known)
    for node in cut.order:
        if node.op != "constant":
            values = (*node.inputs, *sizes.get(node, ()))
            before = [v.node for v in values if v.node is not None]
            before += node.control_inputs
            if lead_of(node.op) == "receive":
                before.append(senders[node])
            levels.add(node, paths[node], before)
    return levels.of
