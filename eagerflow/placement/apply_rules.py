"""Application of rules to a graph: a new graph, with a reason for each node that rules mention.

An impossible placement is an error that names the line of the node, the line of the rules, and the
devices that could run the node. With ``ef.config(soft_placement=True)`` the node stays where the
program says, and its reason says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from types import MappingProxyType
from typing import Any, Final, final

from eagerflow.errors import PlacementError
from eagerflow.graph.edit import inner_nodes, nbytes
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes.rewrite import Change, Origin, Report, effect_of, shown
from eagerflow.graph.placement_reasons import resource_text
from eagerflow.graph.signatures import is_read, is_transfer
from eagerflow.hardware import Device
from eagerflow.placement.constraints import Constraints, Obstacle
from eagerflow.placement.memory_need import Peak, peaks
from eagerflow.placement.node_homes import source_of
from eagerflow.placement.patterns import parts_of
from eagerflow.placement.placed_graph import placed
from eagerflow.placement.rules import Rules, Wish, Wishes, here, line_of, path_of

_NEAR: Final = 5  # scopes and nodes that a message lists
#: rounds in which single nodes are left where there is no room, before all of a device are
_ROUNDS: Final = 16


@final
@dataclass(slots=True, eq=False)
class Placement:
    """The result of applying rules to a graph.

    Attributes:
        graph: the new graph.
        matched: the patterns that place some node.
        fallbacks: descriptions of the nodes that are not where rules want them.
        crossing: by device, the variables that are read there only because of the rules, with
            their bytes.
    """

    graph: Graph
    matched: set[str] = field(default_factory=set)
    fallbacks: list[str] = field(default_factory=list)
    crossing: dict[Device, dict[Any, int]] = field(default_factory=dict)


def place(
    graph: Graph, rules: Rules, *, returned: int | None = None, known: Collection[str] = (),
    originals: Mapping[Node, Node] = MappingProxyType({}),
) -> Placement:  # fmt: skip
    """A graph whose nodes are where rules want them.

    Args:
        graph: the graph. It stays as it is.
        rules: the rules.
        returned: number of outputs that come back to where the program says; all by default.
        known: patterns that need not match, as they match in another graph of the function.
        originals: for nodes of a derivative, their nodes in the trace (see `counterparts`).

    Raises:
        PlacementError: a node cannot be where rules want it, or a pattern places nothing.

    >>> from eagerflow.placement.apply_rules import place
    >>> from eagerflow.placement.rules import as_rules
    >>> graph = ef.Graph.parse('''
    ...     graph f(%x: f32[2]@null:0) {
    ...       %y = exp(%x) : f32[2]@null:0 in "encoder"
    ...       return %y
    ...     }''')
    >>> rules = as_rules({"encoder/*": "null:1"}, soft=False, source=None)
    >>> print(place(graph, rules).graph)
    graph f(%x: f32[2]@null:0) {
      %transfer_1 = transfer(%x) {device=device("null:1"), source=device("null:0")} : f32[2]@null:1 in "encoder"
      %y = exp(%transfer_1) : f32[2]@null:1 on "null:1" because "rule 'encoder/*'" in "encoder"
      %transfer = transfer(%y) {device=device("null:0"), source=device("null:1")} : f32[2]@null:0 in "encoder"
      return %transfer
    }
    """  # noqa: E501 - the text of a graph
    return _Placer(rules, originals).run(graph, returned, known)


@final
class _Placer:
    """Places one graph."""

    def __init__(self, rules: Rules, originals: Mapping[Node, Node]) -> None:
        self.rules = rules
        self.wishes = Wishes(rules, originals)
        self.constraints = Constraints()
        self.placing: set[str] = set()  # patterns that match a node which can be placed
        self.changes: list[Change] = []
        self.fallbacks: list[str] = []
        self.stayed: set[Node] = set()  # though they were wanted elsewhere, or follow such a node
        self.left: dict[Node, str] = {}  # for which there is no room, with why

    def run(self, graph: Graph, returned: int | None, known: Collection[str]) -> Placement:
        result = self.fitting(graph, returned)
        for pattern in self.rules.targets:
            if pattern not in self.placing and pattern not in known:
                self.refuse(no_match(graph, pattern, self.wishes, self.rules))
        report = Report("place", self.changes, len(graph.nodes), len(result.nodes))
        result.origin = Origin(graph, (report,))
        crossing = _crossing(graph, result)
        return Placement(result, self.placing, self.fallbacks, crossing)

    def fitting(self, graph: Graph, returned: int | None) -> Graph:
        """The graph, placed so that the peak of each device fits its memory limit."""
        for i in count():
            copies: dict[Node, Node] = {}
            result = placed(graph, self.choose, self.stay, returned, copies)
            moved = {made: node for made, node in copies.items() if made.device != node.device}
            if not self.leave(result, moved, every=i >= _ROUNDS):
                break
            self.changes.clear()
            self.fallbacks.clear()
        return result

    def leave(self, result: Graph, moved: Mapping[Node, Node], *, every: bool) -> bool:
        """Choose nodes that stay where the program says, as their device has no room for them.

        Args:
            result: the graph as it is placed now.
            moved: for each node of ``result`` on another device, the original of the copy.
            every: whether all nodes of a device without enough room stay.

        Returns:
            Whether a device has too little room.

        Raises:
            PlacementError: a rule asks for the device that has no room.
        """
        limits: dict[Any, int] = {}
        for device in {made.device for made in moved}:
            limit = self.constraints.limit(device) if isinstance(device, Device) else None
            if limit is not None:
                limits[device] = limit
        for device, peak in peaks(result, frozenset(limits)).items() if limits else ():
            if peak.bytes > limits[device]:
                here = {made: node for made, node in moved.items() if made.device == device}
                self.leave_some(here, peak, limits[device], every=every)
                return True
        return False

    def leave_some(
        self, moved: Mapping[Node, Node], peak: Peak, limit: int, *, every: bool
    ) -> None:
        """Leave some nodes of one device where the program says: followers first."""
        wishes = {node: self.wishes.of(node) for node in moved.values()}
        why = f"with the values held there at that time it takes {peak.bytes:,} bytes, of {limit:,}"
        following = [node for node, wish in wishes.items() if wish is None or wish.leader]
        if following:
            self.left.update(dict.fromkeys(following, why))
            return
        node = _last(moved, peak.node)
        wish = wishes[node]
        assert wish is not None
        if not self.rules.soft:
            hint = "place less there, or use a device with more memory"
            raise self.impossible(node, wish, Obstacle(why, hint), peak.bytes)
        self.left.update(dict.fromkeys(moved.values() if every else [node], why))

    def refuse(self, error: PlacementError) -> None:
        """Raise an error, or note it as a fallback under soft placement."""
        if not self.rules.soft:
            raise error
        self.fallbacks.insert(0, error.wrong.removeprefix("place: "))

    def choose(self, node: Node) -> tuple[Device, str] | None:
        """The device of a node that can be placed, and the reason."""
        wish = self.wishes.of(node)
        if wish is None or not isinstance(node.device, Device):
            return None
        if node in self.left and wish.leader is None:
            self.placing.update(wish.matches)
            return self.fall_back(node, wish, self.left[node])
        if wish.leader is not None:
            return self.follow(node, wish, wish.leader)
        self.placing.update(wish.matches)
        target = wish.target
        if target.device is None:
            if not target.asked:
                return node.device, f"{wish.by} leaves it where the program says"
            return self.fall_back(node, wish, target.lacking)
        obstacle = self.constraints.obstacle(node, target.device)
        if obstacle is not None:
            if not self.rules.soft:
                raise self.impossible(node, wish, obstacle)
            return self.fall_back(node, wish, obstacle.wrong)
        return self.moved(node, target.device, wish.by)

    def follow(self, node: Node, wish: Wish, leader: Node) -> tuple[Device, str] | None:
        """Place a node where another one goes, if it can run there: no rule asks for it."""
        device = wish.target.device
        assert device is not None
        if (
            node in self.left
            or leader in self.stayed
            or self.constraints.obstacle(node, device) is not None
        ):
            self.stayed.add(self.wishes.original(node))
            return None
        return self.moved(node, device, wish.by)

    def moved(self, node: Node, device: Device, why: str) -> tuple[Device, str]:
        if device != node.device:
            text = f"{shown(node)} is on {device} instead of {node.device}: {why}"
            self.changes.append(Change(text, node.source))
        return device, why

    def fall_back(self, node: Node, wish: Wish, why: str) -> tuple[Device, str]:
        """Leave a node where the program says."""
        assert isinstance(node.device, Device)
        self.stayed.add(self.wishes.original(node))
        text = f"stays on {node.device}: {wish.by} asks for {wish.target.asked}, but {why}"
        self.fallbacks.append(f"{line_of(node)} {text}")
        return node.device, text

    def impossible(
        self, node: Node, wish: Wish, obstacle: Obstacle, need: int = 0
    ) -> PlacementError:
        """The error for a node that cannot be where a rule wants it.

        Args:
            node: the node.
            wish: the wish of the rule.
            obstacle: why the node cannot be there.
            need: the bytes that another device must have room for.
        """
        could = [d for d in self.constraints.could(node) if self.constraints.has_room(d, need)]
        lines = "" if self.rules.source is None else f"\n    rules at {self.rules.source}"
        return PlacementError(
            f"place: {node.op} cannot run on {wish.target.asked}: {obstacle.wrong}",
            given=f"{wish.by} asks for {wish.target.asked}, for {line_of(node)}{lines}",
            expected=f"one of {here(could)}",
            hint=obstacle.hint,
            source=node.source,
        )

    def stay(self, node: Node) -> str:
        """Why a node with state is not where rules want it."""
        resource = node.attrs.get("resource")
        if node.device is None or resource is None or effect_of(node) == "pure":
            return ""
        wish = self.wishes.of(node)
        if wish is None or wish.target.asked in ("", str(node.device)):
            return ""
        return (
            f"stays where its state is: {resource_text(resource)} on {node.device}, though "
            f"{wish.by} asks for {wish.target.asked}; ef.move moves state"
        )


def _last(moved: Mapping[Node, Node], at: Node | None) -> Node:
    """The node to name in the error, of those that take memory at a peak."""
    if at is not None:
        takers = [node for made, node in moved.items() if any(v.node is at for v in made.inputs)]
        for node in (moved.get(at), *takers):
            if node is not None:
                return node
    return list(moved.values())[-1]


# --- variables that cross ---------------------------------------------------------------------


def _crossing(graph: Graph, placed: Graph) -> dict[Device, dict[Any, int]]:
    """The variables whose values move in a placed graph but not in its original."""
    before = set(_moved_reads(graph))
    variables: dict[Device, dict[Any, int]] = {}
    for read, device, size in _moved_reads(placed):
        if (read, device, size) not in before:
            variables.setdefault(device, {})[read] = size
    return variables


def _moved_reads(graph: Graph) -> Iterator[tuple[Any, Device, int]]:
    """The variables whose values a graph moves, each with destination and bytes."""
    nodes = [*graph.nodes, *inner_nodes(graph.nodes)]
    if not any(is_read(op) for op in {node.op for node in nodes}):
        return
    for node in nodes:
        if is_transfer(node.op):
            value = source_of(node.inputs[0])
            device = node.outputs[0].device
            if value.node is not None and is_read(value.node.op) and isinstance(device, Device):
                yield value.node.attrs["resource"], device, nbytes((value,)) or 0


# --- patterns that place nothing --------------------------------------------------------------


def no_match(graph: Graph, pattern: str, wishes: Wishes, rules: Rules) -> PlacementError:
    """The error for a pattern that matches nothing in a graph, or nothing that can be placed."""
    nodes = [*graph.nodes, *inner_nodes(graph.nodes)]
    matched = [node for node in nodes if wishes.matches(pattern, node)]
    given = f"{pattern!r}: {rules.targets[pattern].asked or None}"
    for node in matched:
        if "resource" in node.attrs:
            return _of_state(node, pattern, given, rules)
    if matched:
        return PlacementError(
            f"place: {pattern!r} matches nothing that could be placed",
            given=f"{given}, which matches {line_of(matched[0])}",
            expected="ops without state: numbers, constants and moves are where they are needed",
            source=rules.source,
        )
    anchored = pattern.startswith("/")
    return PlacementError(
        f"place: {pattern!r} matches nothing in {graph.name or 'the graph'}",
        given=given,
        expected=_near(pattern, nodes),
        hint="with a slash in front it begins at the outermost scope" if anchored else None,
        source=rules.source,
    )


def _of_state(node: Node, pattern: str, given: str, rules: Rules) -> PlacementError:
    resource = node.attrs["resource"]
    made = getattr(resource, "made", None)
    return PlacementError(
        f"place: {pattern!r} matches state alone, which rules do not move",
        given=f"{given}, which matches {line_of(node)}\n    {resource_text(resource)} is on "
        f"{node.device}" + ("" if made is None else f", made at {made}"),
        expected="a pattern of ops without state",
        hint=f"ef.move(variable, {rules.targets[pattern].asked!r}) moves a variable",
        source=rules.source,
    )


def _with_those_above(scope: str) -> list[str]:
    parts = scope.split("/") if scope else []
    return ["/".join(parts[:i]) for i in range(1, len(parts) + 1)]


def _near(pattern: str, nodes: Sequence[Node]) -> str:
    """The scopes and nodes of a graph that a pattern may have meant."""
    scopes = list(dict.fromkeys(above for n in nodes for above in _with_those_above(n.scope)))
    wanted = "/".join(filter(None, [part.strip("*?") for part in parts_of(pattern)]))
    depth = wanted.count("/") + 1
    near: list[str] = []
    for paths, likeness in ((scopes, 0.5), (map(path_of, nodes), 0.75)):
        ends: dict[str, list[str]] = {}  # the last parts of paths, as many as the pattern has
        for path in paths:
            ends.setdefault("/".join(path.split("/")[-depth:]), []).append(path)
        near += [at for end in get_close_matches(wanted, ends, _NEAR, likeness) for at in ends[end]]
    shown = list(dict.fromkeys([*near, *scopes]))
    if not shown:
        return "scopes or names of nodes of the graph; it has no scopes (see ef.name_scope)"
    more = f", and {len(shown) - _NEAR} more" if len(shown) > _NEAR else ""
    return f"scopes{' and nodes' if near else ''} such as {', '.join(shown[:_NEAR])}{more}"
