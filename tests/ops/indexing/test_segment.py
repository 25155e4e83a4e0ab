"""Segments, beyond the table of cases."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says


@pytest.mark.parametrize("reduce", ["segment_max", "segment_min"])
def test_elements_of_a_segment_that_tie_share_the_gradient(reduce) -> None:
    function = getattr(ef, reduce)
    g = ef.grad(lambda t: function(t, ef.tensor([0, 0, 1]), 3)[:2].sum())
    assert g(ef.tensor([4.0, 4.0, 5.0])).tolist() == [0.5, 0.5, 1.0]


def test_segments_take_bools_and_find_their_number() -> None:
    assert ef.segment_sum(ef.tensor([True, True, False]), [0, 0, 2]).tolist() == [2, 0, 0]
    assert ef.segment_sum(ef.zeros((0, 2)), []).shape == (0, 2)
    assert ef.segment_max(ef.tensor([1, 2], dtype=ef.int8), [0, 2]).tolist() == [1, -128, 2]


def test_sparse_gradients_become_dense_by_segments() -> None:
    slices = ef.IndexedSlices(ef.tensor([[1.0], [2.0], [4.0]]), ef.tensor([1, 0, 1]), (3, 1))
    assert slices.numpy().tolist() == [[2.0], [5.0], [0.0]]


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (
            lambda x: ef.segment_sum(x, [0, 1]),
            errors.ShapeError,
            "does not begin with that of the ids",
        ),
        (lambda x: ef.segment_sum(x, [0.0, 1, 2]), errors.DTypeError, "must be integers"),
        (lambda x: ef.segment_sum(x, [0, 1, 2], 2), errors.TensorIndexError, "id 2 is out of"),
        (lambda x: ef.segment_max(x, [0, -1, 2], 3), errors.TensorIndexError, "id -1 is out of"),
        (lambda x: ef.segment_sum(x, [0, 1, 2], -1), errors.ShapeError, "negative"),
        (lambda x: ef.bincount(ef.tensor([1, -1])), errors.TensorValueError, "negative"),
        (lambda x: ef.bincount(ef.tensor([[1]])), errors.ShapeError, "one axis"),
        (lambda x: ef.bincount(x), errors.DTypeError, "integers"),
    ],
)
def test_wrong_arguments_are_explained(act, error, words) -> None:
    with pytest.raises(error, check=says(words)):
        act(ef.tensor([1.0, 2.0, 3.0]))


def test_many_ids_out_of_range_are_found() -> None:
    values = ef.zeros((1000, 100))
    ids = np.zeros(1000, int)
    ids[7] = 50
    with pytest.raises(errors.TensorIndexError, match="id 50 is out of range for 50 segments"):
        ef.segment_sum(values, ids, 50)
