"""Distributions of truth values, categories and counts. No gradient flows through their draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, final

import eagerflow as ef
from eagerflow.distributions.base import AbstractDistribution, floats, joint_shape, together
from eagerflow.errors import TensorValueError
from eagerflow.extending import TensorLike

#: counts of which the probabilities are added up at once
_AT_ONCE: Final = 64


@final
@dataclass(eq=False, kw_only=True)
class Bernoulli(AbstractDistribution):
    """The Bernoulli distribution of 0 and 1.

    Attributes:
        logits: the logarithm of the odds of 1: `eagerflow.logit` of the probability.

    >>> ef.distributions.Bernoulli(logits=0.0).mean
    Tensor(0.5, f32[]@cpu:0)
    """

    logits: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        probability = ef.stop_gradient(self.mean)
        sizes = joint_shape(shape, probability)
        drawn = ef.random.bernoulli(sizes, probability, generator=generator)
        return drawn.astype(probability.dtype)

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, logits = floats(x, self.logits)
        result: ef.Tensor = x * logits - ef.softplus(logits)
        return result

    def entropy(self) -> ef.Tensor:
        logits = together(self.logits)[0]
        return ef.softplus(logits) - ef.where(ef.isinf(logits), 0, logits) * self.mean

    @property
    def mean(self) -> ef.Tensor:
        return ef.sigmoid(together(self.logits)[0])

    @property
    def variance(self) -> ef.Tensor:
        return self.mean * (1 - self.mean)


@final
@dataclass(eq=False, kw_only=True)
class Categorical(AbstractDistribution):
    """The categorical distribution: the index of one of k categories.

    Attributes:
        logits: ``[..., k]``: logarithms of the probabilities, up to a constant.

    >>> ef.round(ef.distributions.Categorical(logits=ef.zeros(4)).entropy(), 3)
    Tensor(1.386, f32[]@cpu:0)
    """

    logits: Any

    @property
    def log_probabilities(self) -> ef.Tensor:
        """The logarithm of the probability of each category."""
        return ef.log_softmax(ef.asarray(self.logits))

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        logits = ef.stop_gradient(ef.asarray(self.logits))
        return ef.random.categorical(
            joint_shape(shape, logits[..., 0]), logits, generator=generator
        )

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        index = ef.expand_dims(ef.asarray(x), -1)
        whole = self.log_probabilities
        shape = ef.broadcast_shapes(index.shape[:-1], whole.shape[:-1])
        whole = ef.broadcast_to(whole, (*shape, whole.shape[-1]))
        inside = (index >= 0) & (index < whole.shape[-1])
        index = ef.broadcast_to(ef.where(inside, index, 0), (*shape, 1))
        taken = ef.take_along_axis(whole, index, axis=-1)
        return ef.where(inside, taken, -math.inf)[..., 0]

    def entropy(self) -> ef.Tensor:
        logs = self.log_probabilities
        return -(ef.exp(logs) * ef.where(ef.isinf(logs), 0, logs)).sum(-1)

    @property
    def mean(self) -> ef.Tensor:
        raise TensorValueError(
            "Categorical: categories have no mean",
            hint="ef.exp(p.log_probabilities) gives their probabilities",
        )

    @property
    def variance(self) -> ef.Tensor:
        return self.mean


@final
@dataclass(eq=False)
class Poisson(AbstractDistribution):
    """The Poisson distribution: the number of events that occur at a constant rate.

    Attributes:
        rate: the mean, 0 or more.

    >>> ef.round(ef.distributions.Poisson(2.0).log_prob(0), 3)
    Tensor(-2., f32[]@cpu:0)
    """

    rate: Any

    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        rate = ef.stop_gradient(together(self.rate)[0])
        return ef.random.poisson(joint_shape(shape, rate), rate, generator=generator)

    def log_prob(self, x: TensorLike) -> ef.Tensor:
        x, rate = floats(x, self.rate)
        outside = (x < 0) | (x != ef.floor(x))
        x = ef.where(outside, 0, x)
        return ef.where(outside, -math.inf, ef.xlogy(x, rate) - rate - ef.lgamma(x + 1))

    def entropy(self) -> ef.Tensor:
        """The entropy, as a sum over the counts that matter, some tens for small rates."""
        rate = together(self.rate)[0]
        most = ef.stop_gradient(rate).max()
        end = most + 12 * ef.sqrt(most) + 25
        columns = Poisson(ef.expand_dims(rate, -1))
        offsets = ef.arange(_AT_ONCE, dtype=rate.dtype, device=rate.device)

        def add(first: ef.Tensor, total: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
            logs = columns.log_prob(first + offsets)
            terms = ef.exp(logs) * ef.where(ef.isinf(logs), 0, logs)
            return first + _AT_ONCE, total - terms.sum(-1)

        start = (ef.zeros_like(end), ef.zeros_like(rate))
        result: ef.Tensor = ef.while_loop(lambda first, _: first < end, add, start)[1]
        return result

    @property
    def mean(self) -> ef.Tensor:
        return together(self.rate)[0]

    @property
    def variance(self) -> ef.Tensor:
        return together(self.rate)[0]
