"""Helpers of vjp rules. They look at shapes at run time, so a rule holds for every size."""

from __future__ import annotations

from eagerflow.core.convert import TensorLike
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor

__all__ = ["conjugate", "count_of", "spread", "sum_to_like", "where"]


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


def spread(g: Tensor, like: AbstractArray, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """``g``, the cotangent of a reduction of ``like`` over ``axis``, in the shape of ``like``."""
    shape = like.shape
    if not keepdims:
        g = functions["reshape"](g, tuple(1 if i in axis else d for i, d in enumerate(shape)))
    if g.shape != shape:
        g = functions["broadcast_to"](g, shape)
    return g


def count_of(like: AbstractArray, axis: tuple[int, ...]) -> int:
    """How many elements of ``like`` are reduced to one over ``axis``."""
    count = 1
    for a in axis:
        count *= like.shape[a]
    return count


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    if not x._lane.dtype.is_complex:
        return x
    result: Tensor = functions["conj"](x)
    return result


def where(condition: Tensor, x1: TensorLike, x2: TensorLike) -> Tensor:
    """`eagerflow.where`, which is defined above this layer."""
    result: Tensor = functions["where"](condition, x1, x2)
    return result
