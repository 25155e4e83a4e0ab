"""A graph with some of its nodes on other devices: a new graph, which computes the same.

Placing changes where, never what. State stays where it is, and results are where the program says:
what a placed node takes from elsewhere, or gives to elsewhere, is moved by transfers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eagerflow.core.op import common_device, find_op
from eagerflow.graph.devices import move_operands
from eagerflow.graph.edit import clone, copied, inner_graphs
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.hardware import Device
from eagerflow.types import LIST, TensorType

#: gives for a node the device to place it on, and why; None leaves it where it is
Choice = Callable[[Node], tuple[Device, str] | None]


def is_movable(node: Node) -> bool:
    """Whether a node may run on another device than the program says.

    That is so for ops without effect whose results are where they run. Lists, which derivatives of
    loops keep values in, stay as state does.
    """
    op = find_op(node.op)
    if op is None or op.moves or op.devices is not common_device or effect_of(node) != "pure":
        return False
    types = [v.type for v in (*node.inputs, *node.outputs)]
    return not any(isinstance(t, TensorType) and t.dtype is LIST for t in types)


def placed(graph: Graph, choose: Choice) -> Graph:
    """A copy of a graph in which nodes are where ``choose`` says.

    Args:
        graph: the graph. It stays as it is.
        choose: asked for each node that can be placed, those of subgraphs among them.

    >>> from eagerflow.hardware import as_device
    >>> from eagerflow.placement.placed import placed
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
        node.attrs = {key: copied(item) for key, item in node.attrs.items()}
    graphs = [copy, *inner_graphs(copy.nodes)]
    ends = [(one, [v.device for v in one.outputs]) for one in graphs]
    for one in graphs:
        _place(one.nodes, choose)
    for one, devices in ends:
        _bring_back(one, devices)
    move_operands(copy)
    return copy


def _place(nodes: Iterable[Node], choose: Choice) -> None:
    for node in nodes:
        choice = choose(node) if is_movable(node) else None
        if choice is None:
            continue
        device, node.because = choice
        if device == node.device:
            continue
        node.device = device
        for value in node.outputs:
            value.stated = None
        if "device" in node.attrs:
            node.attrs["device"] = device


def _bring_back(graph: Graph, devices: Iterable[Any]) -> None:
    """Give each output where the program says."""
    moved: dict[tuple[Value, Any], Value] = {}
    for i, (value, device) in enumerate(zip(graph.outputs, devices, strict=True)):
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
