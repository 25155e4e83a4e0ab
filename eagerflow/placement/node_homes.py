"""The home device of each node of a lowered graph, and the nodes copied instead of sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, final

from eagerflow.core.infer import infer_devices
from eagerflow.core.op import find_op
from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering.frame_paths import FramePaths, is_pivot, loop_of
from eagerflow.graph.signatures import is_structured, is_transfer, kind_of, lead_of
from eagerflow.graph.value_types import NumberType
from eagerflow.hardware import Device
from eagerflow.types import TensorType


def check_operands(graph: Graph) -> None:
    """Refuse nodes whose operands are on several devices: a cut moves nothing by itself.

    Raises:
        DeviceError: a node has such operands; the message names them.
    """
    for node in graph.nodes:
        devices = [v.device for v in node.inputs]
        op = None if _is_one(devices) else find_op(node.op)
        if op is not None:
            types = [v.type for v in node.inputs if isinstance(v.type, TensorType)]
            infer_devices(op, devices, node.attrs, types)


def _is_one(devices: Iterable[Any]) -> bool:
    """Whether all known devices are the same."""
    first = None
    for device in devices:
        if device is not None and device is not first:
            if first is not None and device != first:
                return False
            first = device
    return True


@final
class Homes:
    """The home of each node: the device that runs it.

    Nodes without a home are *copied*: each partition that needs one runs it itself. They are
    constants, and arithmetic among Python numbers that depends on nothing but numbers that every
    partition has, such as the count of iterations. A transfer has no home either: it is cut into
    Send and Recv.

    Args:
        graph: a lowered graph.
        paths: its frame paths.
        usual: the device of nodes that have none.
    """

    def __init__(self, graph: Graph, paths: FramePaths, usual: Device) -> None:
        self.graph = graph
        self.paths = paths
        self.usual = usual
        #: the nodes that lead values into branches and loops, and out of them
        self.leading = [n for n in graph.nodes if lead_of(n.op)]
        #: the node on the back edge to a loop's ``Merge``, by name
        self.back = {n.name: n for n in self.leading if lead_of(n.op) == "repeat"}
        #: the nodes at which loop-carried values stay in their loop, or leave it
        self.steers = {
            v.node
            for n in self.leading if lead_of(n.op) == "leave"
            for v in n.inputs if v.node is not None
        }  # fmt: skip
        #: by the name of a frame the value that decides whether there is another iteration
        self.predicates = self._find_predicates()
        self._copied = self._find_copied()
        self._homes: dict[Node, Device] = {}

    def _find_predicates(self) -> dict[str, Value]:
        predicates: dict[str, Value] = {}
        for switch in self.steers:
            (_, frame) = loop_of(self.paths.nodes[switch])[-1]
            predicates[frame] = switch.inputs[1]
        return predicates

    def _find_copied(self) -> set[Node]:
        """The largest set of number nodes and constants that need nothing but each other."""
        copied = {n for n in self.graph.nodes if n.op == "constant" or _computes_numbers(n)}
        while True:
            lost = {n for n in copied if not self._needs_only(n, copied)}
            if not lost:
                return copied
            copied -= lost

    def _needs_only(self, node: Node, copied: set[Node]) -> bool:
        if not all(map(is_gate, node.control_inputs)):
            return False
        lead = lead_of(node.op)
        if lead == "enter":
            return True  # a number is sent before a loop once, and each partition counts for itself
        inputs = list(node.inputs[:1] if lead == "branch" else node.inputs)
        if is_loop_merge(node):
            inputs += self.back[node.attrs["back"]].inputs
        return all(
            v.node in copied if v.node is not None else isinstance(v.type, NumberType)
            for v in inputs
        )

    def is_copied(self, node: Node) -> bool:
        """Whether each partition that needs the node runs it itself."""
        return node in self._copied

    def of(self, node: Node) -> Device:
        """The home of a node that is neither copied nor a transfer."""
        home = self._homes.get(node)
        if home is None:
            home = self._homes[node] = self._find(node)
        return home

    def of_value(self, value: Value) -> Device:
        """The device that computes a value, or to which it is fed."""
        if value.node is None:
            return as_known(value.device) or self.usual
        return self.of(value.node)

    def _find(self, node: Node) -> Device:
        if is_structured(node.op):
            return self._first(devices_in([node]))
        values = node.outputs or node.inputs
        known = as_known(node.device) or self._known(v.device for v in values)
        if known is not None and not _is_about_numbers(node):
            return known
        if lead_of(node.op) not in ("", "send", "receive"):
            return self._of_steering(node)
        makers = [v.node for v in node.inputs if v.node is not None]
        for maker in (*makers, *node.control_inputs):
            if not (self.is_copied(maker) or is_transfer(maker.op)):
                return self.of(maker)
        return known or self.usual

    def _of_steering(self, node: Node) -> Device:
        """The home of a node that steers a number: that of the predicate that decides its way."""
        path = self.paths.nodes[node]
        lead = lead_of(node.op)
        if lead == "enter":
            path = self.paths.values[node.outputs[0]]
        elif lead == "join" and not is_loop_merge(node):
            path = self.paths.values[node.inputs[0]]
        for what, which in reversed(path):
            predicate = self.predicates[which] if what == "frame" else what
            predicate = source_of(predicate)
            if predicate.node is None or not self.is_copied(predicate.node):
                return self.of_value(predicate)
        return self.usual

    def _known(self, devices: Iterable[Any]) -> Device | None:
        return next((d for d in map(as_known, devices) if d is not None), None)

    def _first(self, devices: Iterable[Any]) -> Device:
        return min(map(as_known, devices), key=str, default=self.usual) or self.usual


def as_known(device: Any) -> Device | None:
    """The device; None if this process lacks it, or if it is not known."""
    return device if isinstance(device, Device) else None


def is_loop_merge(node: Node) -> bool:
    """Whether a node is the ``Merge`` of a loop-carried value."""
    return "back" in node.attrs and lead_of(node.op) == "join"


def is_gate(node: Node) -> bool:
    """Whether pure nodes wait for this node only in order to run in a branch or an iteration."""
    return is_pivot(node) or is_loop_merge(node)


def source_of(value: Value) -> Value:
    """The value behind any transfers: the original of a moved value."""
    maker = value.node
    while maker is not None and is_transfer(maker.op):
        value = maker.inputs[0]
        maker = value.node
    return value


def waits_of(node: Node) -> Iterator[Node]:
    """The nodes that a node, or a transfer of one of its operands, waits for by control edges."""
    yield from node.control_inputs
    for value in node.inputs:
        maker = value.node
        while maker is not None and is_transfer(maker.op):
            yield from maker.control_inputs
            maker = maker.inputs[0].node


def _is_about_numbers(node: Node) -> bool:
    return all(isinstance(v.type, NumberType) for v in node.outputs or node.inputs)


def _computes_numbers(node: Node) -> bool:
    """Whether every partition can compute a node's numbers, given its operands."""
    kind = kind_of(node.op)
    if kind == "steering" and (
        lead_of(node.op) in ("branch", "enter", "repeat") or is_loop_merge(node)
    ):
        return _is_about_numbers(node)
    return kind == "number" and all(isinstance(v.type, NumberType) for v in node.inputs)
