"""The devices of constants in placed graphs: those of their consumers.

A constant is created in the device scope of the line that needs it, and rules do not mention it.
If it stayed while its only consumers moved, a branch or a loop placed on one device as a whole
would be on two, and would be cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, final

from eagerflow.graph.devices import bindings
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import is_loop, is_structured, is_transfer, kind_of
from eagerflow.hardware import Device
from eagerflow.placement.branch_and_loop_devices import Ends, carried


def settle_constants(graph: Graph, ends: Ends) -> None:
    """Put each constant that only one device needs on that device, in place.

    Args:
        graph: the graph, whose nodes are placed and whose loops are settled.
        ends: the devices wanted for the outputs of the graph and of its subgraphs.
    """
    graphs = (graph, *inner_graphs(graph.nodes))
    constants = [node for one in graphs for node in one.nodes if node.op == "constant"]
    if not constants:
        return
    uses = _Uses(graphs, ends)
    for node in constants:
        devices = uses.of(node.outputs[0])
        device = devices.pop() if len(devices) == 1 else None
        if _can_go(node, device):
            node.device = device
            for value in node.outputs:
                value.stated = None


def _can_go(node: Node, device: Any) -> bool:
    """Whether a constant can move to a device: both devices hold data, or neither does."""
    if not isinstance(device, Device) or not isinstance(node.device, Device):
        return False
    return device.holds_data == node.device.holds_data


@final
class _Uses:
    """The devices on which the values of a graph and of its subgraphs are needed.

    Args:
        graphs: the graph and its subgraphs.
        ends: the devices wanted for their outputs.
    """

    def __init__(self, graphs: Sequence[Graph], ends: Ends) -> None:
        self._devices: defaultdict[Value, set[Any]] = defaultdict(set)
        self._stand_ins: defaultdict[Value, list[Value]] = defaultdict(list)
        self._given_back: set[tuple[Graph, int]] = set()  # loop invariants, by body and index
        for node in [node for one in graphs for node in one.nodes]:
            self._note(node)
        for one in graphs:
            for i, (value, device) in enumerate(zip(one.outputs, ends.get(one, ()), strict=False)):
                if (one, i) not in self._given_back:
                    self._devices[value].add(device)

    def of(self, value: Value) -> set[Any]:
        """The devices on which a value, or a stand-in for it, is needed."""
        devices = set[Any]()
        waiting, seen = [value], {value}
        for one in waiting:  # the list grows
            devices |= self._devices.get(one, set())
            fresh = [v for v in self._stand_ins.get(one, ()) if v not in seen]
            seen.update(fresh)
            waiting += fresh
        return devices

    def _note(self, node: Node) -> None:
        """Note the devices on which a node needs its operands."""
        if is_transfer(node.op):
            self._stand_ins[node.inputs[0]].append(node.outputs[0])
        elif is_structured(node.op):
            self._note_operands(node)
        else:
            for value in node.inputs:
                self._devices[value].add(node.device)

    def _note_operands(self, node: Node) -> None:
        """Note where a call, a branch or a loop needs its operands.

        An operand taken from where it is (see `settle_operands`) is needed at its consumers in the
        subgraph; any other, on the device of the subgraph's input.
        """
        pairs = carried(node) if is_loop(node.op) else []
        unchanged = {i for i, (before, after) in enumerate(pairs) if before is after}
        for param, operand in bindings(node):
            from_there = kind_of(node.op) == "branches" or param.index in unchanged
            if from_there and (operand.node is None or not is_transfer(operand.node.op)):
                self._stand_ins[operand].append(param)
            else:
                self._devices[operand].add(param.device)
        for i in unchanged:
            self._given_back.add((node.attrs["body"], i))
            self._stand_ins[node.inputs[i]].append(node.outputs[i])
