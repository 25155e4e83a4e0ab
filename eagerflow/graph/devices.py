"""Devices of the nodes and values of graphs, and the line that decided each.

This module applies the device rules of ops: `common_device` in
`hardware/device_rules.py`, and the `devices` of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, final

from eagerflow.core.infer import infer_devices
from eagerflow.core.op import Op, find_op
from eagerflow.errors import EagerflowError
from eagerflow.graph.edit import clone, inner_graphs, with_graphs
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import is_structured, is_transfer, kind_of
from eagerflow.graph.value_types import Reference
from eagerflow.hardware.device_rules import common_device
from eagerflow.types import TensorType

_NOWHERE: Final[Mapping[Value, Value]] = {}


def devices_of(
    op: Op, devices: list[Any], attrs: dict[str, Any], types: Sequence[TensorType]
) -> tuple[Any, Any]:
    """The device of a node of ``op``, and the devices that its outputs state, or None.

    Args:
        op: the op.
        devices: of the inputs.
        attrs: the attributes.
        types: of the inputs, for the wording of errors.

    Raises:
        DeviceError: the inputs are on devices where the op does not take them.
    """
    return _split(infer_devices(op, devices, attrs, types), devices, attrs)


def _split(where: Any, devices: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, Any]:
    """The result of a device rule, as the device of the node and those that its outputs state.

    An op whose rule gives a device per output runs where its inputs are.
    """
    if not isinstance(where, tuple):
        return where, None
    return (_first(devices) if devices else attrs.get("device")), where


def settle(node: Node, said: Sequence[Any], on: Any) -> None:
    """Set the device of a parsed node from its text, or else from the device rule of its op.

    Args:
        node: the node.
        said: for each output the device that the text gives after its type, or None.
        on: the device that the text gives after ``on``, which wins; it means nothing after calls,
            branches and loops, which run where their subgraphs say.
    """
    operands = [v.device for v in node.inputs]
    if on is None and operands and _is_plain(node, operands, said):
        node.device = operands[0]  # most nodes, fast
        return
    where, known = _rule(node, operands)
    device, stated = _split(where, operands, node.attrs)
    if known and stated is None:  # outputs are where the node is, so their text places it too
        device = _first((on, *said, device))
        said = [None if on is not None or d == device else d for d in said]
    if is_structured(node.op):
        node.device = None
    else:  # the device of an output that states its own does not place the node
        node.device = _first((on, device, *(said if stated is None else ())))
    for value, own, rule in zip(node.outputs, said, stated or [None] * len(said), strict=False):
        own = rule if own is None else own
        value.stated = None if stated is None and own == node.device else own


def _is_plain(node: Node, operands: list[Any], said: Sequence[Any]) -> bool:
    """Whether a node is where all its operands are, as its text and its op say."""
    device = operands[0]
    if device is None or operands.count(device) != len(operands):
        return False
    for other in said:
        if other is not None and other is not device:
            return False
    op = find_op(node.op)
    return op is not None and op.devices is common_device


def located(graph: Graph, devices: Sequence[Any], usual: Any) -> Graph:
    """A graph whose values all have a device: open devices follow from those of the inputs.

    Args:
        graph: the graph.
        devices: for each input its device, if the graph does not say it.
        usual: the device of nodes whose device follows from no input, such as constants.

    Returns:
        The graph itself, if it leaves nothing open.
    """
    return _Locator(usual).graph(graph, devices)


@final
class _Locator:
    """Device inference for a graph and its subgraphs; shared subgraphs stay shared."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual
        self.known: dict[tuple[Graph, tuple[Any, ...]], Graph] = {}

    def graph(self, graph: Graph, devices: Sequence[Any]) -> Graph:
        key = (graph, tuple(devices))
        if key not in self.known:
            self.known[key] = graph if _says_all(graph) else self.copy(graph, devices)
        return self.known[key]

    def copy(self, graph: Graph, devices: Sequence[Any]) -> Graph:
        copy, _ = clone(graph)
        for value, device in zip(copy.inputs, devices, strict=False):  # `verify` counts them
            if _is_open(value):
                value.stated = device
        for node in copy.nodes:
            self.node(node)
        return copy

    def node(self, node: Node) -> None:
        if is_structured(node.op):
            given = node.inputs[1:] if kind_of(node.op) == "branches" else node.inputs
            devices = [v.device for v in given]
            node.attrs = {
                key: with_graphs(item, lambda inner: self.graph(inner, devices))
                for key, item in node.attrs.items()
            }
        if node.device is None or any(map(_is_open, node.outputs)):
            settle(node, [v.stated for v in node.outputs], node.device)
        if any(map(_is_open, node.outputs)) and not is_structured(node.op):
            node.device = self.usual


