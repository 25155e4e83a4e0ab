"""Groups of the nodes of a graph: by device, then by scope, then by the owner of a subgraph.

A group is drawn open, with its content in it, or closed, as one box. In a graph with many nodes,
groups are opened level by level until there would be too many boxes; a group with too much content
is divided into runs, a box for some consecutive nodes (or groups) each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, final

from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.signatures import is_transfer

GroupKind = Literal["graph", "device", "scope", "node", "body", "run"]

#: more inputs, outputs or resources than this become one box
ENDS: Final = 20

_T = TypeVar("_T")


@final
@dataclass(slots=True, eq=False)
class Group:
    """Nodes that are drawn with a box around them, or as one box.

    Attributes:
        name: its name.
        kind: the criterion that groups the nodes.
        parent: the group around it, None for the whole graph.
        groups: the groups in it, by kind and name.
        nodes: the nodes in it and in none of its groups.
        graph: the graph whose inputs and outputs belong to it.
        open: whether it is drawn with its content.
    """

    name: str
    kind: GroupKind
    parent: Group | None = None
    groups: dict[tuple[GroupKind, str], Group] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    graph: Graph | None = None
    open: bool = False

    def inner(self, kind: GroupKind, name: str) -> Group:
        """The group of that kind and name in this group, created if missing."""
        group = self.groups.get((kind, name))
        if group is None:
            group = self.groups[kind, name] = Group(name, kind, self)
        return group

    def walk(self) -> Iterator[Group]:
        """This group and all groups in it, at any depth."""
        waiting = [self]
        while waiting:
            group = waiting.pop()
            yield group
            waiting += reversed(group.groups.values())

    def shown(self) -> Group | None:
        """The closed group that is drawn in place of this one; None if all around it are open."""
        closed: Group | None = None
        group: Group | None = self
        while group is not None:
            closed = closed if group.open else group
            group = group.parent
        return closed

    @property
    def boxes(self) -> int:
        """Number of boxes if this group is open and its groups are closed.

        Boxes of inputs, outputs and resources are not counted.
        """
        return len(self.nodes) + len(self.groups)

    def count(self) -> Counter[str]:
        """Number of nodes by op, at any depth."""
        return Counter(node.op for group in self.walk() for node in group.nodes)

    def device(self) -> str | None:
        """The device of its nodes, if all run on one device."""
        devices = {device_of(node) for group in self.walk() for node in group.nodes}
        return str(*devices) if len(devices) == 1 and None not in devices else None


def is_move(node: Node) -> bool:
    """Whether a node moves a value from device to device; it is drawn where the value arrives."""
    return is_transfer(node.op) and len(node.inputs) == len(node.outputs) == 1


def device_of(node: Node) -> Any:
    """The device with which a node is drawn."""
    return node.outputs[0].device if is_move(node) else node.device


def is_on_several(graph: Graph) -> bool:
    """Whether the nodes of a graph and of its subgraphs run on several devices."""
    return len(devices_in(graph.nodes)) > 1


def group_nodes(graph: Graph, limit: int, *, several: bool) -> Group:
    """The group of the whole graph, opened as far as ``limit`` boxes for nodes allow.

    ``several`` says whether nodes run on several devices, each of which is then a group.
    """
    root = Group(graph.name, "graph")
    _add(graph, root, {graph}, several)
    groups = list(root.walk())
    if sum(len(group.nodes) for group in groups) <= limit:
        for group in groups:
            group.open = True
    else:
        for group in groups:
            _split(group, max(limit // 3, 2))
        _open(root, limit)
    return root


def _add(graph: Graph, root: Group, added: set[Graph], several: bool) -> None:
    """Put the nodes of ``graph`` under ``root``; a body that two calls share is added once.

    With several devices, the nodes of each device are a group.
    """
    root.graph = graph
    for node in graph.nodes:
        device = device_of(node)
        group = root.inner("device", str(device)) if several and device is not None else root
        for part in node.scope.split("/") if node.scope else ():
            group = group.inner("scope", part)
        bodies = [(what, body) for what, body in node.subgraphs() if body not in added]
        if bodies:
            group = group.inner("node", node.name)
        group.nodes.append(node)
        for what, body in bodies:
            added.add(body)
            _add(body, group.inner("body", what), added, several)


def _split(group: Group, most: int) -> None:
    """Put nodes and groups into runs where there are more than ``most``."""
    nodes, groups = group.nodes, list(group.groups.items())
    if len(nodes) > most:
        group.nodes = []
        for part in _parts(nodes, most):
            run = group.inner("run", f"{part[0].name} … {part[-1].name}")
            run.nodes = part
    if len(groups) > most:
        for key, _ in groups:
            del group.groups[key]
        for some in _parts(groups, most):
            run = group.inner("run", f"{some[0][0][1]} … {some[-1][0][1]}")
            run.groups.update(some)
            for _, inner in some:
                inner.parent = run


def _parts(items: list[_T], most: int) -> list[list[_T]]:
    length = -(-len(items) // most)
    return [items[i : i + length] for i in range(0, len(items), length)]


def _open(root: Group, limit: int) -> None:
    """Open groups level by level, small ones first; of groups of similar size all or none."""
    root.open = True
    count = root.boxes
    level = list(root.groups.values())
    while level:
        by_size: dict[int, list[Group]] = {}
        for group in level:
            by_size.setdefault(group.boxes.bit_length(), []).append(group)
        level = []
        for _, groups in sorted(by_size.items()):
            more = sum(group.boxes - 1 for group in groups)
            if count + more <= limit and not any(g.kind == "run" for g in groups):
                count += more
                for group in groups:
                    group.open = True
                    level += group.groups.values()
