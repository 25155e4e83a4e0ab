"""Rules of placement: the devices that a user wants nodes on, as ``f.place`` takes them.

A rule decides where a node runs, never what it computes, and applies to ops without state only.
`eagerflow.placement.constraints` decides whether a node can be where rules want it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, final

from eagerflow.errors import DeviceError, PlacementError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.signatures import is_transfer
from eagerflow.hardware import Device, as_device, devices
from eagerflow.placement.patterns import Patterns, parts_of, rank_of
from eagerflow.placement.placed_graph import is_movable
from eagerflow.source import Source

_SHOWN: Final = 8  # devices in one message
_FORMS: Final = (
    "a dict from patterns to devices, a function from node to device or None, 'auto', or None"
)


class Target(NamedTuple):
    """The device that a rule asks for.

    Attributes:
        device: the device; None where the program says, or if there is no such device.
        asked: the name that was given; empty where the program says.
        lacking: why there is no such device.
    """

    device: Device | None
    asked: str = ""
    lacking: str = ""


class Wish(NamedTuple):
    """The device that rules want for a node.

    Attributes:
        target: the device they ask for.
        by: the rule, in words.
        matches: the patterns that match the node, including those of lower rank.
        leader: the node that it follows, which a rule places or which follows another node; None
            if a rule places the node itself.
    """

    target: Target
    by: str
    matches: tuple[str, ...] = ()
    leader: Node | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """The argument of ``f.place``, checked.

    Attributes:
        targets: the target of each pattern.
        function: returns a device for a node, in place of patterns.
        soft: whether nodes that cannot be where rules want them stay where the program says.
        source: the line that gave the rules.
        plan: the plan of the automatic placement that made the rules; None for a user's rules.
        planned: the planned trace, for its trials; None where no trials are wanted.
    """

    targets: Mapping[str, Target]
    function: Callable[[Node], Any] | None
    soft: bool
    source: Source | None
    plan: Any = None
    planned: Any = None

    def is_same(self, other: Rules | None) -> bool:
        """Whether other rules place every graph alike."""
        return (
            other is not None
            and self.function is other.function
            and self.targets == other.targets
            and self.soft == other.soft
        )

    def __str__(self) -> str:
        if self.plan is not None:
            return f"automatic placement at {self.source}"
        text = f"function {_name(self.function)}" if self.function is not None else ", ".join(
            f"{pattern!r}: {target.asked or None}" for pattern, target in self.targets.items()
        )  # fmt: skip
        return text if self.source is None else f"{text} at {self.source}"


def as_rules(given: Any, *, soft: bool, source: Source | None) -> Rules | None:
    """Rules from a user's argument; None if there are none.

    Args:
        given: the argument, as ``f.place`` takes it.
        soft: whether nodes that cannot be where rules want them stay where the program says.
        source: the line that gave the rules.

    Raises:
        PlacementError: the argument is no rules, or names a device that does not exist.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        targets = {
            _checked_pattern(pattern, source): _target(
                device, f"the rule {pattern!r}", soft, source, None
            )
            for pattern, device in given.items()
        }
        return Rules(targets, None, soft, source) if targets else None
    if not callable(given):
        raise PlacementError(
            "place: the argument is not a form of rules",
            given=repr(given),
            expected=_FORMS,
            source=source,
        )
    return Rules({}, given, soft, source)


def _checked_pattern(pattern: Any, source: Source | None) -> str:
    if isinstance(pattern, str) and parts_of(pattern):
        return pattern
    raise PlacementError(
        "place: a key is not a pattern",
        given=repr(pattern),
        expected="names of scopes and nodes, such as 'encoder/*', 'encoder/layer?' or 'matmul*'",
        hint=None if pattern else "'*' is the pattern of all nodes",
        source=source,
    )


def _target(device: Any, by: str, soft: bool, source: Source | None, node: Node | None) -> Target:
    """The target of a rule.

    Raises:
        PlacementError: ``device`` is no device, or there is none of that name.
    """
    if device is None:
        return Target(None)
    lines = f"{by} asks for {device!r}" + ("" if node is None else f", for {line_of(node)}")
    lines += "" if source is None or node is None else f"\n    rules at {source}"
    if isinstance(device, str) and "*" in device:
        raise PlacementError(
            "place: a rule names one device", given=lines, expected=f"one of {here()}",
            source=source if node is None else node.source,
        )  # fmt: skip
    try:
        there = as_device(device)
    except DeviceError as error:
        if soft:
            return Target(None, str(device), error.wrong)
        raise PlacementError(
            f"place: {error.wrong}", given=lines, expected=f"one of {here()}", hint=error.hint,
            source=source if node is None else node.source,
        ) from None  # fmt: skip
    return Target(there, there.name)


def here(others: list[Device] | None = None) -> str:
    """The devices of this process, or some of them, in words."""
    names = [str(device) for device in (devices() if others is None else others)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "no device of this process") + more


def line_of(node: Node) -> str:
    """Text of a node in messages: its path, and its line."""
    return f"&{path_of(node)}" + ("" if node.source is None else f" at {node.source}")


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


