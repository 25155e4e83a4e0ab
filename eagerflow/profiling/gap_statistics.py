"""Statistics of the gaps between ops: the time of Python code, by the lines on either side."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, final

from eagerflow.events import AbstractEvent
from eagerflow.profiling.rows import AbstractRow, RowTable
from eagerflow.profiling.spans import Span
from eagerflow.source import Source, cell_name


@final
@dataclass(frozen=True, slots=True, repr=False)
class GapStatistics(AbstractRow):
    """The time of Python code between an op of one line and the next op of the same thread.

    The code lies between the two lines, both included: an op's arguments are computed in its own
    line. The lines may be the same.

    Attributes:
        after: the line of the op before the gap; None at the beginning of the block.
        before: the line of the op after it; None at the end of the block.
        count: number of gaps between these lines.
        total: their seconds.
        share: the fraction of the duration of the profile.
    """

    after: Source | None
    before: Source | None
    count: int
    total: float
    share: float

    @property
    def place(self) -> str:
        """The lines by the names of their files and their numbers: ``train.py:12 to 14``."""
        after, before = _place(self.after), _place(self.before)
        if after is None or before is None or after == before:
            end = before or after
            word = "" if after == before else "to " if before else "from "
            return "" if end is None else f"{word}{end[0]}:{end[1]}"
        name = "" if after[0] == before[0] else f"{before[0]}:"
        return f"{after[0]}:{after[1]} to {name}{before[1]}"

    @property
    def text(self) -> str:
        """The code of the line after the gap; at the end of the block, of the line before it."""
        source = self.before or self.after
        return "" if source is None else source.text


def _place(source: Source | None) -> tuple[str, int] | None:
    return None if source is None else (os.path.basename(cell_name(source.file)), source.line)


def gap_statistics(
    blocks: Iterable[tuple[Iterable[Span], Iterable[AbstractEvent]]], seconds: float
) -> RowTable[GapStatistics]:
    """The rows of gaps by decreasing total time.

    Args:
        blocks: for each block the times in which nothing ran in a thread, and the events of that
            thread in the block; those without a line do not count.
        seconds: the duration of the profile.
    """
    sums: dict[tuple[int, int], GapStatistics] = {}
    number = _line_numbers()
    for gaps, events in blocks:
        _add_gaps(sums, number, gaps, events, seconds)
    return RowTable(sorted(sums.values(), key=lambda row: row.total, reverse=True))


def _add_gaps(
    sums: dict[tuple[int, int], GapStatistics], number: Callable[[Source], int],
    gaps: Iterable[Span], events: Iterable[AbstractEvent], seconds: float,
) -> None:  # fmt: skip
    """Add the gaps of one block."""
    sourced = [(e.start, e.start + e.seconds, e.source) for e in events if e.source is not None]
    ends = sorted(
        [(stop, number(source), source) for _, stop, source in sourced], key=itemgetter(0)
    )
    begins = sorted(
        [(start, number(source), source) for start, _, source in sourced], key=itemgetter(0)
    )
    stops, starts = [end[0] for end in ends], [begin[0] for begin in begins]
    for start, stop in gaps:
        left, right = bisect_right(stops, start + _ROUNDED), bisect_left(starts, stop - _ROUNDED)
        _, after_number, after = ends[left - 1] if left else _NOWHERE
        _, before_number, before = begins[right] if right < len(begins) else _NOWHERE
        known = sums.get((after_number, before_number))
        count, total = (0, 0.0) if known is None else (known.count, known.total)
        total += stop - start
        share = total / seconds if seconds > 0.0 else 0.0
        sums[after_number, before_number] = GapStatistics(after, before, count + 1, total, share)


def _line_numbers() -> Callable[[Source], int]:
    """A function that gives all sources of one line the same number."""
    codes: dict[tuple[int, int], int] = {}  # a code object's hash reads all of it
    lines: dict[tuple[str, int], int] = {}

    def number(source: Source) -> int:
        key = id(source.code), source.offset
        if key not in codes:
            codes[key] = lines.setdefault((source.file, source.line), len(lines))
        return codes[key]

    return number


#: in place of an event where there is none
_NOWHERE: Final = (0.0, -1, None)
#: seconds that are 0 but for rounding
_ROUNDED: Final = 1e-9
