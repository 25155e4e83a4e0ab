"""Dropout: what is drawn, that the gradient drops the same, and that traces draw anew."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.nn import functional as F  # noqa: N812 - its usual name
from tests.ops import philox

SEED = 5
#: the function, and how many of the last axes share a draw
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


def test_nothing_is_drawn_where_nothing_drops() -> None:
    generator = ef.random.Generator(SEED)
    for options in ({"training": False}, {"p": 0.0}, {"p": 1.0}):
        F.dropout(ef.ones(3), generator=generator, **options)
    assert generator.state["ticket"] == 0


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
