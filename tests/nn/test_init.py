"""Initial values: moments and bounds from the papers, on fixed seeds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.nn import init

SHAPE = (200, 20, 3, 3)
FAN_IN, FAN_OUT = 180, 1800

VARIANCES: list[tuple[str, Callable[..., ef.Tensor], dict[str, Any], float]] = [
    ("glorot_uniform", init.glorot_uniform, {}, 2 / (FAN_IN + FAN_OUT)),
    ("glorot_normal", init.glorot_normal, {"gain": 3.0}, 18 / (FAN_IN + FAN_OUT)),
    ("he_uniform", init.he_uniform, {}, 2 / FAN_IN),
    ("he_normal", init.he_normal, {"mode": "fan_out"}, 2 / FAN_OUT),
    ("he_normal leaky", init.he_normal, {"negative_slope": 0.5}, 2 / 1.25 / FAN_IN),
    ("lecun_uniform", init.lecun_uniform, {}, 1 / FAN_IN),
    ("lecun_normal", init.lecun_normal, {}, 1 / FAN_IN),
    ("uniform", init.uniform, {"low": -3.0, "high": 3.0}, 3.0),
    ("normal", init.normal, {"scale": 0.1}, 0.01),
]


@pytest.mark.parametrize("row", VARIANCES, ids=lambda row: row[0])
def test_mean_and_variance(row: Any) -> None:
    _, make, settings, variance = row
    x = make(SHAPE, generator=ef.random.Generator(0), dtype=ef.float64, **settings).numpy()
    assert x.shape == SHAPE
    assert x.dtype == np.float64
    # five standard errors; the standard error of a variance is at most that of normal numbers
    assert abs(x.mean()) < 5 * math.sqrt(variance / x.size)
    assert abs(x.var() / variance - 1) < 5 * math.sqrt(2 / x.size)


def test_uniform_ones_reach_their_bounds_and_no_further() -> None:
    x = init.he_uniform(SHAPE, generator=ef.random.Generator(0)).numpy()
    bound = math.sqrt(6 / FAN_IN)
    assert 0.99 * bound < abs(x).max() <= bound


def test_truncated_normal_is_cut() -> None:
    x = init.truncated_normal((10_000,), 1.0, 0.5, generator=ef.random.Generator(0)).numpy()
    assert 0.99 < abs(x - 1.0).max() <= 1.0
    assert abs(x.std() / 0.5 - 0.8796) < 0.02


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3, 3), (20, 2, 3), (1, 1)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    x = init.orthogonal(shape, 2.0, generator=ef.random.Generator(0), dtype=ef.float64).numpy()
    assert x.shape == shape
    flat = x.reshape(shape[0], -1)
    product = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_orthogonal_ones_are_uniformly_distributed() -> None:
    """Each element of a random rotation has mean 0 and variance 1/n; factors of QR alone do not."""
    generator = ef.random.Generator(0)
    many = np.stack([init.orthogonal((3, 3), generator=generator).numpy() for _ in range(600)])
    assert abs(many.mean(axis=0)).max() < 5 * math.sqrt(1 / 3 / 600)
    assert abs((many**2).mean(axis=0) - 1 / 3).max() < 0.06


def test_the_same_generator_gives_the_same_values() -> None:
    one = init.he_normal((4, 3), generator=ef.random.Generator(5)).numpy()
    other = init.he_normal((4, 3), generator=ef.random.Generator(5)).numpy()
    assert (one == other).all()


def test_constants() -> None:
    assert init.zeros((2,), dtype=ef.float64).numpy().tolist() == [0.0, 0.0]
    assert init.ones((2,)).numpy().tolist() == [1.0, 1.0]
    assert init.constant((2,), 3).numpy().tolist() == [3.0, 3.0]
    assert init.constant((2,), 3).dtype is ef.float32


def test_names_of_other_libraries() -> None:
    assert init.xavier_uniform is init.glorot_uniform
    assert init.kaiming_normal is init.he_normal


@pytest.mark.parametrize(("shape", "expected"), [((7, 5), (5, 7)), ((8, 2, 5), (10, 40))])
def test_fans(shape: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert init.fans(shape) == expected


def test_what_has_no_fans() -> None:
    with pytest.raises(
        ShapeError, match=r"no inputs and outputs(.|\n)*got: \(3,\)(.|\n)*hint: use"
    ):
        init.glorot_normal((3,))


def test_an_unknown_mode() -> None:
    with pytest.raises(TensorValueError, match="'fan' is not a mode"):
        init.he_normal((3, 3), mode="fan")
