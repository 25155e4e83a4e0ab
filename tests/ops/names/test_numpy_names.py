"""NumPy's names: what the table of cases does not show."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

NAN = float("nan")


def test_synonyms_are_the_functions() -> None:
    assert ef.array is ef.tensor
    assert ef.around is ef.round
    assert ef.invert is ef.bitwise_invert


def test_gradients_pass_by_nan() -> None:
    x = ef.tensor([1.0, NAN, 3.0])
    assert ef.grad(ef.nanvar)(x).tolist() == [-1.0, 0.0, 1.0]
    assert ef.grad(ef.nanstd)(x).tolist() == [-0.5, 0.0, 0.5]
    assert ef.grad(ef.nanstd)(ef.tensor([2.0, NAN, 2.0])).tolist() == [0.0, 0.0, 0.0]


def test_variance_of_too_few_is_nan() -> None:
    x = ef.tensor([[NAN, NAN], [1.0, NAN], [1.0, 2.0]])
    got = ef.nanvar(x, 1, correction=1)
    np.testing.assert_array_equal(got.numpy(), [NAN, NAN, 0.5])


def test_ends_of_a_geometric_range_are_exact() -> None:
    got = ef.geomspace(3.3, 777.7, 50, dtype="float64")
    assert (got[0].item(), got[-1].item()) == (3.3, 777.7)
    assert ef.geomspace(1, 1000, 4, dtype="int64").tolist() == [1, 10, 100, 1000]
    assert ef.geomspace(2, 8, 1).tolist() == [2.0]


@pytest.mark.parametrize("asked", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1)])
def test_unique_gives_what_is_asked_for(asked) -> None:
    x = np.array([[3, 1], [3, 2]])
    got, want = ef.unique(ef.asarray(x), *map(bool, asked)), np.unique(x, *map(bool, asked))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda x: ef.geomspace(0, 1), errors.TensorValueError, "not 0, and of one sign"),
        (lambda x: ef.geomspace(-1, 1), errors.TensorValueError, "of one sign"),
        (lambda x: ef.percentile(x, 101), errors.TensorValueError, "percentile: q is out of"),
        (lambda x: ef.cov(x[None, None]), errors.ShapeError, "a matrix or a vector"),
        (lambda x: ef.dstack([]), errors.ShapeError, "at least one array"),
        (lambda x: ef.transpose(x, (1,)), errors.AxisError, "axis 1 is out of range"),
    ],
)
def test_wrong_arguments_are_explained(act, error, words) -> None:
    with pytest.raises(error, check=says(words)):
        act(ef.tensor([1.0, 2.0]))
