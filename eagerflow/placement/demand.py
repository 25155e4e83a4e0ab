"""Demand of each partition: the nodes it runs, and the values and signals it gets from others.

A partition runs the nodes that are at home on its device. From there demand propagates backwards:
an operand is computed in the partition, or copied into it (constants, numbers), or sent to it. A
value sent from within a loop or a branch is received within one, so the partition gets a *token*
for that frame path: in a branch a ``Switch`` of its own, in a loop a ``Merge``, both driven by the
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

#: kinds of messages: a value, the signal that a node has run, or the shape of a value
VALUE: Final = "value"
SIGNAL: Final = "signal"
SHAPE: Final = "shape"


@final
class Demand:
    """The nodes, values and signals that the partitions of a graph need.

    Args:
        graph: a lowered graph.
        paths: its frame paths.
        homes: the homes of its nodes.

    Attributes:
        runs: for each node the devices whose partitions run it.
        sends: for each value, or node whose end is waited for, the devices and kinds of its sends.
        tokens: the pairs of frame path and device for which a partition makes its own token.
        followers: for each frame the devices that take part in its iterations.
        moves: for each value and device that it is sent to, the transfer that asks for it.
        tellers: for each node and device, the values besides operands that give sizes there.
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
        self._unsized: dict[Node, None] = {}  # nodes whose sizes are not resolved yet
        self._waiting: list[tuple[Node, Device]] = []
        #: outer values that branches take, for which it is open whether they must be sent
        self._chosen: dict[tuple[Value, Device], None] = {}
        for node in graph.nodes:
            # steering nodes serve other nodes, and run where these need them
            if not (homes.is_copied(node) or is_transfer(node.op) or is_steering(node.op)):
                self._run(node, homes.of(node))
        for value in graph.outputs:
            self._value(value, self.place_of(value))
        self._settle()

    def place_of(self, value: Value) -> Device:
        """The device on which an output of the graph is delivered, whatever computes it."""
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
        """Send into branches the values that partitions need there and lack outside of them.

        A partition that has the outer value runs the ``Switch`` itself, as it knows the predicate.
        Values in fewer loops and branches are sent first, as they may make others reachable.
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
        """Whether a partition has a value, or its source outside of branches and loops."""
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
        """The frame path at which a value or signal is sent."""
        if isinstance(what, Value):
            return self.paths.values[what]
        return self.paths.behind(what)

    def _after(self, before: Node, node: Node, device: Device) -> None:
        """Let ``node`` run after ``before`` on a device."""
        made = self.ran_by(before)
        if made is None:
            return
        if is_gate(made):
            self._token(self.paths.nodes[made], device)
            if not self.orders(made, node):
                return
        if self.homes.is_copied(made) or self.homes.of(made) is device:
            self._run(made, device)
        elif self.tells_end(made, device) is None:
            self._send(made, device, SIGNAL)

    def tells_end(self, node: Node, device: Device) -> Value | None:
        """An output that is sent to a device anyway, and there serves as the node's signal.

        Those of a ``Switch`` do not: only one is live, and another branch may need the signal.
        """
        if lead_of(node.op) == "branch":
            return None
        return next((v for v in node.outputs if (device, VALUE) in self.sends.get(v, ())), None)

    @staticmethod
    def ran_by(node: Node) -> Node | None:
        """The node whose end implies that of ``node``: the source of a transfer, else itself."""
        return source_of(node.outputs[0]).node if is_transfer(node.op) else node

    def orders(self, gate: Node, node: Node) -> bool:
        """Whether a node that waits for a gate waits for effects in the path around both, too."""
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
        """Note that a partition needs a token for a frame path."""
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
        """Find values that give partitions the sizes their nodes name; send shapes."""
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
        """Let a partition have one of ``values``, each of which gives a size that a node names."""
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
        """By name of a size, the values that give it."""
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
