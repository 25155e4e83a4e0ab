"""What `f.explain()` gives: the traces of a function, for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from eagerflow.function.records import TraceRecord

__all__ = ["Explanation"]

#: notebooks put the texts of tables at the right
_LEFT: Final = ' style="text-align: left"'


@final
class Explanation:
    """Prints as text, and as a table in notebooks.

    Args:
        name: of the function.
        records: its traces.
        tier: what runs it.

    Attributes:
        name: of the function.
        records: its traces.
    """

    def __init__(
        self, name: str, records: Sequence[TraceRecord], tier: str = "interpreter"
    ) -> None:
        self.name = name
        self.records = tuple(records)
        self.tier = tier

    def __str__(self) -> str:
        count = len(self.records)
        if not count:
            return f"{self.name}: not traced yet"
        traces = "1 trace" if count == 1 else f"{count} traces"
        lines = [f"{self.name}: {traces}, run by the {self.tier} tier"]
        for i, record in enumerate(self.records, 1):
            first, *rest = str(record).split("\n")
            lines.append(f"{i}. {first}")
            lines += [f"   {line}" for line in rest]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415 - notebooks have it; 1 ms of a script's first trace

        titles = ("", "signature", "nodes", "traced in", "why", "")
        head = "<tr>" + "".join(f"<th{_LEFT}>{title}</th>" for title in titles) + "</tr>"
        rows = []
        for i, r in enumerate(self.records, 1):
            more = [f"{kind}: {item}" for kind, item in r.shown()]
            cells = (str(i), r.signature, str(r.nodes), f"{r.seconds * 1e3:.1f} ms", r.reason)
            texts = [escape(cell) for cell in cells] + ["<br>".join(map(escape, more))]
            rows.append("<tr>" + "".join(f"<td{_LEFT}>{text}</td>" for text in texts) + "</tr>")
        title = f"<b>{escape(self.name)}</b>, run by the {self.tier} tier"
        return f"{title}<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
