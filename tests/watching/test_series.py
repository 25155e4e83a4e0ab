"""Series of figures: bounded memory, and the same answers as from a plain list."""

from __future__ import annotations

import numpy as np
import pytest

from eagerflow.watching.limits import SPANS
from eagerflow.watching.series import Recent, Series


@pytest.mark.parametrize("span", [span for span, _ in SPANS])
def test_buckets_are_those_of_a_plain_list(span) -> None:
    draws = np.random.default_rng(0)
    times = np.sort(draws.uniform(0, 100 * span, 5000))
    values = draws.normal(size=5000)
    series = Series()
    for part in np.array_split(np.arange(5000), 37):
        series.add(times[part], values[part])
    buckets = list(series.buckets(span))
    assert len(buckets) == 100
    for bucket in buckets:
        mine = values[(times >= bucket.start) & (times < bucket.start + span)]
        assert bucket.count == len(mine)
        assert bucket.total == pytest.approx(mine.sum())
        assert (bucket.least, bucket.largest) == (mine.min(), mine.max())


def test_a_week_takes_no_more_room_than_a_minute() -> None:
    series = Series()
    for second in range(0, 8 * 24 * 3600, 600):
        series.add(np.array([float(second)]), np.array([1.0]))
    counts = [len(list(series.buckets(span))) for span, _ in SPANS]
    assert counts[2] == 168
    assert all(count <= kept for count, (_, kept) in zip(counts, SPANS, strict=True))


def test_what_is_older_than_the_ring_is_not_taken_for_new() -> None:
    series = Series()
    series.add(np.array([500.0]), np.array([1.0]))
    series.add(np.array([500.0 - 120]), np.array([9.0]))  # the same slot of the ring
    assert [(b.start, b.total) for b in series.buckets(1.0)] == [(500.0, 1.0)]


def test_the_latest_buckets() -> None:
    series = Series()
    series.add(np.array([1.5, 2.5, 3.5, 7.5]), np.ones(4))
    assert [b.start for b in series.latest(0.0)] == [7.0]  # up to the first gap
    series.add(np.array([6.2]), np.ones(1))
    assert [b.start for b in series.latest(0.0)] == [6.0, 7.0]
    assert [b.start for b in series.latest(7.0)] == [7.0]


def test_percentiles_are_of_the_last_values() -> None:
    recent = Recent(100)
    assert recent.percentiles(50) == (0.0,)
    recent.add(np.arange(1000.0))
    recent.add(np.arange(50.0))
    kept = sorted([*range(950, 1000), *range(50)])
    assert recent.percentiles(0, 50, 100) == (kept[0], kept[50], kept[99])
    assert recent.count == 1050
