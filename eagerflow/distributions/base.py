"""The base class of distributions, and helpers for their parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import eagerflow as ef
from eagerflow.extending import TensorLike, hint_at, is_weak


class AbstractDistribution(ABC):
    """A distribution, or a batch of independent ones.

    >>> isinstance(ef.distributions.Normal(0.0, 1.0), ef.distributions.AbstractDistribution)
    True
    """

    @abstractmethod
    def sample(
        self, shape: ef.types.ShapeLike = (), *, generator: ef.random.Generator | None = None
    ) -> ef.Tensor:
        """Random values: ``[*shape, ...]``, then the axes of the parameters.

        Args:
            shape: number of draws of the whole batch, along each leading axis.
            generator: the source of the draw; the generator of the process by default.
        """

    @abstractmethod
    def log_prob(self, x: TensorLike) -> ef.Tensor:
        """The logarithm of the density, or of the probability, at ``x``."""

    @abstractmethod
    def entropy(self) -> ef.Tensor:
        """The mean of ``-log_prob`` under the distribution."""

    @property
    @abstractmethod
    def mean(self) -> ef.Tensor:
        """The mean."""

    @property
    @abstractmethod
    def variance(self) -> ef.Tensor:
        """The variance."""


hint_at(
    AbstractDistribution,
    ["batch_shape", "cdf", "event_shape", "expand", "has_rsample", "icdf", "logpdf", "pdf",
     "perplexity", "pmf", "probs", "rsample", "sample_n", "std", "stddev"],
)  # fmt: skip


def joint_shape(shape: Any, *parameters: Any) -> tuple[Any, ...]:
    """The shape of draws: ``shape``, then the shape of the parameters."""
    first = (shape,) if isinstance(shape, int) else tuple(shape)
    return (*first, *ef.broadcast_shapes(*(ef.asarray(p).shape for p in parameters)))


def floats(*values: Any) -> tuple[ef.Tensor, ...]:
    """Values as tensors of one floating dtype; numbers go to the device of the first tensor."""
    given = [value if is_weak(value) else ef.asarray(value) for value in values]
    tensors = [value for value in given if isinstance(value, ef.Tensor)]
    if not tensors:
        return tuple([ef.asarray(value) * 1.0 for value in given])
    dtype, device = ef.result_type(*tensors, 1.0), tensors[0].device
    return tuple([
        value.astype(dtype) if isinstance(value, ef.Tensor)
        else ef.asarray(value, dtype=dtype, device=device)
        for value in given
    ])  # fmt: skip


def together(*parameters: Any) -> tuple[ef.Tensor, ...]:
    """Parameters as floating tensors of one shape and dtype."""
    return ef.broadcast_arrays(*floats(*parameters))
