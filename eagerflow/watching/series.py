"""Time series in bounded memory: a week takes no more room than a minute.

They are lists of Python's: there are few values in a look, for which they are faster than arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import final

from eagerflow.watching.limits import SPANS


@final
@dataclass(frozen=True, slots=True)
class Bucket:
    """The values within one span of time.

    Attributes:
        start: when the span begins.
        span: its seconds.
        count: number of the values.
        total: their sum.
        least: the smallest of them.
        largest: the largest of them.
    """

    start: float
    span: float
    count: int
    total: float
    least: float
    largest: float

    @property
    def mean(self) -> float:
        """The mean of the values."""
        return self.total / self.count


#: number of values, their sum, the smallest and the largest
_Figures = tuple[int, float, float, float]


@final
class Series:
    """Values over time, by the second, the minute and the hour; the older, the coarser.

    >>> from eagerflow.watching.series import Series
    >>> series = Series()
    >>> series.add([0.2, 0.4, 7.0], [1.0, 3.0, 5.0])
    >>> [(b.start, b.count, b.mean) for b in series.buckets(1.0)]
    [(0.0, 2, 2.0), (7.0, 1, 5.0)]
    """

    __slots__ = ("_newest", "_rings")

    def __init__(self) -> None:
        #: for each span a ring of buckets, each with its index
        self._rings: list[tuple[float, list[tuple[int, _Figures] | None]]] = [
            (span, [None] * kept) for span, kept in SPANS
        ]
        self._newest = -1  # the index of the newest bucket of the shortest span

    def add(
        self, times: Sequence[float], values: Sequence[float], counts: Sequence[int] | None = None
    ) -> None:  # fmt: skip
        """Take in values.

        Args:
            times: the time of each value, not before the epoch of the clock; at least one.
            values: the values.
            counts: number of values that each stands for; by default one.
        """
        first, last = min(times), max(times)
        whole = _figures(values, counts)
        self._newest = max(self._newest, int(last // self._rings[0][0]))
        for span, ring in self._rings:
            if first // span == last // span:
                _join(ring, int(first // span), whole)
                continue
            places = [int(time // span) for time in times]
            for index in dict.fromkeys(places):
                here = [place == index for place in places]
                mine = list(compress(values, here))
                _join(ring, index, _figures(mine, counts and list(compress(counts, here))))

    def latest(self, since: float) -> list[Bucket]:
        """The buckets of one second that end after ``since``, the oldest first."""
        span, ring = self._rings[0]
        buckets = []
        index = self._newest
        while index + 1 > since and index >= 0:
            kept = ring[index % len(ring)]
            if kept is None or kept[0] != index:
                break
            buckets.append(Bucket(float(index), span, *kept[1]))
            index -= 1
        return buckets[::-1]

    def buckets(self, span: float) -> Iterator[Bucket]:
        """The buckets of this span that are kept and not empty, the oldest first."""
        (ring,) = [ring for known, ring in self._rings if known == span]
        kept = sorted(bucket for bucket in ring if bucket is not None)
        for index, figures in kept:
            if kept[-1][0] - index < len(ring):
                yield Bucket(index * span, span, *figures)


def _figures(values: Sequence[float], counts: Sequence[int] | None) -> _Figures:
    if counts is None:
        return len(values), sum(values), min(values), max(values)
    total = sum([value * count for value, count in zip(values, counts, strict=True)])
    return sum(counts), total, min(values), max(values)


def _join(ring: list[tuple[int, _Figures] | None], index: int, part: _Figures) -> None:
    """Add the figures of the span with this index to its bucket in the ring."""
    place = index % len(ring)
    there = ring[place]
    if there is None or there[0] < index:
        ring[place] = index, part
    elif there[0] == index:
        count, total, least, largest = there[1]
        ring[place] = (
            index,
            (count + part[0], total + part[1], min(least, part[2]), max(largest, part[3])),
        )
    # else the span is older than the ring


@final
class Recent:
    """The last values, for percentiles.

    Args:
        kept: number of values kept.

    Attributes:
        count: number of values ever.
    """

    __slots__ = ("_sorted", "_values", "count")

    def __init__(self, kept: int = 256) -> None:
        self._values: deque[float] = deque(maxlen=kept)
        self._sorted: list[float] | None = None
        self.count = 0

    def add(self, values: Sequence[float]) -> None:
        """Take in values."""
        self._values.extend(values)
        self._sorted = None
        self.count += len(values)

    def percentiles(self, *which: float) -> tuple[float, ...]:
        """The percentiles of the kept values; zeros if there are none."""
        values = self._sorted
        if values is None:
            values = self._sorted = sorted(self._values)
        if not values:
            return (0.0,) * len(which)
        return tuple([values[min(int(len(values) * p / 100), len(values) - 1)] for p in which])
