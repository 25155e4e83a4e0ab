"""Statistics of the time outside of ops: traces, pipelines, waits, copies to the host, the rest."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Final, TypeAlias, final

from eagerflow.events import (
    AbstractEvent,
    CallEvent,
    FetchEvent,
    NodeEvent,
    OpEvent,
    RetraceEvent,
    WaitEvent,
)
from eagerflow.profiling.rows import AbstractRow, RowTable
from eagerflow.source import Source, cell_name

#: the events that say what a thread does outside of ops
Scope: TypeAlias = RetraceEvent | CallEvent | WaitEvent | FetchEvent
SCOPES: Final = (RetraceEvent, CallEvent, WaitEvent, FetchEvent)


@final
@dataclass(frozen=True, slots=True, repr=False)
class OutsideStatistics(AbstractRow):
    """What took time outside of ops: one traced function, one function of a pipeline, one queue.

    Attributes:
        kind: ``"retrace"`` for traces, ``"call"`` for calls of a user's function by a pipeline,
            ``"wait"`` for waits, ``"fetch"`` for copies of values of devices to the host, as by
            ``x.item()`` and ``print(x)``; ``"other"`` for the rest, which is other Python code.
        name: of the traced function, of the stage such as ``"map(augment)"``, of the queue, or of
            the device; empty for the rest.
        source: the line that put the function into the pipeline, or that reads the value; None for
            other kinds.
        is_own: whether it was in the thread of the block, and so is a part of its time.
        calls: number of traces, calls, waits or copies; 0 for the rest.
        total: their seconds, without those of ops and of other rows that lie within.
        share: the fraction of the duration of the profile.
        ops: number of ops of eager code within.
    """

    kind: str
    name: str
    source: Source | None
    is_own: bool
    calls: int
    total: float
    share: float
    ops: int

    @property
    def place(self) -> str:
        """The line by the name of its file and its number; empty without one."""
        if self.source is None:
            return ""
        return f"{os.path.basename(cell_name(self.source.file))}:{self.source.line}"


def union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times that lie in any of some spans, as spans that do not overlap, in order.

    >>> from eagerflow.profiling.outside_statistics import union
    >>> union([(3.0, 4.0), (0.0, 2.0), (1.0, 2.5)])
    [(0.0, 2.5), (3.0, 4.0)]
    """
    joined: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def _without(
    spans: Sequence[tuple[float, float]], holes: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """The parts of spans outside of others; both in order, without overlaps."""
    at = 0  # both are in order, so that each is looked at once
    for start, stop in spans:
        while at < len(holes) and holes[at][1] <= start:
            at += 1
        hole = at
        while hole < len(holes) and holes[hole][0] < stop:
            if holes[hole][0] > start:
                yield start, holes[hole][0]
            start = holes[hole][1]
            hole += 1
        if start < stop:
            yield start, stop


@final
class OpTimes:
    """The times at which one thread ran ops, without overlaps and without their waits.

    Args:
        ops: in any order. An op may lie in another one, or two may run at once.
        waits: of the thread, in any order.

    Attributes:
        spans: the times, in order.
    """

    def __init__(
        self, ops: Iterable[OpEvent | NodeEvent], waits: Iterable[AbstractEvent] = ()
    ) -> None:
        ops = list(ops)
        self._begins = sorted([e.start for e in ops if isinstance(e, OpEvent)])
        self.spans = [*_without(union(map(_span, ops)), union(map(_span, waits)))]
        self._starts = [start for start, _ in self.spans]
        #: seconds of the spans before each, and at last of all
        self._before = [*accumulate((stop - start for start, stop in self.spans), initial=0.0)]

    @property
    def total(self) -> float:
        """Seconds of all."""
        return self._before[-1]

    def within(self, start: float, stop: float) -> float:
        """Seconds of ops between two times."""
        return self._until(stop) - self._until(start)

    def count(self, start: float, stop: float) -> int:
        """The number of ops of eager code that began between two times."""
        return bisect_left(self._begins, stop) - bisect_left(self._begins, start)

    def _until(self, time: float) -> float:
        i = bisect_right(self._starts, time)
        return self._before[i] - max(self.spans[i - 1][1] - time, 0.0) if i else 0.0


def _span(event: AbstractEvent) -> tuple[float, float]:
    return event.start, event.start + event.seconds


@final
@dataclass(slots=True)
class _Sum:
    source: Source | None
    calls: int = 0
    total: float = 0.0
    ops: int = 0


#: sums by kind, name, place, and whether they are of the thread of the block
_Sums: TypeAlias = dict[tuple[str, str, str, bool], _Sum]


def outside_statistics(
    own: tuple[OpTimes, Sequence[Scope]],
    others: Iterable[tuple[OpTimes, Sequence[Scope]]],
    seconds: float,
) -> RowTable[OutsideStatistics]:
    """The rows by decreasing total time, those of the thread of the block first, with the rest.

    Args:
        own: what the thread of the block did.
        others: what other threads did.
        seconds: the duration of the profile.
    """
    sums: _Sums = {}
    _add_scopes(sums, *own, is_own=True)
    for ops, scopes in others:
        _add_scopes(sums, ops, [e for e in scopes if not isinstance(e, WaitEvent)], is_own=False)
    rows = [
        OutsideStatistics(kind, name, s.source, is_own, s.calls, s.total, _share(s.total, seconds),
                          s.ops)
        for (kind, name, _, is_own), s in sums.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (not row.is_own, -row.total))
    mine = [row for row in rows if row.is_own]
    rest = seconds - own[0].total - sum(row.total for row in mine)
    other = OutsideStatistics("other", "", None, True, 0, rest, _share(rest, seconds), 0)
    return RowTable([*mine, *[other] * (rest > 0.0), *rows[len(mine) :]])


def _share(total: float, seconds: float) -> float:
    return total / seconds if seconds > 0.0 else 0.0


def _add_scopes(sums: _Sums, ops: OpTimes, scopes: Sequence[Scope], *, is_own: bool) -> None:
    """Add the events of one thread, each with its time outside of ops and of events within it."""
    around: list[tuple[float, _Sum]] = []  # with their ends, the innermost last
    for event in sorted(scopes, key=attrgetter("start")):
        start, stop = event.start, event.start + event.seconds
        while around and around[-1][0] <= start:
            around.pop()
        stop = min(stop, around[-1][0]) if around else stop
        seconds = stop - start - ops.within(start, stop)
        if isinstance(event, FetchEvent) and seconds < _ROUNDED:  # it is of an op
            continue
        if around:
            around[-1][1].total -= seconds
        around.append((stop, _sum_of(sums, event, is_own)))
        around[-1][1].total += seconds
        if not isinstance(event, WaitEvent):  # the op that waits has begun before
            around[-1][1].ops += ops.count(start, stop)


#: seconds that are 0 but for rounding
_ROUNDED: Final = 1e-8
#: the error of a call that finds the end of an iterable, which is no call to count
_END: Final = "StopIteration"


def _sum_of(sums: _Sums, event: Scope, is_own: bool) -> _Sum:
    source = event.source if isinstance(event, CallEvent | FetchEvent) else None
    place = "" if source is None else f"{source.file}:{source.line}"
    sum_ = sums.setdefault((event.kind, event.name, place, is_own), _Sum(source))
    sum_.calls += event.error != _END
    return sum_


def by_thread(
    ops: Iterable[OpEvent | NodeEvent], events: Iterable[AbstractEvent]
) -> dict[int, tuple[OpTimes, list[Scope]]]:
    """What each thread did, by its identifier.

    Args:
        ops: the ops.
        events: of all kinds.
    """
    run: dict[int, list[OpEvent | NodeEvent]] = {}
    for op in ops:
        run.setdefault(op.caller or op.thread, []).append(op)
    scopes: dict[int, list[Scope]] = {}
    for event in events:
        if isinstance(event, SCOPES):
            scopes.setdefault(event.thread, []).append(event)
    idents = dict.fromkeys([*run, *scopes])
    waits = {i: [e for e in of if isinstance(e, WaitEvent)] for i, of in scopes.items()}
    return {i: (OpTimes(run.get(i, ()), waits.get(i, ())), scopes.get(i, [])) for i in idents}
