"""Bounded memory of what goes on without end: a week takes no more room than a minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: the spans of buckets in seconds, and how many of each are kept: minutes, hours, a week
SPANS: Final = ((1.0, 120), (60.0, 120), (3600.0, 168))


@final
@dataclass(frozen=True, slots=True)
class Bucket:
    """What came within one span of time.

    Attributes:
        start: when the span begins.
        span: its seconds.
        count: how many values came.
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
        #: for each span: the index of the span that a place of the ring stands for, and its figures
        self._levels = [
            (span, np.full(kept, -1, dtype=np.int64), np.zeros((kept, 4))) for span, kept in SPANS
        ]

    def add(self, times: Floats, values: Floats) -> None:
        """Take in values.

        Args:
            times: when each came, f64[n], not before the epoch of the clock.
            values: f64[n].
        """
        for span, indices, figures in self._levels:
            found, inverse = np.unique((times // span).astype(np.int64), return_inverse=True)
            for i, index in enumerate(found.tolist()):
                mine = values[inverse == i]
                place = index % len(indices)
                if indices[place] > index:  # older than what is kept
                    continue
                if indices[place] < index:
                    indices[place] = index
                    figures[place] = 0, 0, np.inf, -np.inf
                count, total, least, largest = figures[place]
                figures[place] = (
                    count + len(mine), total + mine.sum(),
                    min(least, mine.min()), max(largest, mine.max()),
                )  # fmt: skip

    def buckets(self, span: float) -> Iterator[Bucket]:
        """The buckets of this span that are kept and not empty, the oldest first."""
        ((indices, figures),) = [level[1:] for level in self._levels if level[0] == span]
        newest = indices.max()
        for place in np.argsort(indices).tolist():
            index = int(indices[place])
            if 0 <= index and newest - index < len(indices):
                count, total, least, largest = figures[place].tolist()
                yield Bucket(index * span, span, int(count), total, least, largest)


@final
class Recent:
    """The last values, of which there are percentiles.

    Args:
        kept: how many.
    """

    __slots__ = ("_values", "count")

    def __init__(self, kept: int = 512) -> None:
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
        """The percentiles of what is kept; zeros if there is nothing."""
        if not self.count:
            return (0.0,) * len(which)
        values = np.sort(self._values[: self.count])
        places = [min(int(len(values) * p / 100), len(values) - 1) for p in which]
        return tuple(values[places].tolist())
