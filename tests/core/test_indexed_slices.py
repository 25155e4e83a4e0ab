"""`IndexedSlices`: rows that stand for an array."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError


@pytest.fixture
def rows():
    return ef.IndexedSlices([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [2, 0, 2], (4, 2))


WHOLE = np.array([[3, 4], [0, 0], [6, 8], [0, 0]], np.float32)


def test_what_it_stands_for(rows) -> None:
    np.testing.assert_array_equal(rows.to_dense().numpy(), WHOLE)
    np.testing.assert_array_equal(rows.numpy(), WHOLE)
    np.testing.assert_array_equal(np.asarray(rows), WHOLE)
    np.testing.assert_array_equal(ef.asarray(rows).numpy(), WHOLE)
    np.testing.assert_allclose(ef.exp(rows).numpy(), np.exp(WHOLE), rtol=3e-7)
    assert (str(rows.type), rows.ndim, rows.shape) == ("f32[4,2]@cpu:0", 2, (4, 2))
    assert repr(rows) == (
        "IndexedSlices(values=f32[3,2]@cpu:0, indices=i64[3]@cpu:0, shape=(4, 2))"
    )


@pytest.mark.parametrize(
    "linear",
    [
        lambda s: s * 2,
        lambda s: 2.5 * s,
        lambda s: s / 4,
        lambda s: -s,
        lambda s: s * ef.tensor([10.0, 20.0]),
        lambda s: ef.tensor(3.0) * s,
        lambda s: s / ef.tensor([[1.0], [2.0], [3.0], [4.0]]),
        lambda s: s * ef.tensor([[5.0, 6.0]]),
        lambda s: ef.tensor(np.arange(8, dtype="f4").reshape(4, 2)) * s,
        lambda s: s.astype(ef.float64),
    ],
)
def test_linear_arithmetic_gives_rows(rows, linear) -> None:
    result = linear(rows)
    assert isinstance(result, ef.IndexedSlices)
    np.testing.assert_allclose(result.numpy(), np.asarray(linear(ef.tensor(WHOLE))), rtol=1e-6)


def test_sums(rows) -> None:
    other = ef.IndexedSlices([[1.0, 1.0]], [3], (4, 2))
    for total, want in (
        (rows + other, WHOLE + other.numpy()),
        (rows - other, WHOLE - other.numpy()),
        (rows - rows * 2, -WHOLE),
    ):
        assert isinstance(total, ef.IndexedSlices)
        np.testing.assert_array_equal(total.numpy(), want)
    dense = ef.ones((4, 2))
    for total, want in (
        (rows + dense, WHOLE + 1),
        (dense + rows, WHOLE + 1),
        (rows - dense, WHOLE - 1),
        (rows - dense.tolist(), WHOLE - 1),
        (dense - rows, 1 - WHOLE),
        (rows + 1.0, WHOLE + 1),
    ):
        assert isinstance(total, ef.Tensor)
        np.testing.assert_array_equal(total.numpy(), want)


def test_coalesce(rows) -> None:
    once = rows.coalesce()
    np.testing.assert_array_equal(once.indices.numpy(), [0, 2])
    np.testing.assert_array_equal(once.values.numpy(), [[3, 4], [6, 8]])
    np.testing.assert_array_equal(once.numpy(), WHOLE)


def test_no_rows() -> None:
    none = ef.IndexedSlices(ef.zeros((0, 2)), ef.zeros(0, dtype=ef.int64), (4, 2))
    np.testing.assert_array_equal((none * 2 + none).coalesce().numpy(), np.zeros((4, 2)))


def test_what_does_not_fit(rows) -> None:
    with pytest.raises(ShapeError, match="do not fit together"):
        ef.IndexedSlices([[1.0]], [0, 1], (4, 1))
    with pytest.raises(ShapeError, match="do not fit together"):
        ef.IndexedSlices([[1.0]], [0], (4, 2))
    with pytest.raises(ShapeError, match="do not fit together"):
        ef.IndexedSlices(1.0, 0, ())
    with pytest.raises(DTypeError, match="the indices must be integers"):
        ef.IndexedSlices([[1.0]], [0.5], (4, 1))
    with pytest.raises(ShapeError, match="are of different arrays"):
        rows + ef.IndexedSlices([[1.0, 1.0]], [0], (5, 2))
    with pytest.raises(ShapeError, match="more axes than the array"):
        rows * ef.ones((1, 4, 2))


def test_gradients_flow_through_it() -> None:
    def f(x):
        rows = ef.IndexedSlices(x * x, ef.tensor([1, 1]), (3, 2))
        return ((rows * 3).to_dense() ** 2).sum()

    ef.check_grads(f, (ef.tensor([[1.0, 2.0], [3.0, 4.0]]),))


def test_parts_are_those_of_the_whole_array() -> None:
    s = ef.IndexedSlices(ef.tensor([[1.0], [2.0], [4.0]]), ef.tensor([2, 0, 2]), (3, 1))
    whole = s.to_dense().tolist()
    assert s[2].tolist() == whole[2] == [5.0]
    assert s[1:].tolist() == whole[1:]
    assert [row.tolist() for row in s] == whole
