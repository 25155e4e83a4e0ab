from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.watching.value_statistics import value_statistics


def test_against_numpy() -> None:
    x = np.random.default_rng(0).normal(size=(50, 40)).astype("f4")
    x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
    statistics = value_statistics(x)
    finite = x[np.isfinite(x)].astype("f8")
    assert (statistics.shape, statistics.dtype, statistics.size, statistics.looked_at) == (
        (50, 40),
        "float32",
        2000,
        2000,
    )
    assert (statistics.nans, statistics.infs) == (1, 2)
    assert (statistics.least, statistics.largest) == (finite.min(), finite.max())
    assert statistics.mean == pytest.approx(finite.mean())
    counts, _ = np.histogram(finite, 16)
    assert sum(statistics.histogram) == 1997
    # an edge may round either way
    assert np.abs(np.array(statistics.histogram) - counts).max() <= 1


@pytest.mark.parametrize(
    "value",
    [np.zeros((0, 3)), np.full(4, np.nan), 3, 2.5, True, np.array([1 + 1j, 2j]),
     np.array([b"ab", b""], object), np.array([True, False]), np.array([1e308, -1e308]),
     ef.ones(3, dtype=ef.bfloat16).numpy()],
)  # fmt: skip
def test_any_value_has_statistics(value) -> None:
    statistics = value_statistics(value)
    finite = statistics.looked_at - statistics.nans - statistics.infs
    assert sum(statistics.histogram) == finite
    assert (statistics.mean is None) == (finite == 0)
    assert str(statistics)


def test_of_large_values_some_elements_are_looked_at() -> None:
    statistics = value_statistics(np.arange(3_000_000, dtype="f4"))
    assert statistics.size == 3_000_000
    assert 100_000 < statistics.looked_at <= 1 << 18
    assert statistics.mean == pytest.approx(1_500_000, rel=0.01)
    assert "of 250,000 elements" in str(statistics)


def test_a_constant_has_one_bar() -> None:
    assert value_statistics(np.full(7, 2.0)).histogram == (7, *[0] * 15)
