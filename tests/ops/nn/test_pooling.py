"""Pooling: refusals, ties, NaN, windows without elements."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from tests.messages import says


def test_ties_go_to_the_first() -> None:
    x = ef.tensor([[[[1.0, 2.0, 2.0], [2.0, 0.0, 2.0]]]])
    slope = ef.grad(lambda x: ef.max_pool(x, 2, stride=1).sum())(x)
    assert slope.tolist() == [[[[0, 2, 0], [0, 0, 0]]]]
    slope = ef.grad(lambda x: ef.adaptive_max_pool(x, 1).sum())(x)
    assert slope.tolist() == [[[[0, 1, 0], [0, 0, 0]]]]


def test_nan_is_the_largest_of_its_windows() -> None:
    x = ef.tensor([[[1.0, float("nan"), 3.0, float("-inf"), float("-inf")]]])
    values, indices = ef.max_pool(x, 2, stride=1, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), [[[np.nan, np.nan, 3, -np.inf]]])
    assert indices.tolist() == [[[1, 1, 2, 3]]]


def test_large_windows() -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, 20, 20))
    _, indices = ef.max_pool(ef.tensor(x), 20, return_indices=True)
    assert indices.item() == x.argmax()


@pytest.mark.parametrize("pool", [ef.max_pool, ef.avg_pool])
def test_windows_that_do_not_fit(pool) -> None:
    with pytest.raises(ShapeError, match="the window is larger than the padded input") as info:
        pool(ef.ones((1, 1, 3, 3)), (2, 4))
    assert "\n  got: " in str(info.value)
    assert "\n  expected: a window of at most 3" in str(info.value)
    assert "\n  hint: " in str(info.value)
    with pytest.raises(TensorValueError, match="padding of at most half"):
        pool(ef.ones((1, 1, 3)), 2, padding=2)
    for wrong in ({"stride": 0}, {"stride": (1, 1, 1)}):
        with pytest.raises(TensorValueError, check=says("stride")):
            pool(ef.ones((1, 1, 3, 3)), 2, **wrong)


def test_windows_that_see_padding_alone() -> None:
    with pytest.raises(ShapeError, match="some windows see padding alone"):
        ef.max_pool(ef.ones((1, 1, 1)), 2, padding=1, dilation=3, ceil_mode=True)


def test_nothing_to_share_out() -> None:
    for pool in (ef.adaptive_avg_pool, ef.adaptive_max_pool):
        with pytest.raises(ShapeError, match="no elements to distribute"):
            pool(ef.ones((1, 1, 0)), 2)
        with pytest.raises(TensorValueError, match="output_size"):
            pool(ef.ones((1, 1, 3)), 0)
    with pytest.raises(TensorValueError, match="the divisor is zero"):
        ef.avg_pool(ef.ones((1, 1, 3)), 2, divisor_override=0)
