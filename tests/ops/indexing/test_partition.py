"""Partitions, beyond the table of cases."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says


def test_stitching_undoes_partitioning() -> None:
    rng = np.random.default_rng(0)
    x = ef.asarray(rng.standard_normal((20, 3)))
    shards = ef.asarray(rng.integers(0, 4, 20))
    rows = ef.dynamic_partition(x, shards, 4)
    places = ef.dynamic_partition(ef.arange(20), shards, 4)
    assert [r.shape[0] for r in rows] == ef.bincount(shards, minlength=4).tolist()
    np.testing.assert_array_equal(ef.dynamic_stitch(places, rows).numpy(), x.numpy())


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda x: ef.dynamic_partition(x, ef.tensor([0.0, 1.0]), 2), errors.DTypeError, "int"),
        (lambda x: ef.dynamic_partition(x, ef.tensor([0]), 2), errors.ShapeError, "each row"),
        (lambda x: ef.dynamic_stitch([], []), errors.ShapeError, "0 indices for 0"),
        (lambda x: ef.dynamic_stitch([[0, 1]], [x, x]), errors.ShapeError, "1 indices for 2"),
        (lambda x: ef.dynamic_stitch([[0, 3]], [x], size=3), errors.TensorIndexError, "index 3"),
    ],
)
def test_wrong_arguments_are_explained(act, error, words) -> None:
    with pytest.raises(error, check=says(words)):
        act(ef.tensor([1.0, 2.0]))
