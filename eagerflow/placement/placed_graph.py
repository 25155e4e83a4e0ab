"""A copy of a graph with some of its nodes on other devices, which computes the same.

Placement changes where nodes run, never what they compute. State stays where it is, and results are
where the program says: transfers move the operands and results of placed nodes between devices.
Loop-carried values, and lists that a loop fills, are where its body computes them; constants are
with their consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eagerflow.core.op import find_op
from eagerflow.graph.devices import move_operands
from eagerflow.graph.edit import clone, copied, inner_graphs
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import is_transfer
from eagerflow.hardware import Device
from eagerflow.hardware.device_rules import common_device
from eagerflow.placement.branch_and_loop_devices import (
    settle_lists,
    settle_operands,
    settle_results,
)
from eagerflow.placement.constant_devices import settle_constants
from eagerflow.placement.node_homes import source_of
from eagerflow.types import LIST, TensorType

#: returns for a node the device to place it on, and the reason; None leaves it where it is
Choice = Callable[[Node], tuple[Device, str] | None]
#: returns for a node that cannot be placed why it stays; an empty text without a reason
Stay = Callable[[Node], str]


def is_movable(node: Node) -> bool:
    """Whether a node may run on another device than the program says.

    True of ops without effect whose results are where they run. A list, in which the derivative of
    a loop keeps values, is where the values are computed.
    """
    op = find_op(node.op)
    if op is None or op.moves or op.devices is not common_device or effect_of(node) != "pure":
        return False
    types = [v.type for v in (*node.inputs, *node.outputs)]
    return not any(isinstance(t, TensorType) and t.dtype is LIST for t in types)


def placed(
    graph: Graph, choose: Choice, stay: Stay | None = None, returned: int | None = None,
    copies: dict[Node, Node] | None = None,
) -> Graph:  # fmt: skip
    """A copy of a graph in which nodes are where ``choose`` says.

    Args:
        graph: the graph. It stays as it is.
        choose: called for each node that can be placed, in subgraphs too.
        stay: called for all other nodes.
        returned: number of outputs that are where the program says; the others are where they are
            computed. By default all.
        copies: filled with the original of each node of the copy that can be placed.

    >>> from eagerflow.hardware import as_device
    >>> from eagerflow.placement.placed_graph import placed
    >>> graph = ef.Graph.parse('''
    ...     graph f(%x: f32[2]@cpu:0) {
    ...       %y = exp(%x) : f32[2]@cpu:0
    ...       return %y
    ...     }''')
    >>> print(placed(graph, lambda node: (as_device("null:0"), "for a try")))
    graph f(%x: f32[2]@cpu:0) {
      %transfer_1 = transfer(%x) {device=device("null:0"), source=device("cpu:0")} : f32[2]@null:0
      %y = exp(%transfer_1) : f32[2]@null:0 on "null:0" because "for a try"
      %transfer = transfer(%y) {device=device("cpu:0"), source=device("null:0")} : f32[2]@cpu:0
      return %transfer
    }
    """
    copy, _ = clone(graph)
    for node in copy.nodes:
        if node.attrs:
            node.attrs = {key: copied(item) for key, item in node.attrs.items()}
    ends = {one: [v.device for v in one.outputs] for one in inner_graphs(copy.nodes)}
    ends[copy] = [v.device for v in copy.outputs[:returned]]
    for node, made in _pairs(graph, copy):
        if is_movable(node):
            _put(made, choose(node))
            if copies is not None:
                copies[made] = node
        elif stay is not None:
            made.because = stay(node) or made.because
    settle_results(copy, ends)
    settle_constants(copy, ends)
    settle_operands(copy, ends)
    settle_lists(copy, ends, returned)
    for one, devices in ends.items():
        _bring_back(one, devices)
    move_operands(copy)
    for one in ends:
        _straighten(one)
    return copy


def pinned(graph: Graph, is_here: Callable[[Node], bool], device: Device) -> Graph:
    """A copy of a graph in which some nodes are on a device, whatever the program says.

    Args:
        graph: the graph. It stays as it is.
        is_here: called for each node with another device, in subgraphs too; chooses the nodes.
        device: the device for the nodes chosen.
    """
    copy, _ = clone(graph)
    for node in copy.nodes:
        if node.attrs:
            node.attrs = {key: copied(item) for key, item in node.attrs.items()}
    ends = {one: [v.device for v in one.outputs] for one in (copy, *inner_graphs(copy.nodes))}
    for _, made in _pairs(graph, copy):
        if made.device is not None and made.device != device and is_here(made):
            _put(made, (device, "it belongs to this process"))
    for one, devices in ends.items():
        _bring_back(one, devices)
    move_operands(copy)
    return copy


def _pairs(graph: Graph, copy: Graph) -> Iterator[tuple[Node, Node]]:
    """The nodes of a graph and of its subgraphs, each with its copy."""
    for node, made in zip(graph.nodes, copy.nodes, strict=True):
        yield node, made
        if node.attrs:
            for (_, inner), (_, again) in zip(node.subgraphs(), made.subgraphs(), strict=True):
                yield from _pairs(inner, again)


def _put(node: Node, choice: tuple[Device, str] | None) -> None:
    if choice is None:
        return
    device, node.because = choice
    if device == node.device:
        return
    node.device = device
    for value in node.outputs:
        value.stated = None
    if "device" in node.attrs:
        node.attrs["device"] = device


def _straighten(graph: Graph) -> None:
    """Let each move take the original value; remove moves back to the value's own device.

    Moves without consumers are pruned later, with all other dead nodes.
    """
    there: dict[Value, Value] = {}
    for node in graph.nodes:
        node.inputs = tuple([there.get(v, v) for v in node.inputs])
        if not is_transfer(node.op):
            continue
        (output,) = node.outputs
        value = source_of(output)
        if value.device == output.device:
            there[output] = value
        elif value is not node.inputs[0]:
            node.inputs = (value,)
            node.attrs = {**node.attrs, "source": value.device}
            node.device = value.device
    graph.outputs = [there.get(v, v) for v in graph.outputs]


def _bring_back(graph: Graph, devices: Sequence[Any]) -> None:
    """Move each output to the device on which the program wants it."""
    moved: dict[tuple[Value, Any], Value] = {}
    for i, (value, device) in enumerate(zip(graph.outputs, devices, strict=False)):
        if value.device is None or value.device == device:
            continue
        if (value, device) not in moved:
            attrs = {"device": device, "source": value.device}
            node = graph.add_node(
                "transfer", (value,), (value.type,), attrs, devices=(device,), device=value.device,
                source=None if value.node is None else value.node.source,
                scope="" if value.node is None else value.node.scope,
            )  # fmt: skip
            moved[value, device] = node.outputs[0]
        graph.outputs[i] = moved[value, device]
