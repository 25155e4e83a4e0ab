"""Records of traces for users: the dependencies of each trace, and the text of `f.explain()`.

The reasons of traces: `function/lookup/retrace_reasons.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, final

from eagerflow.formatting import escape

#: notebooks align the texts of tables to the right
_LEFT: Final = ' style="text-align: left"'


#: a line on one place at which a kernel runs
_RUNS: Final = re.compile(r"(?P<kernel>\w+) runs (?P<nodes>%.*)")
_FEW: Final = 2  # kernels that have a line each


@final
@dataclass(frozen=True, slots=True)
class LeafRecord:
    """A leaf of the arguments as messages show it.

    Attributes:
        name: such as ``params['w']``.
        text: the type of the leaf, or its static value.
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
        signature: the function with the types of its arguments; symbolic sizes have names.
        reason: the reason for which it was made.
        scope: the device scope that it is for; empty if there is none.
        seconds: duration of tracing and optimising.
        nodes: number of nodes in the graph that runs. Constants count here and in
            ``f.graph().nodes``; not in `eagerflow.show`, nor in ``f.explain("costs")``.
        inner_nodes: number of nodes in its branches and in the bodies of its loops, at all levels.
        static: numbers and sizes whose value Python asked for, so that another value needs another
            trace.
        layers: those of ``static`` that are settings of eagerflow's layers and are read by the code
            of these, such as ``net.norm.eps``. Explanations leave them out.
        outside: values read from outside at each call.
        reader: the line that reads the value from outside which the reason names; empty for others.
        notes: differences from eager mode: effects only while tracing, or state that cannot be
            watched.
        unrepeated: effects that no run of a graph can repeat, so that the function itself runs in
            such calls.
        unrolled: unrolled loops of Python, with the number of nodes that their iterations added;
            loops with the most nodes first.
        compiled: the ops compiled to native code, and the reasons for which others were not.
    """

    signature: str
    reason: str
    scope: str = ""
    seconds: float = 0.0
    nodes: int = 0
    inner_nodes: int = 0
    static: list[str] = field(default_factory=list)
    layers: set[str] = field(default_factory=set)
    outside: list[str] = field(default_factory=list)
    reader: str = ""
    notes: list[str] = field(default_factory=list)
    unrepeated: list[str] = field(default_factory=list)
    unrolled: list[str] = field(default_factory=list)
    compiled: list[str] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:  # slots alone do not pickle with protocols 0 and 1
        return type(self), tuple([getattr(self, f.name) for f in fields(self)])

    def __str__(self) -> str:
        return self.text()

    def text(self, before: TraceRecord | None = None) -> str:
        """The trace in some lines.

        Args:
            before: the trace that is described before, to which long lists refer.
        """
        lines = [
            f"{self.signature}: {self.size}, traced in {self.seconds * 1e3:.1f} ms",
            f"  why: {self.reason}",
        ]
        titles = {"outside": "read from outside"}
        lines += [f"  {titles.get(kind, kind)}: {item}" for kind, item in self.shown(before)]
        return "\n".join(lines)

    @property
    def size(self) -> str:
        """The number of nodes, in words."""
        count = f"{self.nodes:,} node{'s' * (self.nodes != 1)}"
        return f"{count}, {self.inner_nodes:,} in loops and branches" if self.inner_nodes else count

    def static_of(self, name: str) -> list[str]:
        """The static values among one argument."""
        starts = re.compile(rf"(axis \d+ of )?{re.escape(name)} ?= ?")
        return [item for item in self.static if starts.match(item)]

    def shown(self, before: TraceRecord | None = None) -> list[tuple[str, str]]:
        """The dependencies of the trace and the notes on it, each with its kind.

        Long lists are cut; the attributes hold them in full.

        Args:
            before: the trace that is described before: where it has the same values from outside,
                or the same kernels, and more than one, that is said in their place.
        """
        sections = {
            "device scope": [self.scope] if self.scope else [],
            "static": _first(_grouped([item for item in self.static if item not in self.layers])),
            "outside": _first(self.outside),
            "unrolled": _first(self.unrolled),
            "compiled": _kernels(self.compiled),
            "note": self.notes,
            "run as Python": self.unrepeated,
        }
        for kind in ("outside", "compiled") if before is not None else ():
            if len(sections[kind]) > 1 and getattr(self, kind) == getattr(before, kind):
                sections[kind] = [_AS_BEFORE]
        return [(kind, item) for kind, items in sections.items() for item in items]


def _first(items: Sequence[str], most: int = 5) -> list[str]:
    """The first of some texts, and a text with the number of others."""
    rest = len(items) - most
    return [*items[:most], f"and {rest} more"] if rest > 0 else [*items]


#: in the place of a list that the trace before has as well
_AS_BEFORE: Final = "as in the trace before"


def _kernels(items: Sequence[str]) -> list[str]:
    """The kernels in one or two lines, and the first reasons for which nodes are in none."""
    runs = [match for match in map(_RUNS.match, items) if match is not None]
    others = [_short(item) for item in items if not _RUNS.match(item)]
    if len(runs) <= _FEW:
        return [*(f"a kernel runs {match['nodes']}" for match in runs), *_first(others)]
    kernels = len({match["kernel"] for match in runs})
    nodes = [match["nodes"].split(", ") for match in runs]
    longest = max(nodes, key=len)
    many = f"{kernels} kernels run" if kernels > 1 else "a kernel runs"
    return [
        f"{many} {sum(map(len, nodes))} nodes in {len(nodes)} calls, the largest of them "
        f"{', '.join(_first(longest)).replace(', and ', ' and ')}",
        *_first(others),
    ]


def _runs_kernels(items: Sequence[str]) -> bool:
    """Whether a trace runs the kernels that it was compiled to: they may be the slower way."""
    return any(map(_RUNS.match, items)) and not any(item.startswith("not used") for item in items)


def _short(item: str, most: int = 6) -> str:
    """A line on nodes without a kernel, with the first of their names."""
    start, _, rest = item.partition("alone: ")
    names, colon, why = rest.partition(": ")
    shown = ", ".join(_first(names.split(", "), most)).replace(", and ", " and ")
    return item if start else f"alone: {shown}{colon}{why}" if colon else item


def _grouped(items: Sequence[str], most: int = 4) -> list[str]:
    """Texts of static values, grouped by reason; each names the first values of a group."""
    groups: dict[str, list[str]] = {}
    for item in items:
        value, because, why = item.partition(", because of ")
        groups.setdefault(because + why, []).append(value)
    return [
        ", ".join(_first(values, most)).replace(", and ", " and ")
        + (why.replace(_ITS, _THEIR, 1) if len(values) > 1 else why)
        for why, values in groups.items()
    ]


#: the beginning of a reason, for one value and for several
_ITS: Final = ", because of its "
_THEIR: Final = ", because of their "


#: the values of arguments in a signature, and sizes
_VALUES: Final = re.compile(r"=[^,)]*|\[[^\]]*\]")
#: the verb in a cause that is a sentence
TOLD: Final = re.compile(r" (is|was|were|has) ")
#: traces in a row that differ in values only, from which the first and the last stand for all
_ALIKE: Final = 4


def _likeness(record: TraceRecord) -> tuple[object, ...]:
    """What traces have in common that differ only in values of arguments, and in sizes.

    The numbers of axes are the same, too.
    """
    static = [f"{value.partition('=')[0]}{why}" for value, _, why in map(_parted, record.static)]
    notes = record.notes, record.unrepeated, record.outside
    return _VALUES.sub(_axes, record.signature), record.scope, *_causes(record.reason), *static, *[
        text for texts in notes for text in texts
    ]  # fmt: skip


def _axes(value: re.Match[str]) -> str:
    """The text for a value or for sizes, which keeps how many sizes there are."""
    sizes = value[0].strip("[]")
    return f"[{sizes.count(',') + 1 if sizes else 0}]" if value[0].startswith("[") else ""


def _parted(item: str) -> tuple[str, str, str]:
    return item.partition(", because of ")


def _causes(reason: str) -> list[str]:
    """What differed, by the text of a reason: ``["step"]`` for "step: now 2, before 1"."""
    return [part.partition(": ")[0] for part in reason.split("; ")]


def _runs(records: Sequence[TraceRecord]) -> list[list[TraceRecord]]:
    """The traces in their order, in groups of neighbours that differ in values only."""
    runs: list[list[TraceRecord]] = []
    last: tuple[object, ...] = ()
    for record in records:
        likeness = _likeness(record)
        if runs and likeness == last:
            runs[-1].append(record)
        else:
            runs.append([record])
        last = likeness
    return runs


def _entries(records: Sequence[TraceRecord]) -> list[tuple[str, TraceRecord | str, float]]:
    """The traces to show by their numbers, with texts in the place of many that are alike.

    The last part is the duration of all that an entry stands for.
    """
    entries: list[tuple[str, TraceRecord | str, float]] = []
    number = 1
    for run in _runs(records):
        shown = list(enumerate(run, number))
        number += len(run)
        if len(run) < _ALIKE:
            entries += [(f"{i}.", record, record.seconds) for i, record in shown]
            continue
        first, *between, last = shown
        entries.append((f"{first[0]}.", first[1], first[1].seconds))
        seconds = sum(record.seconds for _, record in between)
        entries.append((f"{between[0][0]}.-{between[-1][0]}.", _alike(between[-1][1], len(between)),
                        seconds))  # fmt: skip
        entries.append((f"{last[0]}.", last[1], last[1].seconds))
    return entries


def _alike(record: TraceRecord, count: int) -> str:
    """The text for some traces that are like their neighbours."""
    causes = ", ".join(_causes(record.reason))
    why = f"because {causes}" if TOLD.search(causes) else f"which differ in {causes}"
    return f"{count} more traces like these, {why}"


@final
class Explanation(str):
    """The explanation of a traced function: its text, and a table in notebooks.

    Args:
        name: of the function.
        records: its traces.
        kernels: the kernel library that computes its ops.

    Attributes:
        name: of the function.
        records: its traces.
    """

    __slots__ = ("__weakref__", "_how", "_made_of", "name", "records")
    name: str
    records: tuple[TraceRecord, ...]
    _how: str
    _made_of: tuple[Any, ...]

    def __new__(
        cls, name: str, records: Sequence[TraceRecord], kernels: str
    ) -> Explanation:  # fmt: skip
        compiled = any(_runs_kernels(record.compiled) for record in records)
        how = "compiled to native kernels" if compiled else f"run op by op on {kernels} kernels"
        self = super().__new__(cls, _text(name, records, how))
        self.name, self.records, self._how = name, tuple(records), how
        self._made_of = name, self.records, kernels
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of

    __repr__ = str.__str__

    def _repr_html_(self) -> str:
        titles = ("", "signature", "nodes", "traced in", "why", "")
        head = "<tr>" + "".join(f"<th{_LEFT}>{title}</th>" for title in titles) + "</tr>"
        rows = []
        before: TraceRecord | None = None
        for number, r, seconds in _entries(self.records):
            cells, more = (number.rstrip("."), "", "", _ms(seconds), str(r)), []
            if isinstance(r, TraceRecord):
                nodes = r.size.replace(" nodes", "", 1).replace(" node", "", 1)
                cells = (cells[0], r.signature, nodes, cells[3], r.reason)
                more = [f"{kind}: {item}" for kind, item in r.shown(before)]
                before = r
            texts = [escape(cell) for cell in cells] + ["<br>".join(map(escape, more))]
            rows.append("<tr>" + "".join(f"<td{_LEFT}>{text}</td>" for text in texts) + "</tr>")
        title = f"<b>{escape(self.name)}</b>, {self._how}"
        return f"{title}<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _text(name: str, records: Sequence[TraceRecord], how: str) -> str:
    if not records:
        return f"{name}: not traced yet"
    traces = "1 trace" if len(records) == 1 else f"{len(records)} traces"
    lines = [f"{name}: {traces}, {how}"]
    before: TraceRecord | None = None
    for number, entry, seconds in _entries(records):
        if isinstance(entry, str):
            lines.append(f"{number} {entry}, traced in {_ms(seconds)}")
            continue
        first, *rest = entry.text(before).split("\n")
        before = entry
        lines.append(f"{number} {first}")
        lines += [f"   {line}" for line in rest]
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
