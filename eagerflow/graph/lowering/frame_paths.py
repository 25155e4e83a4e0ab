"""Frame paths: the loops and branches in which the nodes of a lowered graph lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from eagerflow.errors import GraphError
from eagerflow.graph.edit import lone_names, sizes_named_by, tells_size
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import lead_of

#: a frame path: the enclosing frames and branches, ("frame", name) and (predicate, port)
FramePath = tuple[tuple[Any, Any], ...]
#: leads of nodes whose outputs are in another frame path than the node
_CHANGING: Final = ("branch", "enter", "leave")
#: leads of nodes in graphs without loops and branches
_STAYING: Final = ("", "send", "receive")


@final
class FramePaths:
    """The frame paths of the nodes and values of a lowered graph.

    Args:
        graph: the graph.

    Attributes:
        nodes: the frame path of each node.
        values: the frame path of each value.

    Raises:
        GraphError: a node takes values of two branches or loops.
    """

    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[Node, FramePath] = {}
        self.values: dict[Value, FramePath] = dict.fromkeys(graph.inputs, ())
        if all(lead_of(op) in _STAYING for op in {node.op for node in graph.nodes}):
            self.nodes = dict.fromkeys(graph.nodes, ())
            self.values = dict.fromkeys(graph.values(), ())
            return
        for node in graph.nodes:
            lead = lead_of(node.op)
            path = self._merged(node) if lead == "join" else self._deepest(node)
            self.nodes[node] = path
            if lead in _CHANGING:
                for i, value in enumerate(node.outputs):
                    self.values[value] = self._after(node, path, i)
            else:
                for value in node.outputs:
                    self.values[value] = path

    def behind(self, node: Node) -> FramePath:
        """The frame path of a node with a control edge from ``node``."""
        leaves = lead_of(node.op) == "leave"
        return self.values[node.outputs[0]] if leaves else self.nodes[node]

    def _deepest(self, node: Node) -> FramePath:
        deepest: FramePath = ()
        for path in self._around(node):
            if path is deepest:  # the usual case
                continue
            longer, shorter = (path, deepest) if len(path) > len(deepest) else (deepest, path)
            if longer[: len(shorter)] != shorter:
                raise GraphError(f"&{node.name} takes values of two branches or loops")
            deepest = longer
        return deepest

    def _around(self, node: Node) -> list[FramePath]:
        """The frame paths of the operands of a node, and of its control inputs."""
        around = [self.values[v] for v in node.inputs]
        if node.control_inputs:
            around += [self.behind(n) for n in node.control_inputs]
        return around

    def _merged(self, node: Node) -> FramePath:
        first = self._around(node)[0]
        if "back" in node.attrs:
            return first
        if not first or first[-1][0] == "frame":
            raise GraphError(f"&{node.name} merges values that come from no branch")
        return first[:-1]

    def _after(self, node: Node, path: FramePath, port: int) -> FramePath:
        lead = lead_of(node.op)
        if lead == "branch":
            return (*path, (node.inputs[1], port))
        if lead == "enter":
            return (*path, ("frame", node.attrs["frame"]))
        if lead == "leave":
            if not loop_of(path):
                raise GraphError(f"&{node.name} is in no loop")
            return loop_of(path)[:-1]
        return path


def loop_of(path: FramePath) -> FramePath:
    """The path up to its innermost frame."""
    while path and path[-1][0] != "frame":
        path = path[:-1]
    return path


def is_pivot(node: Node) -> bool:
    """Whether a node exists for control edges only: it runs if its frame path is reached."""
    return node.op == "Identity" and not node.control_inputs


def is_for_first_iteration(node: Node) -> bool:
    """Whether a node brings a value into the first iteration of a loop only."""
    return lead_of(node.op) == "enter" and not node.attrs.get("invariant")


def find_size_values(graph: Graph, paths: FramePaths) -> dict[Node, list[Value]]:
    """For each node the values from whose shapes the sizes that it names are read.

    Sizes are read from a node's own inputs first; these are not listed.
    """
    if not any(tells_size(value.type) for value in graph.values()):
        return {}
    named: dict[str, list[Value]] = {}
    for value in graph.inputs:
        for name in lone_names(value.type):
            named.setdefault(name, []).append(value)
    size_values: dict[Node, list[Value]] = {}
    for node in graph.nodes:
        known = {name for v in node.inputs for name in lone_names(v.type)}
        for name in sorted({*sizes_named_by(node)} - known):
            there = size_value(named.get(name, ()), paths.nodes[node], paths)
            if there is not None:
                size_values.setdefault(node, []).append(there)
        if node.op != "constant" and not is_for_first_iteration(node):
            for value in node.outputs:
                for name in lone_names(value.type):
                    named.setdefault(name, []).append(value)
    return size_values


def size_value(values: Iterable[Value], path: FramePath, paths: FramePaths) -> Value | None:
    """The first of ``values`` that exists at that frame path."""
    frame = loop_of(path)
    for value in values:
        there = paths.values[value]
        if loop_of(there) == frame and path[: len(there)] == there:
            return value
    return None
