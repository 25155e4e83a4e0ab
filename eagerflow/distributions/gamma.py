"""Distributions based on gamma draws. No gradient flows to their concentrations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import eagerflow as ef
from eagerflow.distributions.base import AbstractDistribution, floats, joint_shape, together
from eagerflow.extending import TensorLike


@final
@dataclass(eq=False)
class Gamma(AbstractDistribution):
    """The gamma distribution.

    Attributes:
        concentration: the shape parameter, positive.
        scale: the factor of the values, positive; PyTorch's ``rate`` is ``1 / scale``.

    >>> ef.distributions.Gamma(3.0, 2.0).mean
    Tensor(6., f32[]@cpu:0)
    """

    concentration: Any
    scale: Any = 1.0

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        sizes = joint_shape(shape, self.concentration, self.scale)
        return ef.random.gamma(sizes, self.concentration, scale=self.scale, generator=generator)

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, a, scale = floats(x, self.concentration, self.scale)
        outside = x < 0
        x = ef.where(outside, 1, x)
        density = ef.xlogy(a - 1, x) - x / scale - a * ef.log(scale) - ef.lgamma(a)
        return ef.where(outside, -math.inf, density)

    def entropy(self) -> ef.Tensor:
        a, scale = together(self.concentration, self.scale)
        return a + ef.log(scale) + ef.lgamma(a) + (1 - a) * ef.digamma(a)

    @property
    def mean(self) -> ef.Tensor:
        a, scale = together(self.concentration, self.scale)
        return a * scale

    @property
    def variance(self) -> ef.Tensor:
        a, scale = together(self.concentration, self.scale)
        return a * scale * scale


@final
@dataclass(eq=False)
class Beta(AbstractDistribution):
    """The beta distribution.

    Attributes:
        a: the concentration at 1, positive.
        b: the concentration at 0, positive.

    >>> ef.distributions.Beta(1.0, 3.0).mean
    Tensor(0.25, f32[]@cpu:0)
    """

    a: Any
    b: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        return ef.random.beta(
            joint_shape(shape, self.a, self.b), self.a, self.b, generator=generator
        )

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, a, b = floats(x, self.a, self.b)
        outside = (x < 0) | (x > 1)
        x = ef.where(outside, 0.5, x)
        density = ef.xlogy(a - 1, x) + ef.xlogy(b - 1, 1 - x) - log_beta(a, b)
        return ef.where(outside, -math.inf, density)

    def entropy(self) -> ef.Tensor:
        a, b = together(self.a, self.b)
        both = (a + b - 2) * ef.digamma(a + b)
        return log_beta(a, b) - (a - 1) * ef.digamma(a) - (b - 1) * ef.digamma(b) + both

    @property
    def mean(self) -> ef.Tensor:
        a, b = together(self.a, self.b)
        return a / (a + b)

    @property
    def variance(self) -> ef.Tensor:
        a, b = together(self.a, self.b)
        return a * b / (ef.square(a + b) * (a + b + 1))


def log_beta(a: ef.Tensor, b: ef.Tensor) -> ef.Tensor:
    """The logarithm of the beta function."""
    return ef.lgamma(a) + ef.lgamma(b) - ef.lgamma(a + b)


@final
@dataclass(eq=False)
class Dirichlet(AbstractDistribution):
    """The Dirichlet distribution: random probabilities of categories.

    Attributes:
        concentration: ``[..., k]``, positive.

    >>> ef.distributions.Dirichlet(ef.tensor([1.0, 3.0])).mean
    Tensor([0.25, 0.75], f32[2]@cpu:0)
    """

    concentration: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        batch = ef.asarray(self.concentration)[..., 0]
        return ef.random.dirichlet(
            joint_shape(shape, batch), self.concentration, generator=generator
        )

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, a = floats(x, self.concentration)
        outside = (x < 0).any(-1, keepdims=True)
        density = ef.xlogy(a - 1, ef.where(outside, 1, x)).sum(-1) - log_multivariate_beta(a)
        return ef.where(outside[..., 0], -math.inf, density)

    def entropy(self) -> ef.Tensor:
        a = ef.asarray(self.concentration)
        total, count = a.sum(-1), a.shape[-1]
        each = ((a - 1) * ef.digamma(a)).sum(-1)
        return log_multivariate_beta(a) + (total - count) * ef.digamma(total) - each

    @property
    def mean(self) -> ef.Tensor:
        a = ef.asarray(self.concentration)
        return a / a.sum(-1, keepdims=True)

    @property
    def variance(self) -> ef.Tensor:
        a, mean = ef.asarray(self.concentration), self.mean
        return mean * (1 - mean) / (a.sum(-1, keepdims=True) + 1)


def log_multivariate_beta(a: ef.Tensor) -> ef.Tensor:
    """The logarithm of the beta function of several variables, along the last axis."""
    return ef.lgamma(a).sum(-1) - ef.lgamma(a.sum(-1))