def _says_all(graph: Graph) -> bool:
    """Whether all values of a graph and its subgraphs have a device."""
    graphs = (graph, *inner_graphs(graph.nodes))
    return not any(_is_open(value) for one in graphs for value in one.values())


def _is_open(value: Value) -> bool:
    return type(value.type) is TensorType and value.device is None


def is_derivable(node: Node) -> bool:
    """Whether the text of a node without ``on`` says where it is."""
    if node.device is None:
        return True
    for value in node.outputs:
        if value.stated is None and type(value.type) is TensorType:
            return True
    operands = [v.device for v in node.inputs]
    return bool(_split(_rule(node, operands)[0], operands, node.attrs)[0] == node.device)


def decision(value: Value, around: Mapping[Value, Value] = _NOWHERE) -> Value:
    """The value whose device decided the device of ``value``.

    It is an input of the whole graph, or made by a node that was not put where its operands are:
    a node that makes or moves a tensor, takes it from state, or was placed. Calls, branches and
    loops decide nothing: their outputs are where those of the subgraph are, and the inputs of the
    subgraph where the operands are.

    Args:
        value: the value.
        around: the operands of the inputs of the enclosing subgraphs.
    """
    bound: dict[Value, Value] = {}  # operands of the inputs of the subgraphs entered on the way
    while True:
        node = value.node
        if node is None:
            before = bound.get(value) or around.get(value)
        elif is_structured(node.op):
            bound.update(bindings(node))
            results = [] if node.inner is None else node.inner.outputs
            before = results[value.index] if value.index < len(results) else None
        elif value.stated is not None or node.because:
            before = None
        else:
            before = next((v for v in node.inputs if v.device is not None), None)
        if before is None:
            return value
        value = before


def bindings(node: Node) -> Iterator[tuple[Value, Value]]:
    """The inputs of a node's subgraphs, each with the operand that is its (first) value."""
    operands = node.inputs[1:] if kind_of(node.op) == "branches" else node.inputs
    for _, graph in node.subgraphs():
        yield from zip(graph.inputs, operands, strict=False)  # `verify` counts them


def device_text(value: Value, around: Mapping[Value, Value] = _NOWHERE) -> str:
    """The device of a value, and the rule, line or input that decided it, in words."""
    origin = decision(value, around)
    node = origin.node
    if node is None:
        by = "" if origin is value else f", by the input %{origin.name}"
    elif node.because:
        by = f" ({node.because})"
    else:
        made = getattr(node.attrs.get("resource"), "made", None)
        state = "" if made is None else f", of state made at {made}"
        by = f", by {node.source or f'&{node.name}'}{state}"
    return f"%{value.name} on {value.device}{by}"


def move_operands(graph: Graph) -> int:
    """Insert transfers, in place, for operands that are on another device than their consumers.

    Returns:
        The number of transfers inserted, including those in subgraphs.
    """
    moves = _Moves()
    moves.run(graph)
    return moves.count


