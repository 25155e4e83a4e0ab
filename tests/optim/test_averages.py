"""Exponential moving averages of variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import CheckpointError, TensorValueError


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_against_the_formula(wrap: Any) -> None:
    values = np.random.default_rng(0).normal(size=(6, 3))
    v = ef.Variable(values[0], dtype=ef.float64)
    average = ef.optim.ExponentialMovingAverage([v], decay=0.9)

    @wrap
    def step(x: Any) -> None:
        v.assign(x)
        average.update()

    want = values[0]
    for x in values[1:]:
        step(ef.tensor(x))
        want = 0.9 * want + 0.1 * x
    np.testing.assert_allclose(average.state["0"].numpy(), want, rtol=1e-14)


def test_small_changes_of_16_bits_are_not_lost() -> None:
    v = ef.Variable(ef.ones(1, dtype=ef.bfloat16))
    average = ef.optim.ExponentialMovingAverage([v], decay=0.999)
    v.assign(ef.zeros(1, dtype=ef.bfloat16))
    average.update()
    assert average.state["0"].dtype is ef.float32
    assert average.state["0"].numpy() == pytest.approx([0.999])
    with average.applied():
        assert v.dtype is ef.bfloat16


def test_values_come_back_after_an_error() -> None:
    v = ef.Variable([1.0])
    average = ef.optim.ExponentialMovingAverage([v], decay=0.5)
    v.assign([3.0])
    average.update()

    def evaluate() -> None:
        with average.applied():
            assert v.numpy() == [2.0]
            raise KeyError

    with pytest.raises(KeyError):
        evaluate()
    assert v.numpy() == [3.0]


def test_refused() -> None:
    v = ef.Variable([1.0])
    with pytest.raises(TensorValueError, match="ExponentialMovingAverage: decay"):
        ef.optim.ExponentialMovingAverage([v], decay=1.0)
    with pytest.raises(TensorValueError, match="is not a variable"):
        ef.optim.ExponentialMovingAverage([1.0])  # type: ignore[list-item] - refused
    with pytest.raises(CheckpointError):
        ef.optim.ExponentialMovingAverage([v]).load_state({"0": ef.zeros(2)})
