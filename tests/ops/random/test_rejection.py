"""Gamma, beta, Dirichlet and Poisson draws, and draws like an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

_COUNT = 2000


def _drawn(name: str, *args: Any, **kwargs: Any) -> Any:
    generator = ef.random.Generator(5)
    return getattr(generator, name)((_COUNT,), *args, dtype="float64", **kwargs).numpy()


@pytest.mark.parametrize(
    ("name", "parameters", "law"),
    [
        *(("gamma", (a,), scipy.stats.gamma(a)) for a in (0.1, 0.9, 1.0, 30.0)),
        ("beta", (2.0, 0.5), scipy.stats.beta(2.0, 0.5)),
    ],
)
def test_the_law(name: str, parameters: Any, law: Any) -> None:
    assert scipy.stats.kstest(_drawn(name, *parameters), law.cdf).pvalue > 0.001


@pytest.mark.parametrize("rate", [0.3, 5.0, 29.9, 30.0, 400.0])
def test_the_law_of_poisson(rate: float) -> None:
    drawn = _drawn("poisson", rate)
    values = np.arange(drawn.max() + 2)
    expected = scipy.stats.poisson(rate).pmf(values) * _COUNT
    counts = np.bincount(drawn.astype(int), minlength=len(values))
    often = expected > 5
    counts = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], _COUNT - expected[often].sum())
    assert scipy.stats.chisquare(counts, expected).pvalue > 0.001


def test_probabilities_of_categories() -> None:
    x = ef.random.Generator(1).dirichlet((2000,), ef.tensor([1.0, 2.0, 5.0]))
    np.testing.assert_allclose(x.sum(1).numpy(), 1, rtol=1e-6)
    np.testing.assert_allclose(x.mean(0).numpy(), [1 / 8, 2 / 8, 5 / 8], atol=0.02)
    one = ef.random.dirichlet((), ef.ones((4, 3), dtype="float64"))
    assert (one.shape, one.dtype) == ((4, 3), ef.float64)


def test_an_element_does_not_depend_on_the_others() -> None:
    concentration = ef.tensor([0.2, 3.0, 50.0])
    all_of_them = ef.random.Generator(2).gamma((3,), concentration)
    first = ef.random.Generator(2).gamma((2,), concentration[:2])
    assert first.tolist() == all_of_them[:2].tolist()
    rates = ef.tensor([0.5, 40.0])
    drawn = ef.random.Generator(2).poisson((2,), rates).tolist()
    assert drawn[:1] == ef.random.Generator(2).poisson((1,), rates[:1]).tolist()


def test_gradients() -> None:
    def mean(scale: Any) -> Any:
        return ef.random.Generator(3).gamma((5,), 2.0, scale=scale).sum()

    scale = ef.tensor(2.0)
    assert ef.grad(mean)(scale).item() == pytest.approx(mean(scale).item() / 2, rel=1e-5)
    with pytest.raises(errors.GradientError, check=says("random_gamma has no derivative")):
        ef.grad(lambda a: ef.random.gamma((5,), a).sum())(scale)


def test_draws_like_an_array() -> None:
    x = ef.zeros((2, 3), dtype="float64")
    assert (ef.random.normal_like(x).type, ef.random.uniform_like(x).type) == (x.type, x.type)
    n = ef.zeros(100, dtype="uint8")
    drawn = ef.random.Generator(0).randint_like(n, 3, 5)
    assert drawn.type == n.type
    assert set(drawn.tolist()) == {3, 4}


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ef.random.gamma((2,), 0.0), errors.TensorValueError, "not positive"),
        (lambda: ef.random.gamma((), 1.0, scale=-1), errors.TensorValueError, "scale is not"),
        (lambda: ef.random.beta((), 1.0, ef.tensor(-1.0)), errors.TensorValueError, "not positive"),
        (lambda: ef.random.poisson((), -1.0), errors.TensorValueError, "negative"),
        (lambda: ef.random.dirichlet((), 1.0), errors.ShapeError, "no categories"),
        (
            lambda: ef.random.randint_like(ef.zeros(2), 0, 3),
            errors.DTypeError,
            "whole numbers of that dtype are ef.random.randint",
        ),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, check=says(text)):
        call()
