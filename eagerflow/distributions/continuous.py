"""Distributions with a location, a scale, or bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, final

import eagerflow as ef
from eagerflow.distributions.base import AbstractDistribution, floats, joint_shape, together
from eagerflow.extending import TensorLike

_HALF_LOG_TAU: Final = 0.5 * math.log(2 * math.pi)


@final
@dataclass(eq=False)
class Normal(AbstractDistribution):
    """The normal distribution; gradients flow through its draws.

    Attributes:
        loc: the mean.
        scale: the standard deviation, positive.

    >>> ef.round(ef.distributions.Normal(0.0, 1.0).entropy(), 3)
    Tensor(1.419, f32[]@cpu:0)
    """

    loc: Any
    scale: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        sizes = joint_shape(shape, self.loc, self.scale)
        return ef.random.normal(sizes, loc=self.loc, scale=self.scale, generator=generator)

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, loc, scale = floats(x, self.loc, self.scale)
        z = (x - loc) / scale
        density: ef.Tensor = -0.5 * z * z - ef.log(scale) - _HALF_LOG_TAU
        return density

    def entropy(self) -> ef.Tensor:
        _, scale = together(self.loc, self.scale)
        return ef.log(scale) + (0.5 + _HALF_LOG_TAU)

    @property
    def mean(self) -> ef.Tensor:
        return together(self.loc, self.scale)[0]

    @property
    def variance(self) -> ef.Tensor:
        return ef.square(together(self.loc, self.scale)[1])


@final
@dataclass(eq=False)
class Laplace(AbstractDistribution):
    """The Laplace distribution; gradients flow through its draws.

    Attributes:
        loc: the mean.
        scale: the mean distance from ``loc``, positive.

    >>> ef.round(ef.distributions.Laplace(0.0, 1.0).log_prob(1.0), 3)
    Tensor(-1.693, f32[]@cpu:0)
    """

    loc: Any
    scale: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        loc, scale = together(self.loc, self.scale)
        sizes = joint_shape(shape, loc)
        u = ef.random.uniform(
            sizes, low=-0.5, high=0.5, dtype=loc.dtype, device=loc.device, generator=generator
        )
        least = -1 + ef.finfo(loc.dtype).eps / 2  # the smallest argument with a finite logarithm
        return loc - scale * ef.sign(u) * ef.log1p(ef.maximum(-2 * ef.abs(u), least))

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, loc, scale = floats(x, self.loc, self.scale)
        return -ef.abs(x - loc) / scale - ef.log(2.0 * scale)

    def entropy(self) -> ef.Tensor:
        return ef.log(together(self.loc, self.scale)[1]) + (1 + math.log(2))

    @property
    def mean(self) -> ef.Tensor:
        return together(self.loc, self.scale)[0]

    @property
    def variance(self) -> ef.Tensor:
        return 2 * ef.square(together(self.loc, self.scale)[1])


@final
@dataclass(eq=False)
class Exponential(AbstractDistribution):
    """The exponential distribution; gradients flow through its draws.

    Attributes:
        scale: the mean, positive.

    >>> ef.distributions.Exponential(2.0).variance
    Tensor(4., f32[]@cpu:0)
    """

    scale: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        sizes = joint_shape(shape, self.scale)
        return ef.random.exponential(sizes, scale=self.scale, generator=generator)

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, scale = floats(x, self.scale)
        return ef.where(x < 0, -math.inf, -x / scale - ef.log(scale))

    def entropy(self) -> ef.Tensor:
        return 1 + ef.log(floats(self.scale)[0])

    @property
    def mean(self) -> ef.Tensor:
        return together(self.scale)[0]

    @property
    def variance(self) -> ef.Tensor:
        return ef.square(together(self.scale)[0])


@final
@dataclass(eq=False)
class Uniform(AbstractDistribution):
    """The uniform distribution between two bounds; gradients flow through its draws.

    Attributes:
        low: the lower bound.
        high: the upper bound.

    >>> ef.distributions.Uniform(0.0, 4.0).mean
    Tensor(2., f32[]@cpu:0)
    """

    low: Any
    high: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        sizes = joint_shape(shape, self.low, self.high)
        return ef.random.uniform(sizes, low=self.low, high=self.high, generator=generator)

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, low, high = floats(x, self.low, self.high)
        return ef.where((x >= low) & (x <= high), -ef.log(high - low), -math.inf)

    def entropy(self) -> ef.Tensor:
        low, high = together(self.low, self.high)
        return ef.log(high - low)

    @property
    def mean(self) -> ef.Tensor:
        low, high = together(self.low, self.high)
        return (low + high) / 2

    @property
    def variance(self) -> ef.Tensor:
        low, high = together(self.low, self.high)
        return ef.square(high - low) / 12
