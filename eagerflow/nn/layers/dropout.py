"""Dropout as a layer."""

from __future__ import annotations

from typing import final

import eagerflow as ef
from eagerflow.extending import PROBABILITY, require
from eagerflow.nn import functional as F
from eagerflow.nn.module import Module

__all__ = ["Dropout"]


@final
class Dropout(Module):
    """In training mode, zeros at random positions, and ``1 / (1 - p)`` times the input elsewhere.

    (Srivastava et al., 2014.) After ``eval()`` the layer returns its input.

    Args:
        p: the probability of zeros, from 0 to 1.

    Raises:
        TensorValueError: ``p`` is out of range.

    >>> ef.random.seed(0)
    >>> y = ef.nn.Dropout(0.5)(ef.ones(1000))
    >>> sorted(set(y.numpy().tolist()))
    [0.0, 2.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        require("Dropout", PROBABILITY, p=p)
        self.p = p

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return F.dropout(x, self.p, training=self.training)