@final
class Wishes:
    """The devices that rules want for the nodes of one graph; a derivative goes with its op.

    A node whose device the program leaves open follows another: in a scope with a pattern, the
    operand that decided the node's device, if the pattern accepts the new device; under
    `eagerflow.colocate`, the value.

    Args:
        rules: the rules.
        originals: for nodes of a retraced graph, the nodes of the first trace, to which the rules
            apply.
    """

    def __init__(self, rules: Rules, originals: Mapping[Node, Node] = MappingProxyType({})) -> None:
        self.rules = rules
        self._originals = originals
        self._patterns = Patterns(rules.targets)
        self._ranks = {pattern: rank_of(pattern) for pattern in rules.targets}
        self._known: dict[Node, Wish | None] = {}
        self._by_patterns: dict[tuple[str, ...], Wish | None] = {}  # by all that match a node

    def of(self, node: Node) -> Wish | None:
        """The device that rules want for a node; None if no rule applies.

        Raises:
            PlacementError: two equally specific patterns want it on different devices, or a
                function returns something that is no device.
        """
        first = self.original(node)
        if first not in self._known:
            self._find_all(first)
        return self._known[first]

    def original(self, node: Node) -> Node:
        """The node to which the rules apply: that of the trace, and of the forward pass."""
        first = forward_of(node)
        return self._originals.get(first, first)

    def matches(self, pattern: str, node: Node) -> bool:
        """Whether a pattern matches a node, or its forward node."""
        wish = self.of(node)
        return wish is not None and pattern in wish.matches

    def _find_all(self, node: Node) -> None:
        """Find the devices that rules want for a node and for the nodes that it follows."""
        path = [node]
        while path[-1] not in self._known:
            here = path[-1]
            self._known[here] = self._find(here)
            leader = None if self._known[here] is not None else leader_of(here)
            if leader is not None:
                path.append(leader)
        for follower, leader in zip(path[-2::-1], path[:0:-1], strict=True):
            self._known[follower] = _followed(follower, leader, self._known[leader])

    def _find(self, node: Node) -> Wish | None:
        if self.rules.function is not None:
            return self._asked(self.rules.function, node)
        patterns = self._patterns.of(node)
        if patterns not in self._by_patterns:
            self._by_patterns[patterns] = self._best(patterns, node) if patterns else None
        return self._by_patterns[patterns]

    def _best(self, patterns: tuple[str, ...], node: Node) -> Wish:
        """The wish of the most specific of the patterns that match a node."""
        best = max(self._ranks[pattern] for pattern in patterns)
        first, *others = [pattern for pattern in patterns if self._ranks[pattern] == best]
        target = self.rules.targets[first]
        for other in others:
            if self.rules.targets[other] != target:
                raise self._conflict(node, first, other)
        return Wish(target, f"rule {first!r}", patterns)

    def _asked(self, function: Callable[[Node], Any], node: Node) -> Wish | None:
        try:
            device = function(node)
        except Exception as error:
            error.add_note(f"in the rule {_name(function)}, asked for {line_of(node)}")
            raise
        if device is None:
            return None
        by = f"rule {_name(function)}" if self.rules.plan is None else "automatic placement"
        return Wish(_target(device, f"the {by}", self.rules.soft, self.rules.source, node), by)

    def _conflict(self, node: Node, first: str, second: str) -> PlacementError:
        targets = self.rules.targets
        asked = [f"{p!r}: {targets[p].asked or None}" for p in (first, second)]
        lines = "" if self.rules.source is None else f"\n    rules at {self.rules.source}"
        return PlacementError(
            f"place: two rules want &{node.name} on different devices",
            given=f"{' and '.join(asked)}, for {line_of(node)}{lines}",
            expected="one of them to be more specific: names count more than wild cards",
            hint=f"add a rule of its own: {path_of(node)!r}",
            source=node.source,
        )


def forward_of(node: Node) -> Node:
    """The forward node of a node of a derivative; any other node itself."""
    return node if node.forward is None else node.forward


def leader_of(node: Node) -> Node | None:
    """The node that a node follows; None if the program does not leave its device open."""
    leeway = node.leeway
    if isinstance(leeway, Value):
        value: Value | None = leeway
    elif leeway is not None:  # the first that is there, not the first that was moved there
        there = (v for v in node.inputs if v.device == node.device)
        value = next((v for v in there if v.node is None or not is_transfer(v.node.op)), None)
    else:
        return None
    maker = None if value is None else value.node
    return forward_of(maker) if maker is not None and is_movable(maker) else None


def _followed(node: Node, leader: Node, wish: Wish | None) -> Wish | None:
    """The wish for a node that follows another one."""
    device = None if wish is None else wish.target.device
    if wish is None or device is None:
        return None
    leeway = node.leeway
    if isinstance(leeway, Value):
        why = f"colocated with &{leader.name}"
    elif leeway is not None and leeway.takes(device.task, device.kind, device.index):
        why = f"follows &{leader.name}, as the scope {leeway} leaves it open"
    else:
        return None
    return Wish(wish.target, f"{why}: {_rule_of(wish)}", (), leader)


def _rule_of(wish: Wish) -> str:
    return wish.by if wish.leader is None else wish.by.partition(": ")[2]


def path_of(node: Node) -> str:
    """The path of a node: its scope, then its name."""
    return f"{node.scope}/{node.name}" if node.scope else node.name
