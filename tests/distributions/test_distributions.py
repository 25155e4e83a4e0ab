"""Distributions against SciPy: densities, moments, entropies, draws, divergences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import eagerflow as ef
import eagerflow.distributions as d
from eagerflow import errors
from tests.messages import says

_A = np.array([0.7, 1.0, 4.0])
_B = np.array([2.0, 0.5, 3.0])
_X = np.array([0.2, 0.9, 0.4])
_N = np.array([0.0, 3.0, 1.0])


def _t(x: Any) -> ef.Tensor:
    return ef.asarray(x)


#: our distribution, SciPy's, and the points at which they are compared
_PAIRS: list[tuple[Any, Any, np.ndarray[Any, Any]]] = [
    (d.Normal(_t(_A), _t(_B)), scipy.stats.norm(_A, _B), _X),
    (d.Laplace(_t(_A), _t(_B)), scipy.stats.laplace(_A, _B), _X),
    (d.Exponential(_t(_A)), scipy.stats.expon(scale=_A), _X),
    (d.Uniform(_t(-_A), _t(_B)), scipy.stats.uniform(-_A, _B + _A), _X),
    (d.Gamma(_t(_A), _t(_B)), scipy.stats.gamma(_A, scale=_B), _X),
    (d.Beta(_t(_A), _t(_B)), scipy.stats.beta(_A, _B), _X),
    (
        d.Bernoulli(logits=_t(np.log(_X / (1 - _X)))),
        scipy.stats.bernoulli(_X),
        np.array([0.0, 1.0, 1.0]),
    ),
    (d.Poisson(_t(_A)), scipy.stats.poisson(_A), _N),
]


def _name(value: Any) -> str:
    return type(value).__name__ if isinstance(value, d.AbstractDistribution) else ""


@pytest.mark.parametrize(("ours", "theirs", "x"), _PAIRS, ids=_name)
def test_it_agrees_with_scipy(ours: Any, theirs: Any, x: Any) -> None:
    log = getattr(theirs, "logpdf" if hasattr(theirs.dist, "logpdf") else "logpmf")
    for run in (type(ours).log_prob, ef.trace(type(ours).log_prob)):
        np.testing.assert_allclose(run(ours, _t(x)).numpy(), log(x), rtol=1e-10)
    np.testing.assert_allclose(ours.mean.numpy(), theirs.mean(), rtol=1e-12)
    np.testing.assert_allclose(ours.variance.numpy(), theirs.var(), rtol=1e-12)
    np.testing.assert_allclose(ours.entropy().numpy(), theirs.entropy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("ours", "theirs", "x"), _PAIRS, ids=_name)
def test_draws_have_its_moments(ours: Any, theirs: Any, x: Any) -> None:
    drawn = ours.sample((2000,), generator=ef.random.Generator(1)).numpy()
    assert drawn.shape == (2000, 3)
    off = (drawn.mean(0) - theirs.mean()) / np.sqrt(theirs.var() / 2000)
    assert (np.abs(off) < 4).all()
    np.testing.assert_allclose(drawn.var(0), theirs.var(), rtol=0.3)


@pytest.mark.parametrize(("p", "theirs", "x"), _PAIRS, ids=_name)
def test_divergence_is_the_mean_of_the_difference(p: Any, theirs: Any, x: Any) -> None:
    wider = {name: _t(value.numpy() * 1.3) for name, value in vars(p).items()}
    q = type(p)(**wider)
    drawn = p.sample((4000,), generator=ef.random.Generator(2))
    difference = (p.log_prob(drawn) - q.log_prob(drawn)).numpy()
    spread = 5 * difference.std(0) / np.sqrt(4000)
    assert (np.abs(difference.mean(0) - d.kl(p, q).numpy()) <= spread + 1e-9).all()
    np.testing.assert_allclose(d.kl(p, p).numpy(), 0, atol=1e-12)


def test_categories() -> None:
    logits = np.array([[0.0, 1.0, -1.0], [2.0, 0.0, -np.inf]])
    p = d.Categorical(logits=_t(logits))
    probabilities = scipy.special.softmax(logits, -1)
    np.testing.assert_allclose(
        p.log_prob(_t(np.array([2, 0]))).numpy(), np.log([probabilities[0, 2], probabilities[1, 0]])
    )
    np.testing.assert_allclose(
        p.entropy().numpy(), [scipy.stats.entropy(row) for row in probabilities]
    )
    drawn = p.sample((3000,), generator=ef.random.Generator(0)).numpy()
    shares = np.stack([(drawn == i).mean(0) for i in range(3)], -1)
    np.testing.assert_allclose(shares, probabilities, atol=0.03)
    assert p.log_prob(_t(drawn)).shape == (3000, 2)
    q = d.Categorical(logits=ef.zeros((2, 3), dtype="float64"))
    want = [scipy.stats.entropy(row, np.ones(3) / 3) for row in probabilities]
    np.testing.assert_allclose(d.kl(p, q).numpy(), want)


def test_dirichlet() -> None:
    a, x = np.array([0.5, 2.0, 3.0]), np.array([0.2, 0.3, 0.5])
    p, theirs = d.Dirichlet(_t(a)), scipy.stats.dirichlet(a)
    np.testing.assert_allclose(p.log_prob(_t(x)).item(), theirs.logpdf(x))
    np.testing.assert_allclose(p.entropy().item(), theirs.entropy())
    np.testing.assert_allclose(p.mean.numpy(), theirs.mean())
    np.testing.assert_allclose(p.variance.numpy(), theirs.var())
    assert p.sample((2, 5)).shape == (2, 5, 3)
    q = d.Dirichlet(ef.ones(3, dtype="float64"))
    drawn = p.sample((5000,), generator=ef.random.Generator(4))
    estimate = (p.log_prob(drawn) - q.log_prob(drawn)).mean().item()
    assert estimate == pytest.approx(d.kl(p, q).item(), rel=0.1)


def test_a_distribution_is_a_tree() -> None:
    p = d.Normal(ef.tensor(1.0), ef.tensor(2.0))
    gradient = ef.grad(lambda p: p.log_prob(3.0))(p)
    assert isinstance(gradient, d.Normal)
    assert (gradient.loc.item(), gradient.scale.item()) == (0.5, 0.0)
    rows = d.Normal(ef.tensor([0.0, 1.0]), ef.tensor([1.0, 2.0]))
    assert ef.vmap(lambda p: p.entropy())(rows).tolist() == rows.entropy().tolist()
    assert ef.trace(d.kl)(rows, rows).tolist() == [0.0, 0.0]
    mean = ef.grad(lambda m: d.Normal(m, 1.0).sample((5,)).sum())(ef.tensor(0.0))
    assert mean.item() == 5.0


@pytest.mark.parametrize(("ours", "theirs", "x"), _PAIRS, ids=_name)
def test_numbers_adapt_to_tensors(ours: Any, theirs: Any, x: Any) -> None:
    log = getattr(theirs, "logpdf" if hasattr(theirs.dist, "logpdf") else "logpmf")
    numbers = {name: value.tolist()[0] for name, value in vars(ours).items()}
    of_numbers = type(ours)(**numbers)
    got = of_numbers.log_prob(ef.tensor(x[:1], device="async:0"))
    assert (got.dtype, got.device) == (ef.float64, "async:0")
    np.testing.assert_allclose(got.numpy(), log(x)[:1], rtol=1e-10)
    first, value = next(iter(vars(ours).items()))
    mixed = type(ours)(**numbers | {first: value.to("async:0")})
    for value in (mixed.entropy(), mixed.mean, mixed.variance, d.kl(mixed, of_numbers)):
        assert (value.dtype, value.device) == (ef.float64, "async:0")
    assert mixed.sample((2,)).device == "async:0"


@pytest.mark.parametrize(("ours", "theirs", "x"), _PAIRS, ids=_name)
def test_a_trace_sees_changed_parameters(ours: Any, theirs: Any, x: Any) -> None:
    held = type(ours)(**vars(ours))
    other = type(ours)(**vars(ours))
    f = ef.trace(lambda x: (held.log_prob(x), held.entropy(), d.kl(held, other)))
    for scale in (1.0, 1.5):
        for name, value in vars(ours).items():
            setattr(held, name, value * scale)
        for got, want in zip(f(_t(x)), f.fn(_t(x)), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_the_entropy_of_many_counts() -> None:
    rates = np.array([0.5, 40.0, 300.0])
    entropy = lambda rate: d.Poisson(rate).entropy()
    want = scipy.stats.poisson(rates).entropy()
    for f in (entropy, ef.trace(entropy), ef.vmap(entropy)):
        np.testing.assert_allclose(f(_t(rates)).numpy(), want, rtol=1e-6)
    ef.check_grads(entropy, (_t(rates),))
    ef.check_grads(ef.trace(entropy), (_t(rates),))


def test_outside_of_the_support() -> None:
    assert d.Uniform(0.0, 1.0).log_prob(2.0).item() == -np.inf
    assert d.Exponential(1.0).log_prob(-1.0).item() == -np.inf
    assert d.kl(d.Uniform(0.0, 2.0), d.Uniform(0.0, 1.0)).item() == np.inf
    for a in (0.5, 1.0, 2.0):
        assert d.Gamma(a, 1.0).log_prob(-1.0).item() == -np.inf
        assert d.Beta(a, a).log_prob(ef.tensor([-0.5, 1.5])).tolist() == [-np.inf] * 2
        assert d.Dirichlet(ef.full(2, a)).log_prob(ef.tensor([-1.0, 2.0])).item() == -np.inf
    assert d.Poisson(2.0).log_prob(ef.tensor([-1.0, 0.5])).tolist() == [-np.inf] * 2
    assert d.Categorical(logits=ef.zeros(3)).log_prob(ef.tensor([-1, 3])).tolist() == [-np.inf] * 2
    slope = ef.grad(lambda a: d.Gamma(a, 1.0).log_prob(ef.tensor([1.0, -1.0])).sum())
    assert slope(ef.tensor(2.0)).item() == pytest.approx(-scipy.special.digamma(2.0), rel=1e-5)
    assert np.isnan(d.Gamma(1.0, 1.0).log_prob(np.nan).item())
    with pytest.raises(errors.DTypeError, check=says("no closed form")):
        d.kl(d.Normal(0.0, 1.0), d.Laplace(0.0, 1.0))
    with pytest.raises(errors.TensorValueError, check=says("no mean")):
        _ = d.Categorical(logits=ef.zeros(2)).mean
