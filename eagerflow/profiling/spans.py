"""Spans of time: their unions and differences, and the spans in which a thread ran ops."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias, final

from eagerflow.events import AbstractEvent, NodeEvent, OpEvent

#: a beginning and an end, in seconds of ``perf_counter``
Span: TypeAlias = tuple[float, float]


def span(event: AbstractEvent) -> Span:
    """The time of an event, until now if it goes on."""
    return event.start, event.start + event.seconds


def union(spans: Iterable[Span]) -> list[Span]:
    """The times that lie in any of some spans, as spans that do not overlap, in order.

    >>> from eagerflow.profiling.spans import union
    >>> union([(3.0, 4.0), (0.0, 2.0), (1.0, 2.5)])
    [(0.0, 2.5), (3.0, 4.0)]
    """
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def without(spans: Sequence[Span], holes: Sequence[Span]) -> Iterator[Span]:
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
        self.spans = [*without(union(map(span, ops)), union(map(span, waits)))]
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
