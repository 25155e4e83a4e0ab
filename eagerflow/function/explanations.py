"""What users see of traces: what each depends on, and what `f.explain()` prints.

Why a trace is made: `function/lookup/retrace_reasons.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from eagerflow.formatting import escape

#: notebooks put the texts of tables at the right
_LEFT: Final = ' style="text-align: left"'


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
@dataclass(slots=True)
class TraceRecord:
    """One trace of a function.

    Attributes:
        signature: the function with the types of its arguments; sizes that may differ have names.
        reason: why it was made.
        scope: the device scope that it is for; empty if it is for none.
        seconds: how long tracing and optimising took.
        nodes: how many nodes the graph has that runs.
        static: what Python asked for the value of, so that another value is another trace.
        outside: what is read from outside at each call.
        notes: what is not as in eager mode: it ran only while tracing, or cannot be watched.
        unrepeated: what no run of a graph can repeat, so that the function itself does such calls.
        unrolled: the loops of Python of which each iteration put nodes into the graph, with how
            many; those with the most nodes first.
        compiled: what became native code, and why other ops did not.
    """

    signature: str
    reason: str
    scope: str = ""
    seconds: float = 0.0
    nodes: int = 0
    static: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unrepeated: list[str] = field(default_factory=list)
    unrolled: list[str] = field(default_factory=list)
    compiled: list[str] = field(default_factory=list)

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
            "device scope": [self.scope] if self.scope else [],
            "static": _first(_grouped(self.static)),
            "outside": _first(self.outside),
            "unrolled": _first(self.unrolled),
            "compiled": _first(self.compiled, 12),
            "note": self.notes,
            "run as Python": self.unrepeated,
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


@final
class Explanation:
    """Prints as text, and as a table in notebooks.

    Args:
        name: of the function.
        records: its traces.
        tier: what runs it.
        kernels: the library that computes its ops.

    Attributes:
        name: of the function.
        records: its traces.
    """

    def __init__(self, name: str, records: Sequence[TraceRecord], tier: str, kernels: str) -> None:
        self.name = name
        self.records = tuple(records)
        self._how = f"run by the {tier} tier on {kernels} kernels"

    def __str__(self) -> str:
        count = len(self.records)
        if not count:
            return f"{self.name}: not traced yet"
        traces = "1 trace" if count == 1 else f"{count} traces"
        lines = [f"{self.name}: {traces}, {self._how}"]
        for i, record in enumerate(self.records, 1):
            first, *rest = str(record).split("\n")
            lines.append(f"{i}. {first}")
            lines += [f"   {line}" for line in rest]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        titles = ("", "signature", "nodes", "traced in", "why", "")
        head = "<tr>" + "".join(f"<th{_LEFT}>{title}</th>" for title in titles) + "</tr>"
        rows = []
        for i, r in enumerate(self.records, 1):
            more = [f"{kind}: {item}" for kind, item in r.shown()]
            cells = (str(i), r.signature, str(r.nodes), f"{r.seconds * 1e3:.1f} ms", r.reason)
            texts = [escape(cell) for cell in cells] + ["<br>".join(map(escape, more))]
            rows.append("<tr>" + "".join(f"<td{_LEFT}>{text}</td>" for text in texts) + "</tr>")
        title = f"<b>{escape(self.name)}</b>, {self._how}"
        return f"{title}<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
