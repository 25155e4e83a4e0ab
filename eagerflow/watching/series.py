"""Time series in bounded memory: a week takes no more room than a minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from eagerflow.watching.limits import SPANS

Floats = np.ndarray[Any, np.dtype[np.float64]]


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


@final
class Series:
    """Values over time, by the second, the minute and the hour; the older, the coarser.

    >>> from eagerflow.watching.series import Series
    >>> import numpy as np
    >>> series = Series()
    >>> series.add(np.array([0.2, 0.4, 7.0]), np.array([1.0, 3.0, 5.0]))
    >>> [(b.start, b.count, b.mean) for b in series.buckets(1.0)]
    [(0.0, 2, 2.0), (7.0, 1, 5.0)]
    """

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        #: for each span a ring: the index of each bucket, and its figures
        self._levels = [
            (span, np.full(kept, -1, dtype=np.int64), np.zeros((kept, 4))) for span, kept in SPANS
        ]

    def add(self, times: Floats, values: Floats, counts: Floats | None = None) -> None:
        """Take in values.

        Args:
            times: the time of each value, f64[n], not before the epoch of the clock.
            values: the values, f64[n].
            counts: number of values that each stands for, f64[n]; by default one.
        """
        first, last = float(times.min()), float(times.max())
        whole = _figures(values, counts)
        for span, indices, figures in self._levels:
            if first // span == last // span:
                _join(indices, figures, int(first // span), whole)
                continue
            places = times // span
            for index in dict.fromkeys(places.tolist()):
                here = places == index
                part = _figures(values[here], None if counts is None else counts[here])
                _join(indices, figures, int(index), part)

    def latest(self, since: float) -> list[Bucket]:
        """The buckets of one second that end after ``since``, the oldest first."""
        _, indices, figures = self._levels[0]
        buckets = []
        index = int(indices.max())
        while (index + 1) > since and int(indices[index % len(indices)]) == index >= 0:
            count, total, least, largest = figures[index % len(indices)].tolist()
            buckets.append(Bucket(float(index), 1.0, int(count), total, least, largest))
            index -= 1
        return buckets[::-1]

    def buckets(self, span: float) -> Iterator[Bucket]:
        """The buckets of this span that are kept and not empty, the oldest first."""
        ((indices, figures),) = [level[1:] for level in self._levels if level[0] == span]
        newest = indices.max()
        for place in np.argsort(indices).tolist():
            index = int(indices[place])
            if index >= 0 and newest - index < len(indices):
                count, total, least, largest = figures[place].tolist()
                yield Bucket(index * span, span, int(count), total, least, largest)


def _figures(values: Floats, counts: Floats | None) -> tuple[float, float, float, float]:
    """The number of values, their sum, the smallest and the largest."""
    count, total = float(len(values)), float(values.sum())
    if counts is not None:
        count, total = float(counts.sum()), float((values * counts).sum())
    return count, total, float(values.min()), float(values.max())


def _join(
    indices: np.ndarray[Any, np.dtype[np.int64]], figures: Floats, index: int,
    part: tuple[float, float, float, float],
) -> None:  # fmt: skip
    """Add the figures of the span with this index to its bucket in the ring."""
    place = index % len(indices)
    there = int(indices[place])
    if there == index:
        count, total, least, largest = figures[place].tolist()
        figures[place] = (
            count + part[0], total + part[1], min(least, part[2]), max(largest, part[3])
        )  # fmt: skip
    elif there < index:  # else the span is older than the ring
        indices[place] = index
        figures[place] = part


@final
class Recent:
    """The last values, for percentiles.

    Args:
        kept: number of values kept.
    """

    __slots__ = ("_values", "count")

    def __init__(self, kept: int = 256) -> None:
        self._values = np.zeros(kept)
        self.count = 0

    def add(self, values: Floats) -> None:
        """Take in values, f64[n]."""
        kept = len(self._values)
        values, skipped = values[-kept:], max(len(values) - kept, 0)
        places = (self.count + skipped + np.arange(len(values))) % kept
        self._values[places] = values
        self.count += skipped + len(values)

    def percentiles(self, *which: float) -> tuple[float, ...]:
        """The percentiles of the kept values; zeros if there are none."""
        if not self.count:
            return (0.0,) * len(which)
        # Python's sort: NumPy's releases the interpreter's lock, and waits for it afterwards
        values = sorted(self._values[: self.count].tolist())
        return tuple([values[min(int(len(values) * p / 100), len(values) - 1)] for p in which])
