"""The devices of branch results, loop-carried values and lists in a placed graph.

A result that all branches compute on another device than the program says stays there: otherwise
it would come back, and move there again if it is needed there. A loop-carried value would likewise
come back and return in each iteration. So a loop-carried value is where the body computes it, and a
list where all its elements are computed. Each moves once before the loop, and once after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any

from eagerflow.graph.devices import bindings
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import (
    is_loop,
    is_structured,
    is_transfer,
    kind_of,
    read_on_host,
)
from eagerflow.hardware import Device
from eagerflow.types import LIST, TensorType

#: by graph, the devices on which the program wants its outputs
Ends = MutableMapping[Graph, list[Any]]


def settle_results(graph: Graph, ends: Ends) -> None:
    """Let branch results and loop-carried values stay where they are computed, in place.

    Args:
        graph: the graph, whose nodes are placed.
        ends: the devices wanted for the outputs of its subgraphs; updated.
    """
    for node in graph.nodes:
        if not is_structured(node.op):
            continue
        for _, inner in node.subgraphs():
            settle_results(inner, ends)
        if kind_of(node.op) == "branches":
            _settle_branches(node, ends)
        elif is_loop(node.op):
            _settle(node, ends)
            if "cond" in node.attrs:  # the predicate is sent from wherever it is computed
                ends[node.attrs["cond"]] = []


def settle_operands(graph: Graph, ends: Ends) -> None:
    """Let branches, and loops that do not change them, take operands from where they are, in place.

    So an operand that only one branch needs elsewhere moves only in that branch, and an operand
    that a branch needs where it already is does not move at all.

    Args:
        graph: the graph, whose loops are settled.
        ends: the devices wanted for the outputs of its subgraphs; those of bodies are updated.
    """
    for node in graph.nodes:
        if kind_of(node.op) == "branches":
            for param, operand in bindings(node):
                _take(param, operand)
        elif is_loop(node.op):
            body: Graph = node.attrs["body"]
            for i, (before, after) in enumerate(carried(node)):
                if before is after and _take(before, node.inputs[i]):
                    ends[body][i] = node.outputs[i].stated = before.device
            _tell(node)
        if node.attrs:
            for _, inner in node.subgraphs():
                settle_operands(inner, ends)


def _take(param: Value, operand: Value) -> bool:
    """Let an input of a subgraph be on the operand's device, unless the program moves the operand.

    Returns:
        Whether the input's device has changed.
    """
    moves = operand.node is not None and is_transfer(operand.node.op)
    if moves or not _is_tensor(param) or operand.device in (None, param.device):
        return False
    param.stated = operand.device
    return True


def _settle_branches(node: Node, ends: Ends) -> None:
    branches: Sequence[Graph] = node.attrs["branches"]
    for i, result in enumerate(node.outputs):
        made = [one.outputs[i] for one in branches]
        places = {v.device for v in made}
        if len(places) > 1 or result.device in places or not _is_tensor(result):
            continue
        if any(v.node is None or is_transfer(v.node.op) for v in made):
            continue
        result.stated = places.pop()
        for one in branches:
            ends[one][i] = result.stated


def _settle(node: Node, ends: Ends) -> None:
    body: Graph = node.attrs["body"]
    changes = True
    while changes:  # one loop-carried value may be handed to another
        changes = False
        for i, (before, after) in enumerate(carried(node)):
            if _moves_on(before, after):
                changes = True
                before.stated = ends[body][i] = after.device
                node.outputs[i].stated = after.device
    _tell(node)


def _tell(node: Node) -> None:
    """Let the condition of a loop take its inputs on the same devices as the body."""
    body: Graph = node.attrs["body"]
    for _, graph in node.subgraphs():
        for first, value in zip(body.inputs, graph.inputs, strict=False):
            value.stated = first.stated


def carried(node: Node) -> list[tuple[Value, Value]]:
    """The loop-carried values of a body: each as input and as output of an iteration."""
    body: Graph = node.attrs["body"]
    count = node.attrs["carry"] if node.op == "scan" else len(body.inputs)
    return list(zip(body.inputs[:count], body.outputs[:count], strict=True))


def _moves_on(before: Value, after: Value) -> bool:
    """Whether an iteration leaves a value on another device without a move by the program."""
    if before is after or not _is_tensor(before) or before.device == after.device:
        return False
    return after.node is None or not is_transfer(after.node.op)


def _is_tensor(value: Value) -> bool:
    return type(value.type) is TensorType and value.type.dtype is not LIST


# --- lists --------------------------------------------------------------------------------------


def settle_lists(graph: Graph, ends: Ends, returned: int | None) -> None:
    """Keep each list on the device where all its elements are computed, in place.

    Args:
        graph: the graph, whose nodes are placed.
        ends: the devices wanted for outputs of the graph and its subgraphs; updated for lists.
        returned: number of its outputs that are where the program says; all by default.
    """
    graphs = [graph, *inner_graphs(graph.nodes)]
    if not any(_is_list(v) for one in graphs for v in one.values()):
        return
    groups = _groups(graphs)
    keepers: dict[int, list[Node]] = {}  # the nodes that make, change and read the lists of a group
    for node in [node for one in graphs for node in one.nodes if not is_structured(node.op)]:
        own = next(filter(_is_list, (*node.inputs, *node.outputs)), None)
        if own is not None:
            keepers.setdefault(id(groups[own]), []).append(node)
    fixed = {id(groups[v]) for v in graph.outputs[:returned] if _is_list(v)}
    given = {id(groups[v]): v.device for v in graph.inputs if _is_list(v)}
    for key, group in {id(one): one for one in groups.values()}.items():
        nodes = keepers.get(key, [])
        device = given.get(key) or _home(nodes)
        if isinstance(device, Device) and key not in fixed:
            _put(nodes, group, device)
    for one, devices in ends.items():
        for i, value in enumerate(one.outputs[: len(devices)]):
            if _is_list(value):
                devices[i] = value.device


def _groups(graphs: Sequence[Graph]) -> dict[Value, list[Value]]:
    """For each list, all values that are the same list: its versions, and aliases in subgraphs."""
    groups: dict[Value, list[Value]] = {}

    def join(values: Iterable[Value]) -> None:
        first, *others = values
        whole = groups.setdefault(first, [first])
        for value in others:
            other = groups.setdefault(value, [value])
            if other is not whole:
                small, whole = sorted((whole, other), key=len)
                whole += small
                groups.update(dict.fromkeys(small, whole))

    for graph in graphs:
        for value in filter(_is_list, graph.values()):
            join([value])
        for node in graph.nodes:
            for same in _alike(node):
                lists = list(filter(_is_list, same))
                if lists:
                    join(lists)
    return groups


def _alike(node: Node) -> Iterator[Sequence[Value]]:
    """Groups of values of a node; the lists in a group are the same list."""
    if not is_structured(node.op):
        yield (*node.inputs, *node.outputs)
        return
    yield from bindings(node)
    for key, graph in node.subgraphs():
        if key == "body" or key.startswith("branches"):
            yield from zip(graph.outputs, node.outputs, strict=False)
            if is_loop(node.op):
                yield from carried(node)


def _home(nodes: Sequence[Node]) -> Device | None:
    """The one device that computes all elements of a list; None if several do, or none."""
    devices = set[Any]()
    for node in nodes:
        if any(map(_is_list, node.outputs)):
            on_host = read_on_host(node)
            held = [v for i, v in enumerate(node.inputs) if _is_tensor(v) and i not in on_host]
            devices |= {v.device for v in held if v.node is None or v.node.op != "constant"}
    device = devices.pop() if len(devices) == 1 else None
    return device if isinstance(device, Device) else None


def _put(nodes: Sequence[Node], lists: Sequence[Value], device: Device) -> None:
    """Put a list, and the nodes that make, change and read it, on a device."""
    for node in nodes:
        if node.device != device:
            node.device = device
            node.because = "with the elements of the list"
            if "device" in node.attrs:
                node.attrs["device"] = device
    for value in lists:
        if value.stated is not None:  # of an input, or of a call, a branch or a loop
            value.stated = device


def _is_list(value: Value) -> bool:
    return type(value.type) is TensorType and value.type.dtype is LIST
