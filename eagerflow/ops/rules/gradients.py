"""Helpers of vjp rules, valid for all sizes, also for symbolic ones.

Whether a sum or a repetition has an effect depends on sizes. Where its result may be differentiated
again it is an op in any case: the order in which cotangents are added, and with it the last bit,
must not depend on whether the sizes are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eagerflow.core.interpreter import is_followed, is_traced, stack
from eagerflow.core.op import bind, declare, functions
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import maximum, same
from eagerflow.types import Shape, same_shape

_broadcast_to: Final = declare("broadcast_to")


def sum_to_like(g: Tensor, like: AbstractArray) -> Tensor:
    """``g`` summed over the axes along which ``like`` was broadcast to the shape of ``g``.

    Args:
        g: the cotangent of a result of broadcasting.
        like: the operand.

    >>> from eagerflow.extending import sum_to_like
    >>> sum_to_like(ef.ones((2, 3)), ef.ones((1, 3)))
    Tensor([[2., 2., 2.]], f32[1,3]@cpu:0)
    """
    shape = like.shape
    whole = g.shape
    if _same(whole, shape):
        return functions["sum_to"](g, shape) if _matters(g) else g
    axes = _repeated(whole, shape)
    if axes is None:
        return functions["sum_to"](g, shape)
    result = functions["sum"](g, axis=axes, keepdims=False)
    if not _same(result.shape, shape):
        result = functions["reshape"](result, shape)
    return result


def _repeated(whole: Shape, shape: Shape) -> tuple[int, ...] | None:
    """The axes along which ``shape`` is broadcast to ``whole``; None if that is not known."""
    lead = len(whole) - len(shape)
    axes = list(range(lead))
    for axis, (size, d) in enumerate(zip(whole[lead:], shape, strict=True), lead):
        if same(size, d):
            continue
        if type(size) is not int or type(d) is not int:
            return None
        if d == 1:
            axes.append(axis)
    return tuple(axes)


def _same(a: Shape, b: Shape) -> bool:
    """Whether the shapes are surely equal. Sizes are symbolic only under an interpreter."""
    return same_shape(a, b) if stack.installed else a == b


def spread(g: Tensor, like: AbstractArray, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """``g``, the cotangent of a reduction of ``like`` over ``axis``, in the shape of ``like``."""
    shape = like.shape
    if not keepdims and g.shape:
        g = functions["reshape"](g, tuple(1 if i in axis else d for i, d in enumerate(shape)))
    if _matters(g) or not _same(g.shape, shape):
        g = bind(_broadcast_to, g, shape=shape)
    return g


def _matters(g: Tensor) -> bool:
    """Whether an op without effect must be bound, since ``g`` may be differentiated again."""
    return stack.installed and (is_traced() or is_followed(g))


def count_of(like: Any, axis: tuple[int, ...], least: int = 0) -> Any:
    """The number of elements of ``like`` along ``axis``, or ``least`` if that is larger."""
    count: Any = 1
    for a in axis:
        count *= like.shape[a]
    return max(count, least) if type(count) is int else maximum(count, least)


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is returned unchanged."""
    if not x._lane.dtype.is_complex:
        return x
    return functions["conj"](x)


def where(condition: Tensor, x1: TensorLike, x2: TensorLike) -> Tensor:
    """`eagerflow.where`, which is defined in a higher layer."""
    return functions["where"](condition, x1, x2)


def safe_quotient(x: Tensor, y: Tensor) -> Tensor:
    """``x / y``, but 0 where ``y`` is 0."""
    zero = y == 0
    return where(zero, 0, x / where(zero, 1, y))


def times(slope: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The vjp rule of a function of one input whose derivative is ``slope(out, x)``.

    Args:
        slope: the derivative, from the output and the input of the op.

    >>> from eagerflow.extending import times
    >>> rule = times(lambda out, x: 3 * x * x)
    >>> rule(ef.tensor(1.0), None, ef.tensor(2.0))
    Tensor(12., f32[]@cpu:0)
    """
    return lambda g, out, x: g * conjugate(slope(out, x))


def over(slope: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The vjp rule of a function of one input whose derivative is ``1 / slope(out, x)``.

    Args:
        slope: the reciprocal of the derivative, from the output and the input of the op.

    >>> from eagerflow.extending import over
    >>> rule = over(lambda out, x: 2 * out)
    >>> rule(ef.tensor(1.0), ef.tensor(2.0), None)
    Tensor(0.25, f32[]@cpu:0)
    """
    return lambda g, out, x: g / conjugate(slope(out, x))
