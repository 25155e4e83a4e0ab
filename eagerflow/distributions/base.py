"""What all distributions have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import eagerflow as ef


class AbstractDistribution(ABC):
    """A distribution, or a batch of independent ones.

    >>> isinstance(ef.distributions.Normal(0.0, 1.0), ef.distributions.AbstractDistribution)
    True
    """

    @abstractmethod
    def sample(self, shape: Any = (), *, generator: ef.random.Generator | None = None) -> ef.Tensor:
        """Random values: ``[*shape, ...]``, then the axes of the parameters.

        Args:
            shape: how many draws of the whole batch.
            generator: where to take the draw from; the process's own by default.
        """

    @abstractmethod
    def log_prob(self, x: Any) -> ef.Tensor:
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


def joint_shape(shape: Any, *parameters: Any) -> tuple[Any, ...]:
    """The shape of draws: ``shape``, then that of the parameters."""
    first = (shape,) if isinstance(shape, int) else tuple(shape)
    return (*first, *ef.broadcast_shapes(*(ef.asarray(p).shape for p in parameters)))


def together(*parameters: Any) -> tuple[ef.Tensor, ...]:
    """Parameters as floating tensors of one shape."""
    return ef.broadcast_arrays(*(ef.asarray(p) * 1.0 for p in parameters))
