"""The Kullback-Leibler divergence between two distributions of one class."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import eagerflow as ef
from eagerflow.distributions.base import AbstractDistribution, together
from eagerflow.distributions.continuous import Exponential, Laplace, Normal, Uniform
from eagerflow.distributions.discrete import Bernoulli, Categorical, Poisson
from eagerflow.distributions.gamma import (
    Beta,
    Dirichlet,
    Gamma,
    log_beta,
    log_multivariate_beta,
)
from eagerflow.errors import DTypeError


def kl(p: AbstractDistribution, q: AbstractDistribution) -> ef.Tensor:
    """The Kullback-Leibler divergence of ``p`` from ``q``: the mean of log p - log q under p.

    Args:
        p: a distribution.
        q: another distribution of the same class.

    Raises:
        DTypeError: the classes differ.

    >>> Normal = ef.distributions.Normal
    >>> ef.distributions.kl(Normal(1.0, 1.0), Normal(0.0, 1.0))
    Tensor(0.5, f32[]@cpu:0)
    """
    rule = _RULES.get(type(p))
    if rule is None or type(q) is not type(p):
        raise DTypeError(
            "kl: there is no closed form for these distributions",
            given=f"{type(p).__name__}, {type(q).__name__}",
            expected="two of one class",
            hint="x = p.sample((1000,)); (p.log_prob(x) - q.log_prob(x)).mean(0) estimates it",
        )
    result: ef.Tensor = rule(p, q)
    return result


def _normal(p: Normal, q: Normal) -> ef.Tensor:
    loc, scale, q_loc, q_scale = together(p.loc, p.scale, q.loc, q.scale)
    ratio, shift = scale / q_scale, (loc - q_loc) / q_scale
    return 0.5 * (ratio * ratio + shift * shift - 1) - ef.log(ratio)


def _laplace(p: Laplace, q: Laplace) -> ef.Tensor:
    loc, scale, q_loc, q_scale = together(p.loc, p.scale, q.loc, q.scale)
    ratio, shift = scale / q_scale, ef.abs(loc - q_loc)
    return ratio * ef.exp(-shift / scale) + shift / q_scale - ef.log(ratio) - 1


def _exponential(p: Exponential, q: Exponential) -> ef.Tensor:
    scale, other = together(p.scale, q.scale)
    ratio = scale / other
    return ratio - ef.log(ratio) - 1


def _uniform(p: Uniform, q: Uniform) -> ef.Tensor:
    low, high, q_low, q_high = together(p.low, p.high, q.low, q.high)
    inside = (q_low <= low) & (high <= q_high)
    return ef.where(inside, ef.log((q_high - q_low) / (high - low)), math.inf)


def _gamma(p: Gamma, q: Gamma) -> ef.Tensor:
    a, s, qa, qs = together(p.concentration, p.scale, q.concentration, q.scale)
    shape = (a - qa) * ef.digamma(a) - ef.lgamma(a) + ef.lgamma(qa)
    return shape + qa * ef.log(qs / s) + a * (s / qs - 1)


def _beta(p: Beta, q: Beta) -> ef.Tensor:
    a, b, qa, qb = together(p.a, p.b, q.a, q.b)
    each = (a - qa) * ef.digamma(a) + (b - qb) * ef.digamma(b)
    return log_beta(qa, qb) - log_beta(a, b) + each + (qa - a + qb - b) * ef.digamma(a + b)


def _dirichlet(p: Dirichlet, q: Dirichlet) -> ef.Tensor:
    a, qa = together(p.concentration, q.concentration)
    each = (a - qa) * (ef.digamma(a) - ef.digamma(a.sum(-1, keepdims=True)))
    return log_multivariate_beta(qa) - log_multivariate_beta(a) + each.sum(-1)


def _bernoulli(p: Bernoulli, q: Bernoulli) -> ef.Tensor:
    logits, other = together(p.logits, q.logits)
    return p.mean * (logits - other) - ef.softplus(logits) + ef.softplus(other)


def _categorical(p: Categorical, q: Categorical) -> ef.Tensor:
    logs, other = p.log_probabilities, q.log_probabilities
    return (ef.exp(logs) * ef.where(ef.isinf(logs), 0, logs - other)).sum(-1)


def _poisson(p: Poisson, q: Poisson) -> ef.Tensor:
    rate, other = together(p.rate, q.rate)
    return ef.xlogy(rate, rate / other) - rate + other


_RULES: Final[dict[type, Callable[[Any, Any], ef.Tensor]]] = {
    Bernoulli: _bernoulli,
    Beta: _beta,
    Categorical: _categorical,
    Dirichlet: _dirichlet,
    Exponential: _exponential,
    Gamma: _gamma,
    Laplace: _laplace,
    Normal: _normal,
    Poisson: _poisson,
    Uniform: _uniform,
}
