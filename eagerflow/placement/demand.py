"""What each partition needs: which nodes it runs, and which values and signals it gets from others.

A partition runs the nodes that are at home on its device. From there demand goes backwards: an
operand is made in the partition, or copied into it (constants, numbers), or sent to it. What is
sent from within a loop or a branch is received within one, so the partition gets a *token* for that
frame path: in a branch a ``Switch`` of its own, in a loop a ``Merge``, both of them driven by the
predicate, which is sent like any other value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, final

from eagerflow.graph.edit import lone_names, sizes_named_by, tells_size
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering import is_steering
from eagerflow.graph.lowering.frame_paths import (
    FramePath,
    FramePaths,
    is_for_first_iteration,
    is_pivot,
    size_value,
)
from eagerflow.graph.passes.rewrite import is_pure
from eagerflow.graph.signatures import is_transfer, lead_of
from eagerflow.graph.value_types import NumberType
from eagerflow.hardware import Device
from eagerflow.placement.node_homes import Homes, is_gate, is_loop_merge, source_of, waits_of

#: what is sent: a value, that a node has run, or the shape of a value
VALUE: Final = "value"
SIGNAL: Final = "signal"
SHAPE: Final = "shape"


@final
class Demand:
    """What the partitions of a graph need.

    Args:
        graph: a lowered graph.
        paths: its frame paths.
        homes: where its nodes are at home.

    Attributes:
        runs: for each node the devices whose partitions run it.
        sends: for each value, or node whose end is waited for, what is sent of it to where.
        tokens: the frame paths for which a partition makes a token of its own, by device.
        followers: for each frame the devices that take part in its iterations.
        moves: for values and the devices that they are sent to the transfers that say so.
        tellers: for each node and device the values that tell sizes there, besides its operands.
    """

    def __init__(self, graph: Graph, paths: FramePaths, homes: Homes) -> None:
        self.graph = graph
        self.paths = paths
        self.homes = homes
        self.runs: dict[Node, dict[Device, None]] = defaultdict(dict)
        self.sends: dict[Value | Node, dict[tuple[Device, str], None]] = defaultdict(dict)
        self.tokens: dict[tuple[FramePath, Device], None] = {}
        self.followers: dict[str, list[Device]] = defaultdict(list)
        self.tellers: dict[tuple[Node, Device], dict[Value, None]] = {}
        self.moves: dict[tuple[Value, Device], Node] = {}
        self._all_tellers = self._find_tellers()
        self._positions = {node: i for i, node in enumerate(graph.nodes)}
        self._unsized: dict[Node, None] = {}  # nodes whose sizes were not looked at
        self._waiting: list[tuple[Node, Device]] = []
        #: what branches take from around, where it is not known whether it has to be sent
        self._chosen: dict[tuple[Value, Device], None] = {}
        for node in graph.nodes:
            # what steers tokens is there for others, and is run where they need it
            if not (homes.is_copied(node) or is_transfer(node.op) or is_steering(node.op)):
                self._run(node, homes.of(node))
        for value in graph.outputs:
            self._value(value, self.place_of(value))
        self._settle()

    def place_of(self, value: Value) -> Device:
        """Where an output of the graph is given, whatever makes it."""
        device = value.device
        if isinstance(device, Device):
            return device
        node = value.node
        copied = node is None or self.homes.is_copied(node)
        return self.homes.usual if copied else self.homes.of_value(value)

    # --- demand ---

    def _settle(self) -> None:
        while True:
            while self._waiting:
                node, device = self._waiting.pop()
                for value in node.inputs:
                    self._value(value, device)
                if is_loop_merge(node):
                    self._run(self.homes.back[node.attrs["back"]], device)
                for before in waits_of(node):
                    self._after(before, node, device)
            if self._chosen:
                self._choose()
            elif self._unsized:
                self._sizes()
            else:
                return

    def _run(self, node: Node, device: Device) -> None:
        if device not in self.runs[node]:
            self.runs[node][device] = None
            self._unsized[node] = None
            self._waiting.append((node, device))

    def _value(self, value: Value, device: Device) -> None:
        transfer, value = value.node, source_of(value)
        node = value.node
        if transfer is not None and is_transfer(transfer.op):
            self.moves.setdefault((value, device), transfer)
        if node is None:
            if not isinstance(value.type, NumberType) and self.homes.of_value(value) is not device:
                self._send(value, device)
        elif self.homes.is_copied(node) or node.attrs.get("invariant"):
            self._run(node, device)  # an invariant of a loop is sent once, before the loop
        elif device in self.runs.get(node, ()):
            return
        elif self.homes.of(node) is device:
            self._run(node, device)
        elif lead_of(node.op) != "branch":
            self._send(value, device)
        elif (device, VALUE) not in self.sends.get(value, ()):
            self._chosen[value, device] = None

    def _send(self, what: Value | Node, device: Device, kind: str = VALUE) -> None:
        if (device, kind) in self.sends[what]:
            return
        self.sends[what][device, kind] = None
        self._token(self.path_of(what), device)
        node = what.node if isinstance(what, Value) else what
        if node is not None:
            self._run(node, self.homes.of(node))

    def _choose(self) -> None:
        """Send into branches what partitions need there, and do not have from around them.

        A partition that has it chooses by itself, as it knows the predicate. What lies in fewer
        loops and branches is sent first, as more may be reached from there.
        """
        chosen = self._chosen
        there = {(v, d) for v, d in chosen if v.node and self._reaches(v.node.inputs[0], d)}
        outermost = min(len(self.path_of(value)) for value, _ in chosen)
        self._chosen = {}
        for value, device in chosen:
            if value.node and (value, device) in there:
                self._run(value.node, device)
            elif there or len(self.path_of(value)) > outermost:  # of which more may follow
                self._chosen[value, device] = None
            else:
                self._send(value, device)

    def _reaches(self, value: Value, device: Device) -> bool:
        """Whether a partition has a value, or what it is around branches and loops that take it."""
        value = source_of(value)
        node = value.node
        if self._has(value, device) or (value, device) in self._chosen:
            return True
        if node is None or not (lead_of(node.op) == "branch" or node.attrs.get("invariant")):
            return False
        return self._reaches(node.inputs[0], device)

    def _has(self, value: Value, device: Device) -> bool:
        if (device, VALUE) in self.sends.get(value, ()):
            return True
        if value.node is None:
            return self.homes.of_value(value) is device
        return self.homes.is_copied(value.node) or device in self.runs.get(value.node, ())

    def path_of(self, what: Value | Node) -> FramePath:
        """At which frame path something is sent."""
        if isinstance(what, Value):
            return self.paths.values[what]
        return self.paths.behind(what)

    def _after(self, before: Node, node: Node, device: Device) -> None:
        """A node is to run after another one."""
        made = self.ran_by(before)
        if made is None:
            return
        if is_gate(made):
            self._token(self.paths.nodes[made], device)
            if not self.orders(made, node):
                return
        if self.homes.is_copied(made) or self.homes.of(made) is device:
            self._run(made, device)
        elif not any((device, VALUE) in self.sends.get(v, ()) for v in made.outputs):
            self._send(made, device, SIGNAL)

    @staticmethod
    def ran_by(node: Node) -> Node | None:
        """The node that has run when this one, perhaps a transfer, has."""
        return source_of(node.outputs[0]).node if is_transfer(node.op) else node

    def orders(self, gate: Node, node: Node) -> bool:
        """Whether a node that waits for a gate waits for effects, too, in what is around both."""
        if is_pure(node):
            return False
        if not is_pivot(gate):
            return True
        (value,) = gate.inputs
        maker = value.node
        if maker is None or self.homes.is_copied(maker):
            return False
        return bool(maker.control_inputs) or isinstance(value.type, NumberType)

    # --- frame paths ---

    def _token(self, path: FramePath, device: Device) -> None:
        """A partition needs something that is there if a frame path is reached."""
        if not path or (path, device) in self.tokens:
            return
        self.tokens[path, device] = None
        self._token(path[:-1], device)
        what, which = path[-1]
        if what != "frame":
            if not self.is_next(path):
                self._value(what, device)
        else:
            self.followers[which].append(device)
            self._value(self.homes.predicates[which], device)

    def is_next(self, path: FramePath) -> bool:
        """Whether a frame path is that of a further iteration, rather than of a branch."""
        if len(path) < 2 or path[-2][0] != "frame":
            return False
        return self.homes.predicates.get(path[-2][1]) is path[-1][0]

    # --- sizes ---

    def _sizes(self) -> None:
        """Find out which values tell partitions the sizes that their nodes name; send shapes."""
        nodes, self._unsized = self._unsized, {}
        for node in nodes if self._all_tellers else ():
            own = {name for v in node.inputs for name in lone_names(v.type)}
            for name in sorted({*sizes_named_by(node)} - own):
                values = [v for v in self._all_tellers.get(name, ()) if self._is_before(v, node)]
                for device in self.runs[node]:
                    self._tell(values, node, device)

    def _is_before(self, value: Value, node: Node) -> bool:
        return value.node is None or self._positions[value.node] < self._positions[node]

    def _tell(self, values: Sequence[Value], node: Node, device: Device) -> None:
        """Let a partition have one of ``values``, which all tell a size that a node names."""
        path = self.paths.nodes[node]
        there = [v for v in values if self._is_there(v, device)]
        teller = size_value(there, path, self.paths) or size_value(values, path, self.paths)
        if teller is None:
            return
        self.tellers.setdefault((node, device), {})[teller] = None
        if self._is_there(teller, device):
            return
        if self.homes.of_value(teller) is not device:
            self._send(teller, device, SHAPE)
        elif teller.node is not None:
            self._run(teller.node, device)

    def _is_there(self, value: Value, device: Device) -> bool:
        """Whether a partition has a value, or its shape."""
        return (device, SHAPE) in self.sends.get(value, ()) or self._has(value, device)

    def _find_tellers(self) -> dict[str, list[Value]]:
        """By name the values that tell a size."""
        tellers: dict[str, list[Value]] = {}
        for value in filter(_tells_size, self.graph.values()):
            node = value.node
            if node is None or not (
                node.op == "constant" or is_transfer(node.op) or is_for_first_iteration(node)
            ):
                for name in lone_names(value.type):
                    tellers.setdefault(name, []).append(value)
        return tellers


def _tells_size(value: Value) -> bool:
    return tells_size(value.type)
