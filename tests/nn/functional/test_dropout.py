"""Dropout: distribution of draws, equal masks in the gradient, new draws in each run of a trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.nn import functional as F
from tests.ops.random import philox

SEED = 5
#: the function, and the number of last axes that share a draw
FUNCTIONS = {"dropout": 0, "dropout1d": 1, "dropout2d": 2, "dropout3d": 3}


def _x(axes: int) -> Any:
    shape = (3, 4, 2, 3, 2)[: axes + 2]
    return np.arange(1.0, math.prod(shape) + 1).reshape(shape).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("traced", [False, True])
def test_drops_by_the_numbers_of_its_draw(name: str, p: float, traced: bool) -> None:
    axes = FUNCTIONS[name]
    x = _x(axes)
    shape = (*x.shape[: x.ndim - axes], *(1,) * axes)
    drawn = np.reshape(philox.uniforms(SEED, 0, math.prod(shape), 32), shape)
    want = np.where(drawn < np.float32(1 - p), x / (1 - p), 0)
    generator = ef.random.Generator(SEED)

    def step(x: Any) -> Any:
        return getattr(F, name)(x, p=p, generator=generator)

    got = (ef.trace(step) if traced else step)(ef.tensor(x))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("traced", [False, True])
def test_gradient_has_the_same_zeros(traced: bool) -> None:
    generator = ef.random.Generator(SEED)

    def step(x: Any) -> Any:
        out, pull = ef.vjp(lambda x: F.dropout(x, 0.4, generator=generator), x)
        return out, pull(ef.ones_like(out))[0]

    f = ef.trace(step) if traced else step
    out, gradient = f(ef.ones(1000))
    np.testing.assert_array_equal(out.numpy(), gradient.numpy())
    assert set(np.unique(out.numpy())) == {np.float32(0), np.float32(1 / 0.6)}
    again = f(ef.ones(1000))[0]
    assert (again.numpy() != out.numpy()).any()


def test_the_default_generator_draws() -> None:
    ef.random.seed(3)
    first = F.dropout(ef.ones(100)).numpy()
    ef.random.seed(3)
    np.testing.assert_array_equal(F.dropout(ef.ones(100)).numpy(), first)


def test_nothing_is_drawn_without_training() -> None:
    generator = ef.random.Generator(SEED)
    F.dropout(ef.ones(3), training=False, generator=generator)
    assert generator.state["ticket"] == 0


@pytest.mark.parametrize("first", [0.3, 0.0, 1.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_trace_is_for_many_probabilities(name: str, first: float) -> None:
    """The numbers drawn are those of eager mode, whatever the probabilities before."""
    x = ef.tensor(_x(FUNCTIONS[name]) - 9)
    schedule = [first, 0.1, 0.0, 0.5, 1.0, 0.9, 0.7]
    outputs = []
    for wrap in (lambda f: f, ef.trace):
        generator = ef.random.Generator(SEED)

        def step(x: Any, p: float, generator: Any = generator) -> Any:
            out, pull = ef.vjp(lambda x: getattr(F, name)(x, p, generator=generator), x)
            return out, pull(x)[0]

        step = wrap(step)
        outputs.append([[y.numpy() for y in step(x, p)] for p in schedule])
    np.testing.assert_array_equal(*outputs)
    assert len(step.traces) == (1 if first == 0.3 else 2)


def test_a_module_may_change_its_probability() -> None:
    layer = ef.nn.Dropout(0.5)
    step = ef.trace(lambda x: layer(x))
    for p in (0.5, 0.2, 0.8):
        layer.p = p
        values = set(np.unique(step(ef.ones(1000)).numpy()))
        assert values == {np.float32(0), np.float32(1 / (1 - p))}
    assert len(step.traces) == 1


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_probability_is_checked_in_each_run(p: float) -> None:
    step = ef.trace(lambda x, p: F.dropout(x, p))
    step(ef.ones(3), 0.5)
    with pytest.raises(TensorValueError, match="p is not a probability"):
        step(ef.ones(3), p)
    with pytest.raises(TensorValueError, match="dropout: the probability is out of range"):
        ef.trace(lambda x, p: F.dropout(x, p))(ef.ones(3), p)


def test_mean_stays() -> None:
    x = F.dropout(ef.ones(100_000), 0.3, generator=ef.random.Generator(1)).numpy()
    # seven standard deviations of the mean
    assert abs(x.mean() - 1) < 7 * math.sqrt(0.3 / 0.7 / x.size)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
@pytest.mark.parametrize("training", [False, True])
def test_probability_is_checked(name: str, p: float, training: bool) -> None:
    with pytest.raises(TensorValueError, match=f"{name}: the probability is out of range"):
        getattr(F, name)(ef.tensor(_x(FUNCTIONS[name])), p, training)


def test_channels_need_their_axes() -> None:
    with pytest.raises(ShapeError, match="dropout2d: expected 3 or 4 axes"):
        F.dropout2d(ef.ones((3, 4)))
