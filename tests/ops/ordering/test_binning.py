"""Bins and interpolation, beyond the table of cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

NAN = float("nan")
_numbers = st.floats(-100, 100)


@given(st.lists(_numbers, max_size=30), st.integers(1, 12))
def test_every_value_is_in_one_bin(values, bins) -> None:
    x = ef.asarray(np.array(values, dtype=float))
    hist, edges = ef.histogram(x, bins)
    assert edges.shape == (bins + 1,)
    assert hist.tolist() == np.histogram(x.numpy(), edges.numpy())[0].tolist()
    assert sum(hist.tolist()) == len(values)


def test_bins_of_a_constant_have_width() -> None:
    hist, edges = ef.histogram(ef.tensor([3.0, 3.0]), 2)
    assert (hist.tolist(), edges.tolist()) == ([0, 2], [2.5, 3.0, 3.5])
    assert ef.histogram(ef.zeros(0), 2).bin_edges.tolist() == [0.0, 0.5, 1.0]


def test_values_that_are_not_finite_are_left_out_of_given_bins() -> None:
    x = ef.tensor([0.5, NAN, float("inf"), 1.5])
    assert ef.histogram(x, 2, (0.0, 2.0)).hist.tolist() == [1, 1]
    assert ef.histogram(x, [0.0, 1.0, 2.0]).hist.tolist() == [1, 1]


def test_gradients_of_interpolation() -> None:
    xp, fp = ef.tensor([0.0, 1.0, 3.0]), ef.tensor([0.0, 10.0, 14.0])
    slopes = ef.grad(lambda x: ef.interp(x, xp, fp).sum())(ef.tensor([0.5, 2.0, 9.0, -1.0]))
    assert slopes.tolist() == [10.0, 2.0, 0.0, 0.0]
    shares = ef.grad(lambda f: ef.interp(ef.tensor([0.25, 9.0]), xp, f).sum())(fp)
    assert shares.tolist() == [0.75, 0.25, 1.0]


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda x: ef.histogram(x, 0), errors.TensorValueError, "at least one bin"),
        (lambda x: ef.histogram(x, 1.5), errors.DTypeError, "bins must be an integer"),
        (lambda x: ef.histogram(x, [1.0]), errors.ShapeError, "at least two edges"),
        (lambda x: ef.histogram([1.0, 1e999]), errors.TensorValueError, "the range is inf wide"),
        (lambda x: ef.histogram(x * NAN), errors.TensorValueError, "the range is nan wide"),
        (lambda x: ef.histogram(x, range=(0, 1 / NAN)), errors.TensorValueError, "nan wide"),
        (lambda x: ef.histogram(x, range=(2, 1)), errors.TensorValueError, "-1.0 wide"),
        (lambda x: ef.interp(x, x, x[1:]), errors.ShapeError, "one axis of one size"),
        (lambda x: ef.interp(x, x[:0], x[:0]), errors.ShapeError, "one axis of one size"),
    ],
)
def test_wrong_arguments_are_explained(act, error, words) -> None:
    with pytest.raises(error, check=says(words)):
        act(ef.tensor([1.0, 2.0]))
