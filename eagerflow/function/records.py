"""What users see of traces: why each was made, and what it depends on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from eagerflow.function.arguments import FOREIGN, Call

__all__ = ["LeafRecord", "Reason", "TraceRecord", "difference", "distance"]


@final
@dataclass(frozen=True, slots=True)
class LeafRecord:
    """A leaf of the arguments as messages show it.

    Attributes:
        name: such as ``params['w']``.
        text: its type, or the static value.
        token: its part of the key.
    """

    name: str
    text: str
    token: Any


@final
@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call needed a trace of its own.

    Attributes:
        text: in words.
        culprit: what differed, such as ``"x"`` or ``"the size of x"``; empty for a first call.
    """

    text: str
    culprit: str = ""


@final
@dataclass(slots=True)
class TraceRecord:
    """One trace of a function.

    Attributes:
        signature: the function with the types of its arguments; sizes that may differ have names.
        reason: why it was made.
        seconds: how long tracing and optimising took.
        nodes: how many nodes the graph has that runs.
        static: what Python asked for the value of, so that another value is another trace.
        outside: what is read from outside at each call.
        notes: what is not as in eager mode: it ran only while tracing, or cannot be watched.
        unrolled: the loops of Python of which each iteration put nodes into the graph, with how
            many; those with the most nodes first.
    """

    signature: str
    reason: str
    seconds: float = 0.0
    nodes: int = 0
    static: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unrolled: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        count = f"{self.nodes} node{'s' * (self.nodes != 1)}"
        lines = [
            f"{self.signature}: {count}, traced in {self.seconds * 1e3:.1f} ms",
            f"  why: {self.reason}",
        ]
        titles = {"outside": "read from outside"}
        lines += [f"  {titles.get(kind, kind)}: {item}" for kind, item in self.shown()]
        return "\n".join(lines)

    def static_of(self, name: str) -> list[str]:
        """What Python asked for of one argument."""
        starts = re.compile(rf"(axis \d+ of )?{re.escape(name)} ?= ?")
        return [item for item in self.static if starts.match(item)]

    def shown(self) -> list[tuple[str, str]]:
        """What the trace depends on, and what is to be known of it, each with its kind.

        Long lists are cut: the attributes have all of it.
        """
        sections = {
            "static": _first(_grouped(self.static)),
            "outside": _first(self.outside),
            "unrolled": _first(self.unrolled),
            "note": self.notes,
        }
        return [(kind, item) for kind, items in sections.items() for item in items]


def _first(items: Sequence[str], most: int = 5) -> list[str]:
    """The first of some texts, and how many there are more."""
    rest = len(items) - most
    return [*items[:most], f"and {rest} more"] if rest > 0 else [*items]


def _grouped(items: Sequence[str], most: int = 4) -> list[str]:
    """Static values that are so for one reason in one text, the first of them by name."""
    groups: dict[str, list[str]] = {}
    for item in items:
        value, because, why = item.partition(", because of ")
        groups.setdefault(because + why, []).append(value)
    return [
        ", ".join(_first(values, most)).replace(", and ", " and ") + why
        for why, values in groups.items()
    ]


def distance(call: Call, before: Sequence[LeafRecord]) -> int:
    """In how many arguments a call has another key than an earlier one."""
    same = {(r.name, r.token) for r in before}
    return sum((leaf.name, leaf.token) not in same for leaf in call.leaves)


def difference(call: Call, before: Sequence[LeafRecord]) -> Reason:
    """How the arguments of a call differ from those of an earlier one."""
    now = [LeafRecord(leaf.name, str(leaf), leaf.token) for leaf in call.leaves]
    if [r.name for r in now] != [r.name for r in before]:
        names = {r.name for r in now} ^ {r.name for r in before}
        shown = ", ".join(sorted(names)) or "their order"
        return Reason(f"the structure of the arguments differs: {shown}", "the structure")
    parts, culprits = [], []
    keys_differ = any(a.token != b.token for a, b in zip(now, before, strict=True))
    for a, b in zip(now, before, strict=True):
        # sizes alone are no part of the key
        if a.token != b.token or (a.text != b.text and not keys_differ):
            what = f"{a.text} once more another object" if a.text == b.text else a.text
            parts.append(f"{a.name}: now {what}, before {b.text}")
            culprits.append(a.name)
    if not parts:
        text = "other devices, another order of keys, or arguments that are one object"
        return Reason(text, "the device")
    if any((FOREIGN in a.text) != (FOREIGN in b.text) for a, b in zip(now, before, strict=True)):
        parts.append("made tensors by ef.asarray, arrays need no trace of their own")
    return Reason("; ".join(parts), culprits[0])
