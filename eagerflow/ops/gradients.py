"""Helpers of vjp rules. They look at shapes at run time, so a rule holds for every size."""

from __future__ import annotations

from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor

__all__ = ["sum_to_like"]


def sum_to_like(g: Tensor, like: AbstractArray) -> Tensor:
    """``g`` summed over the axes along which ``like`` was broadcast to its shape."""
    shape = like.shape
    if g.shape == shape:
        return g
    lead = len(g.shape) - len(shape)
    axes = tuple(range(lead)) + tuple(
        lead + i for i, d in enumerate(shape) if d == 1 and g.shape[lead + i] != 1
    )
    result: Tensor = functions["sum"](g, axis=axes, keepdims=False)
    if result.shape != shape:
        result = functions["reshape"](result, shape)
    return result
