"""What passes tell of their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from eagerflow.graph.ir import Graph
from eagerflow.source import Source

__all__ = ["Change", "Origin", "Report"]


@final
@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a pass changed.

    Attributes:
        text: what, in the words of the text form.
        source: the user's line; formatted only when it is read.
    """

    text: str
    source: Source | str | None = None

    def __str__(self) -> str:
        return self.text if self.source is None else f"{self.text}  # {self.source}"


@final
@dataclass(frozen=True, slots=True)
class Report:
    """What one run of a pass changed.

    Attributes:
        name: of the pass.
        changes: in the order of the graph.
        before: the number of nodes before it.
        after: the number of nodes after it.
    """

    name: str
    changes: Sequence[Change]
    before: int
    after: int

    def __str__(self) -> str:
        what = f"{len(self.changes)} change{'' if len(self.changes) == 1 else 's'}"
        lines = [f"{self.name}: {what}, {self.before} -> {self.after} nodes"]
        return "\n".join(lines + [f"  {change}" for change in self.changes])


@final
@dataclass(frozen=True, slots=True)
class Origin:
    """Where an optimised graph came from.

    Attributes:
        graph: the graph that was optimised.
        reports: of the runs of passes that changed something, in order.
    """

    graph: Graph
    reports: tuple[Report, ...]
