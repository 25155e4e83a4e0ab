"""Gathering, scattering and selecting, beyond the table of cases."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.tensor import Tensor
from tests.messages import says

_INDEX = errors.TensorIndexError

# --- sparse gradients -----------------------------------------------------------------------


def _table_gradient(read):
    table = ef.Variable(np.arange(8.0).reshape(4, 2))
    with ef.GradientTape() as tape:
        loss = read(table).sum()
    return tape.gradient(loss, table)


@pytest.mark.parametrize(
    "read",
    [
        lambda table: ef.take(table, ef.tensor([3, -1, 0]), axis=0),
        lambda table: table[ef.tensor([3, -1, 0])],
        lambda table: ef.take(table, ef.tensor([[3], [-1], [0]]), axis=0),
    ],
    ids=["take", "getitem", "axes"],
)
def test_gradient_of_rows_of_a_variable_is_sparse(read) -> None:
    g = _table_gradient(read)
    assert isinstance(g, ef.IndexedSlices)
    assert g.indices.tolist() == [3, 3, 0]
    assert (g.values.shape, g.shape) == ((3, 2), (4, 2))
    assert g.numpy().tolist() == [[1, 1], [0, 0], [0, 0], [2, 2]]


@pytest.mark.parametrize(
    "read",
    [
        lambda table: ef.take(table * 1.0, ef.tensor([3, -1, 0]), axis=0),
        lambda table: ef.take(table, ef.tensor([1, 1]), axis=1),
    ],
    ids=["of a product", "columns"],
)
def test_other_gradients_are_dense(read) -> None:
    assert isinstance(_table_gradient(read), Tensor)


# --- single functions -----------------------------------------------------------------------


def test_take_refuses() -> None:
    x = ef.zeros((2, 3))
    for act, error, words in [
        (lambda: ef.take(x, ef.tensor([0])), errors.AxisError, "axis is missing"),
        (lambda: ef.take(x, ef.tensor([0.0]), axis=0), errors.DTypeError, "must be integers"),
        (lambda: ef.take(x, [0], axis=2), errors.AxisError, "axis 2 is out of range"),
        (lambda: ef.take(x, [2], axis=0), _INDEX, "index 2 is out of range for axis 0 with size 2"),
        (lambda: ef.take_along_axis(x, ef.tensor([0])), errors.ShapeError, "numbers of axes"),
        (lambda: ef.take_along_axis(x, ef.tensor([[3], [0]])), _INDEX, "out of range"),
        (lambda: ef.update_along_axis(x, ef.tensor([0]), 1), errors.ShapeError, "numbers of axes"),
        (lambda: ef.nonzero(ef.tensor(1)), errors.ShapeError, "no axes"),
        (lambda: ef.scatter_add(x, ef.tensor([True, False]), 1), errors.DTypeError, "integers"),
        (lambda: ef.select([x > 0], [x, x]), errors.ShapeError, "1 conditions for 2 choices"),
    ]:
        with pytest.raises(error, check=says(words)):
            act()


def test_take_without_an_axis_takes_from_the_only_one() -> None:
    assert ef.take(ef.tensor([1.0, 2.0]), [1, 1, 0]).tolist() == [2.0, 2.0, 1.0]
    assert ef.tensor([[1, 2], [3, 4]]).take([3, 0]).tolist() == [4, 1]


def test_where_promotes_as_the_standard_says() -> None:
    condition = ef.tensor([True, False])
    assert ef.where(condition, ef.asarray([1, 2], dtype=ef.int8), 3).dtype is ef.int8
    assert ef.where(condition, ef.asarray([1, 2], dtype=ef.int8), 3.5).dtype is ef.float32
    assert ef.where(condition, 1, 2).tolist() == [1, 2]
    assert ef.where(condition, 1.0, 2).dtype is ef.float32
    assert ef.where(ef.tensor([np.nan, 0.0]), 1, 2).tolist() == [1, 2]
    assert ef.where(condition, np.array([1.0, 2.0]), 0).dtype is ef.float64


def test_where_keeps_nan_out_of_the_gradient() -> None:
    def f(x):
        return ef.where(x > 0, ef.sqrt(ef.where(x > 0, x, 1.0)), 0.0).sum()

    assert ef.grad(f)(ef.tensor([4.0, -1.0])).tolist() == [0.25, 0.0]


def test_host_data_goes_to_the_device_of_the_tensor() -> None:
    with ef.config(cpu_devices=2):
        x = ef.arange(4, device="cpu:1")
        mask = [True, False, True, True]
        calls = [
            lambda: ef.where(True, x, 0.0),
            lambda: ef.where(mask, x, 0.0),
            lambda: ef.where(np.array(mask), 0, x),
            lambda: ef.where(x > 1, np.zeros(4), 1.0),
            lambda: ef.where(x > 1, 1, 0),
            lambda: ef.select([mask], [x]),
            lambda: ef.select([x > 1], [[1, 2, 3, 4]], 0),
            lambda: ef.compress(mask, x),
            lambda: ef.compress(x > 1, mask),
            lambda: ef.extract(mask, x),
            lambda: ef.repeat(x, [1, 0, 2, 1]),
            lambda: ef.repeat([5, 6, 7, 8], x),
            lambda: ef.quantile(x, 0.5),
            lambda: ef.quantile(x, [0.0, 1.0]),
            lambda: ef.quantile([1.0, 2.0], ef.ones((), device="cpu:1")),
            lambda: ef.median(x),
            lambda: ef.dynamic_partition(x, [0, 1, 0, 1], 2)[1],
            lambda: ef.dynamic_stitch([[0, 1, 2, 3]], [x]),
            lambda: ef.segment_sum(x, [0, 1, 0, 1]),
            lambda: ef.segment_sum(mask, x),
            lambda: ef.segment_mean([1.0, 2.0, 3.0, 4.0], x),
            lambda: ef.bincount([0, 1, 0, 1], x),
            lambda: ef.bincount(x, [1.0] * 4),
            lambda: ef.histogram(x, [0.0, 2.0, 4.0]).hist,
            lambda: ef.histogram(x, 2, (0.0, 4.0)).bin_edges,
            lambda: ef.histogram([1.0] * 4, 2, weights=x).hist,
            lambda: ef.interp(x, [0.0, 1.0], [1.0, 2.0]),
            lambda: ef.interp([0.0, 1.0], [0.0, 1.0, 2.0, 3.0], x),
            lambda: ef.take(x, [0, 1]),
            lambda: ef.scatter_add(x, [0], np.array([1])),
        ]
        for i, call in enumerate(calls):
            assert call().device == "cpu:1", i
        assert ef.where(mask, x, 9).tolist() == [0, 9, 2, 3]
        assert ef.repeat(x, [1, 0, 2, 1]).tolist() == [0, 2, 2, 3]


def test_a_tensor_is_never_moved() -> None:
    with ef.config(cpu_devices=2):
        here, there = ef.ones(4), ef.ones(4, device="cpu:1")
        for call in (
            lambda: ef.where(here > 0, there, 0.0),
            lambda: ef.where(True, there, here),
            lambda: ef.segment_sum(here, ef.arange(4, device="cpu:1")),
            lambda: ef.quantile(here, there),
        ):
            with pytest.raises(ef.errors.DeviceError):
                call()


def test_one_hot_of_a_large_uint64_is_zero() -> None:
    hot = ef.one_hot(ef.tensor([2**64 - 1, 1], dtype="uint64"), 3)
    assert hot.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