@final
class _Moves:
    """The transfers of a graph and its subgraphs, each of which is visited once."""

    def __init__(self) -> None:
        self.known: set[Graph] = set()
        self.count = 0

    def run(self, graph: Graph) -> None:
        if graph in self.known:
            return
        self.known.add(graph)
        moves = self.within(graph)
        nodes, graph.nodes = graph.nodes, []
        for node in nodes:
            if is_structured(node.op):
                self.structured(node)
                node.inputs = moves(node.inputs, _wanted(node), node)
            elif node.device is not None:
                node.inputs = moves(node.inputs, repeat(node.device), node)
            graph.nodes.append(node)

    def within(self, graph: Graph) -> Callable[..., tuple[Value, ...]]:
        """A function that brings values of ``graph`` to the devices wanted; it moves none twice."""
        moved: dict[tuple[Value, Any], Value] = {}

        def move(values: Sequence[Value], wanted: Iterable[Any], taker: Node) -> tuple[Value, ...]:
            there = []
            for value, device in zip(values, chain(wanted, repeat(None)), strict=False):
                now = value.device
                if device is None or now is None or now is device:
                    there.append(value)  # the usual case
                    continue
                value = _moved_from(value, device)
                if value.device != device:
                    if (value, device) not in moved:
                        moved[value, device] = _transfer(graph, value, device, taker)
                        self.count += 1
                    value = moved[value, device]
                there.append(value)
            return tuple(there)

        return move

    def structured(self, node: Node) -> None:
        """Align the devices of inputs and outputs between the subgraphs of ``node``."""
        inner = node.inner
        if inner is None:  # `verify` says so
            return
        for _, graph in node.subgraphs():
            for first, value in zip(inner.inputs, graph.inputs, strict=False):
                value.stated = first.stated
            self.run(graph)
        kind = kind_of(node.op)
        if kind == "loop":
            carry = inner.inputs[: node.attrs.get("carry")]
            wanted = [v.device for v in carry]
            inner.outputs[:] = self.within(inner)(inner.outputs, wanted, node)
        elif kind == "branches":
            wanted = [v.device for v in inner.outputs]
            for graph in [g for _, g in node.subgraphs() if g is not inner]:
                graph.outputs[:] = self.within(graph)(graph.outputs, wanted, node)
        for value, result in zip(node.outputs, inner.outputs, strict=False):
            value.stated = result.device or value.stated


def _moved_from(value: Value, device: Any) -> Value:
    """The value that ``value`` was transferred from, if that is on ``device``, else ``value``."""
    first = value
    while first.node is not None and is_transfer(first.node.op) and first.device != device:
        first = first.node.inputs[0]
    return first if first.device == device else value


def _wanted(node: Node) -> Sequence[Any]:
    """For each operand of a call, a branch or a loop the device of the input that takes it."""
    inner = node.inner
    params = [] if inner is None else [v.device for v in inner.inputs]
    return [None, *params] if kind_of(node.op) == "branches" else params  # the predicate


def _transfer(graph: Graph, value: Value, device: Any, taker: Node) -> Value:
    devices = {"device": device, "source": value.device}
    attrs = {k: Reference("device", d) if isinstance(d, str) else d for k, d in devices.items()}
    node = graph.add_node(
        "transfer", (value,), (value.type,), attrs, devices=(device,), device=value.device,
        scope=taker.scope, source=taker.source,
    )  # fmt: skip
    return node.outputs[0]


def _rule(node: Node, operands: Sequence[Any]) -> tuple[Any, bool]:
    """The result of the op's device rule, or else the usual device; whether the rule was known."""
    if is_structured(node.op):
        results = [] if node.inner is None else [v.device for v in node.inner.outputs]
        first, count = _first(operands), len(node.outputs)
        return tuple([first if d is None else d for d in [*results, *[None] * count][:count]]), True
    attrs = {key: _named(value) for key, value in node.attrs.items()}
    device = _first(operands)
    usual = attrs.get("device") if device is None else device
    try:
        op = find_op(node.op)
        if op is None:  # numbers, and ops that `verify` refuses
            return usual, True
        if op.devices is not common_device and any(type(v) is Reference for v in attrs.values()):
            return usual, False  # the device depends on a resource that was not given
        return infer_devices(op, operands, attrs), True
    except (EagerflowError, TypeError, AttributeError):  # `verify` reports the mistake
        return usual, True


def _named(item: Any) -> Any:
    """The item, or the name of a device that this process lacks."""
    return item.name if type(item) is Reference and item.kind == "device" else item


def _first(devices: Iterable[Any]) -> Any:
    return next((d for d in devices if d is not None), None)
