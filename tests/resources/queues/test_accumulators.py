"""The table of accumulators: sums, step counts, and values that come too late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from tests.messages import says
from tests.resources.queues.modes import Call, Waiting, numbers, row


def rows_of(values: Any, indices: list[int], size: int = 4) -> ef.IndexedSlices:
    x = ef.tensor(values, dtype="float32")
    where = ef.tensor(indices, dtype="int64")
    return ef.IndexedSlices(x, where, (size, *x.shape[1:]))


@row("accumulator-mean")
def test_the_mean(call: Call) -> None:
    sums = ef.Accumulator({"w": ef.zeros(2), "b": ef.tensor(0.0)})
    for i in range(3):
        assert call(lambda i=i: sums.add({"w": [i, 2.0 * i], "b": 1}, 0))
    assert numbers(call(sums.size)) == 3
    means = call(lambda: sums.take(3))
    assert numbers(means["w"]) == [1.0, 2.0]
    assert numbers(means["b"]) == 1.0
    assert numbers(sums.size()) == 0
    assert repr(sums) == "Accumulator(f32[]@cpu:0, f32[2]@cpu:0, 0 at step 1)"


@row("accumulator-waits", "accumulator-more")
def test_take_waits_and_gives_all(call: Call) -> None:
    sums = ef.Accumulator(ef.tensor(0.0))
    first = Waiting(lambda: call(lambda: sums.take(2)), sums, 0)
    second = Waiting(lambda: call(lambda: sums.take(1)), sums, 0)
    sums.add(1.0, 0)
    assert first.waits
    assert second.waits  # the one before it comes first
    sums.add(3.0, 0)
    assert numbers(first.result()) == 2.0
    sums.add(8.0, 1)
    assert numbers(second.result()) == 8.0
    for x in (1.0, 2.0, 6.0):
        sums.add(x, 2)
    assert numbers(call(lambda: sums.take(1))) == 3.0


@row("accumulator-stale")
def test_what_is_stale_is_dropped(call: Call) -> None:
    sums = ef.Accumulator(ef.tensor(0.0))
    sums.add(1.0, 0)
    sums.take(1)
    assert not call(lambda: sums.add(100.0, 0))
    assert call(lambda: sums.add(1.0, 1))
    assert call(lambda: sums.add(3.0, 17))  # of a later step
    assert numbers(call(lambda: sums.take(2))) == 2.0


def test_dropped_values_are_shown() -> None:
    sums = ef.Accumulator(ef.tensor(0.0))
    sums.add(1.0, 0)
    sums.take(1)
    assert "0 at step 1)" in repr(sums)
    sums.add(100.0, 0)
    assert "0 at step 1, 1 of earlier steps dropped" in repr(sums)


@row("accumulator-step")
def test_the_step_can_be_set(call: Call) -> None:
    sums = ef.Accumulator(ef.tensor(0.0))
    sums.add(1.0, 0)
    call(lambda: sums.set_step(5))
    assert not call(lambda: sums.add(1.0, 4))
    assert call(lambda: sums.add(3.0, ef.tensor(5)))
    assert numbers(call(lambda: sums.take(2))) == 2.0  # values in the sum stay
    call(lambda: sums.set_step(0))
    assert call(lambda: sums.add(1.0, 0))


@row("accumulator-wrong")
def test_wrong_values_change_nothing(call: Call) -> None:
    sums = ef.Accumulator(ef.zeros(2))
    with pytest.raises(errors.ShapeError, match="add: another shape"):
        call(lambda: sums.add(ef.zeros(3), 0))
    with pytest.raises(errors.DTypeError, match="add: another dtype"):
        call(lambda: sums.add(ef.zeros(2, dtype="float64"), 0))
    with pytest.raises(errors.DTypeError, match="a dict is not an array"):
        call(lambda: sums.add({"x": ef.zeros(2)}, 0))
    with pytest.raises(errors.DTypeError, match="step"):
        call(lambda: sums.add(ef.zeros(2), 0.5))
    for count in (0, -1):
        with pytest.raises(errors.TensorValueError, check=says("take")):
            call(lambda count=count: sums.take(count))
    with pytest.raises(errors.DTypeError, match="floating or complex"):
        ef.Accumulator(ef.tensor(0))
    assert numbers(sums.size()) == 0


@row("accumulator-timeout")
def test_a_take_can_be_late(call: Call) -> None:
    sums = ef.Accumulator(ef.tensor(0.0))
    sums.add(1.0, 0)
    with pytest.raises(errors.WaitTimeoutError, match="take: it still waits"):
        call(lambda: sums.take(2, timeout=0.01))
    assert numbers(sums.take(1)) == 1.0


@row("accumulator-narrow")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_added_in_float32(call: Call, dtype: str) -> None:
    sums = ef.Accumulator(ef.zeros(1, dtype=dtype))
    for value in (2048.0, 1.0, 1.0, 1.0):  # in float16 2048 + 1 is 2048
        call(lambda value=value: sums.add([value], 0))
    mean = call(lambda: sums.take(4))
    assert str(mean.dtype) == dtype
    assert numbers(mean.astype("float32")) == numbers(
        ef.tensor([2051 / 4]).astype(dtype).astype("float32")
    )


@row("sparse-mean", "sparse-repeated")
def test_rows_are_averaged_one_by_one(call: Call) -> None:
    sums = ef.Accumulator(ef.zeros((4, 2)), sparse=True)
    call(lambda: sums.add(rows_of([[1, 1], [2, 2]], [3, 0]), 0))
    call(lambda: sums.add(rows_of([[5, 7], [1, 1]], [3, 3]), 0))
    mean = call(lambda: sums.take(2))
    assert type(mean) is ef.IndexedSlices
    assert numbers(mean.indices) == [0, 3]
    # row 0 is in one value, row 3 in two: (1 + (5 + 1)) / 2
    assert numbers(mean.values) == [[2.0, 2.0], [3.5, 4.5]]
    assert mean.shape == (4, 2)


@row("sparse-wrong")
def test_wrong_rows_change_nothing(call: Call) -> None:
    sums = ef.Accumulator(ef.zeros((4, 2)), sparse=True)
    with pytest.raises(errors.TensorIndexError, match="index 4 is out of range"):
        call(lambda: sums.add(rows_of([[1, 1]], [4]), 0))
    with pytest.raises(errors.ShapeError, match="another array"):
        call(lambda: sums.add(rows_of([[1, 1]], [1], size=5), 0))
    with pytest.raises(errors.ShapeError):
        call(lambda: sums.add(rows_of([[1, 1, 1]], [1]), 0))
    with pytest.raises(errors.DTypeError, match="takes rows"):
        call(lambda: sums.add(ef.zeros((4, 2)), 0))
    with pytest.raises(errors.ShapeError, match="no rows"):
        ef.Accumulator(ef.tensor(0.0), sparse=True)
    assert numbers(sums.size()) == 0


@row("sparse-mean")
def test_gradients_of_rows_in_a_training_step() -> None:
    """The sparse gradient of a gather, through the accumulator, into the variable."""
    table = ef.Variable(ef.ones((5, 2)))
    sums = ef.Accumulator({"table": table}, sparse=True)
    slope = ef.value_and_grad(lambda i: ef.sum(table[i] * 2.0), wrt={"table": table})

    @ef.trace
    def step(i: Any, j: Any) -> None:
        for indices in (i, j):
            sums.add(slope(indices)[1], 0)
        table.assign_sub(sums.take(2)["table"])

    step(ef.tensor([0, 1]), ef.tensor([1, 4]))
    assert numbers(table.value) == [[-1, -1], [-1, -1], [1, 1], [1, 1], [-1, -1]]


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9))), min_size=1, max_size=5))
def test_sparse_sums_against_a_loop(values: list[list[tuple[int, int]]]) -> None:
    sums = ef.Accumulator("f64[5]", sparse=True)
    total, count = np.zeros(5), np.zeros(5)
    for value in values:
        x = ef.tensor([v for _, v in value], dtype="float64")
        i = ef.tensor([i for i, _ in value], dtype="int64")
        sums.add(ef.IndexedSlices(x, i, (5,)), 0)
        for place, amount in value:
            total[place] += amount
        for place in {place for place, _ in value}:
            count[place] += 1
    mean = sums.take(len(values))
    assert numbers(mean.indices) == np.flatnonzero(count).tolist()
    assert numbers(mean.values) == (total[count > 0] / count[count > 0]).tolist()
