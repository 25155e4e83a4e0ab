"""Embedding tables: sparse gradients, padding, and indices that are out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.nn import functional as F

ROWS = np.array([[0, 5], [2, 2]])


@pytest.mark.parametrize("traced", [False, True])
def test_gradient_of_a_variable_stays_sparse(traced: bool) -> None:
    table = ef.Variable(ef.ones((1000, 3)))

    def step(rows: Any) -> Any:
        return ef.grad(lambda: (F.embedding(rows, table) * 2).sum(), wrt=table)()

    gradient = (ef.trace(step) if traced else step)(ef.tensor(ROWS))
    assert isinstance(gradient, ef.IndexedSlices)
    assert gradient.values.shape == (4, 3)
    np.testing.assert_array_equal(gradient.indices.numpy(), [0, 5, 2, 2])
    np.testing.assert_array_equal(gradient.values.numpy(), np.full((4, 3), 2.0))


@pytest.mark.parametrize("padding", [2, -4])
def test_row_of_padding_is_constant(padding: int) -> None:
    table = ef.Variable(ef.ones((6, 3)))
    gradient = ef.grad(
        lambda: F.embedding(ef.tensor(ROWS), table, padding_idx=padding).sum(), wrt=table
    )()
    assert isinstance(gradient, ef.IndexedSlices)
    want = np.zeros((6, 3))
    want[[0, 5]] = 1
    np.testing.assert_array_equal(gradient.to_dense().numpy(), want)


@pytest.mark.parametrize("wrong", [6, -1])
@pytest.mark.parametrize("traced", [False, True])
def test_index_out_of_range(wrong: int, traced: bool) -> None:
    table = ef.Variable(ef.ones((6, 3)))

    def step(rows: Any) -> Any:
        return F.embedding(rows, table)

    with pytest.raises(TensorIndexError, match=f"index {wrong} is out of range for 6 rows"):
        (ef.trace(step) if traced else step)(ef.tensor([0, wrong]))


def test_error_of_a_wrong_index_speaks_of_the_arguments() -> None:
    with pytest.raises(TensorIndexError) as error:
        F.embedding(ef.tensor([0, 6]), ef.ones((6, 3)))
    lines = str(error.value).splitlines()
    assert lines[0] == "embedding: index 6 is out of range for 6 rows"
    assert lines[1].startswith("  got: input=i64[2]")
    assert lines[2] == "  expected: 0 to 5"


def test_arguments_are_checked() -> None:
    with pytest.raises(DTypeError, match="embedding: the indices must be integers"):
        F.embedding(ef.tensor([0.0]), ef.ones((6, 3)))
    with pytest.raises(ShapeError, match="embedding: the table has not two axes"):
        F.embedding(ef.tensor([0]), ef.ones(6))
    with pytest.raises(TensorIndexError, match="label 3 is out of range for 3 classes"):
        F.one_hot(ef.tensor([0, 3]), 3)
    with pytest.raises(ShapeError, match="pad: the widths do not fit"):
        F.pad(ef.ones((2, 2)), (1, 2, 3))
    with pytest.raises(TensorValueError, match="pad: 'edge' is not a mode"):
        F.pad(ef.ones((2, 2)), (1, 2), mode="edge")
