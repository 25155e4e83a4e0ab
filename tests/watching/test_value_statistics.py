from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.watching.value_statistics import value_statistics


def test_against_numpy() -> None:
    x = np.random.default_rng(0).normal(size=(50, 40)).astype("f4")
    x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
    found = value_statistics(x)
    finite = x[np.isfinite(x)].astype("f8")
    assert (found.shape, found.dtype, found.size, found.looked_at) == (
        (50, 40),
        "float32",
        2000,
        2000,
    )
    assert (found.nans, found.infs) == (1, 2)
    assert (found.least, found.largest) == (finite.min(), finite.max())
    assert found.mean == pytest.approx(finite.mean())
    counts, _ = np.histogram(finite, 16)
    assert sum(found.histogram) == 1997
    assert np.abs(np.array(found.histogram) - counts).max() <= 1  # an edge may round either way


@pytest.mark.parametrize(
    "value",
    [np.zeros((0, 3)), np.full(4, np.nan), 3, 2.5, True, np.array([1 + 1j, 2j]),
     np.array([b"ab", b""], object), np.array([True, False]), np.array([1e308, -1e308]),
     ef.ones(3, dtype=ef.bfloat16).numpy()],
)  # fmt: skip
def test_any_value_has_statistics(value) -> None:
    found = value_statistics(value)
    finite = found.looked_at - found.nans - found.infs
    assert sum(found.histogram) == finite
    assert (found.mean is None) == (finite == 0)
    assert str(found)


def test_of_large_values_some_elements_are_looked_at() -> None:
    found = value_statistics(np.arange(3_000_000, dtype="f4"))
    assert found.size == 3_000_000
    assert 100_000 < found.looked_at <= 1 << 18
    assert found.mean == pytest.approx(1_500_000, rel=0.01)
    assert "of 250,000 elements" in str(found)


def test_a_constant_has_one_bar() -> None:
    assert value_statistics(np.full(7, 2.0)).histogram == (7, *[0] * 15)
