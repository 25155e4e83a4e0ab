"""Statistics of the user's lines: the ops that each has run, and their time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from eagerflow.events import NodeEvent, OpEvent
from eagerflow.profiling.rows import TIMES_ELSEWHERE, AbstractRow, RowTable
from eagerflow.source import Source
from eagerflow.unknown_names import hint_at


@final
@dataclass(frozen=True, slots=True, repr=False)
class LineStatistics(AbstractRow):
    """Statistics of the ops of one line of the user's code.

    Attributes:
        file: the name of the file.
        line: the number of the line, from 1.
        text: its code; empty if that is not available.
        calls: number of ops.
        total: seconds of all these ops.
        share: their fraction of the duration of the profile. Ops of several threads at the same
            time may add up to more than 1.
    """

    file: str
    line: int
    text: str
    calls: int
    total: float
    share: float


hint_at(LineStatistics, [*TIMES_ELSEWHERE, "code", "name", "op", "source"])


def line_statistics(
    events: Iterable[OpEvent | NodeEvent], seconds: float
) -> RowTable[LineStatistics]:  # fmt: skip
    """The lines of some ops, by decreasing total time; ops without a line are left out.

    Args:
        events: the ops.
        seconds: the duration of the profile.
    """
    sources: dict[tuple[int, int], Source] = {}
    at_source: dict[tuple[int, int], tuple[int, float]] = {}
    for event in events:
        if event.source is not None:
            key = id(event.source.code), event.source.offset  # a code object's hash reads all of it
            sources.setdefault(key, event.source)
            calls, total = at_source.get(key, (0, 0.0))
            at_source[key] = calls + 1, total + event.working
    texts: dict[tuple[str, int], str] = {}
    at_line: dict[tuple[str, int], tuple[int, float]] = {}
    for key, (count, took) in at_source.items():
        source = sources[key]
        place = source.file, source.line
        texts.setdefault(place, source.text)
        calls, total = at_line.get(place, (0, 0.0))
        at_line[place] = calls + count, total + took
    rows = [
        LineStatistics(*place, texts[place], calls, total, total / seconds if seconds > 0 else 0.0)
        for place, (calls, total) in at_line.items()
    ]
    return RowTable(sorted(rows, key=lambda row: row.total, reverse=True))
