"""Where placed branches leave their results, and loops carry values and keep lists.

What all branches make on another device than the program says stays there: else it would come back,
and go there again if that is where it is needed. What an iteration leaves elsewhere would come back
and return in the next one. So a loop-carried value is where the body makes it, and a list where all
is made that it holds. It is moved once before the loop, and once after it.
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

#: for graphs the devices where the program says that their outputs are
Ends = MutableMapping[Graph, list[Any]]


def settle_results(graph: Graph, ends: Ends) -> None:
    """Let branches leave results, and loops carry values, where they are made, in place.

    Args:
        graph: the graph, whose nodes are placed.
        ends: where the outputs of its subgraphs are to be; they are changed.
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
            if "cond" in node.attrs:  # who goes by it hears of it from wherever it is
                ends[node.attrs["cond"]] = []


def settle_operands(graph: Graph, ends: Ends) -> None:
    """Let branches, and loops that do not change them, take operands from where they are, in place.

    So what only one branch needs elsewhere moves only there, and what a branch needs where it is
    does not move at all.

    Args:
        graph: the graph, whose loops are settled.
        ends: where the outputs of its subgraphs are to be; those of bodies are changed.
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
    """Let an input of a subgraph be where the operand is, unless the program moves that there."""
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
    while changes:  # what is made may be handed from one to the other
        changes = False
        for i, (before, after) in enumerate(carried(node)):
            if _moves_on(before, after):
                changes = True
                before.stated = ends[body][i] = after.device
                node.outputs[i].stated = after.device
    _tell(node)


def _tell(node: Node) -> None:
    """Let the condition of a loop take values where its body does."""
    body: Graph = node.attrs["body"]
    for _, graph in node.subgraphs():
        for first, value in zip(body.inputs, graph.inputs, strict=False):
            value.stated = first.stated


def carried(node: Node) -> list[tuple[Value, Value]]:
    """What each loop-carried value is in an iteration, before and after."""
    body: Graph = node.attrs["body"]
    count = node.attrs["carry"] if node.op == "scan" else len(body.inputs)
    return list(zip(body.inputs[:count], body.outputs[:count], strict=True))


def _moves_on(before: Value, after: Value) -> bool:
    """Whether an iteration leaves a value elsewhere, not because the program moves it."""
    if before is after or not _is_tensor(before) or before.device == after.device:
        return False
    return after.node is None or not is_transfer(after.node.op)


def _is_tensor(value: Value) -> bool:
    return type(value.type) is TensorType and value.type.dtype is not LIST


# --- lists --------------------------------------------------------------------------------------


def settle_lists(graph: Graph, ends: Ends, returned: int | None) -> None:
    """Keep lists where all that they hold is made, in place.

    Args:
        graph: the graph, whose nodes are placed.
        ends: where its outputs, and those of its subgraphs, are to be; those of lists are changed.
        returned: how many of its outputs are where the program says; all by default.
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
    """For each list all that are one with it: versions of it, and what stands for it elsewhere."""
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
    """The values of a node that are one list, if they are lists."""
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
    """Where all is made that a list holds; None if in several places, or if it holds nothing."""
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
            node.because = "with what the list holds"
            if "device" in node.attrs:
                node.attrs["device"] = device
    for value in lists:
        if value.stated is not None:  # of an input, or of a call, a branch or a loop
            value.stated = device


def _is_list(value: Value) -> bool:
    return type(value.type) is TensorType and value.type.dtype is LIST
