"""Comparison of arrays up to rounding, and as a whole: compositions."""

from __future__ import annotations

from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.dims import minimum
from eagerflow.ops.elementwise.logic import isfinite, isnan, logical_and, logical_or
from eagerflow.ops.elementwise.signs_and_rounding import abs
from eagerflow.ops.reduction.totals import all
from eagerflow.ops.rules.gradients import where
from eagerflow.ops.rules.promotion import promote_floating
from eagerflow.types import may_be_same_shape, same_shape

__all__ = ["allclose", "array_equal", "isclose"]


def isclose(
    x1: TensorLike,
    x2: TensorLike,
    /,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Whether ``abs(x1 - x2) <= atol + rtol * abs(x2)``; infinities are close to themselves.

    Args:
        x1: numeric; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.
        rtol: the tolerance relative to ``x2``.
        atol: the absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    >>> ef.isclose(ef.tensor([1.0, 2.0]), ef.tensor([1.0000001, 2.1]))
    Tensor([ True, False], bool[2]@cpu:0)
    """
    a, b = promote_floating(x1, x2)
    finite = logical_and(isfinite(a), isfinite(b))
    # the difference of two infinities would be NaN, with a warning
    difference = abs(where(finite, a, 0.0) - where(finite, b, 0.0))
    near = logical_and(finite, difference <= abs(b) * rtol + atol)
    close = logical_or(near, a == b)
    if equal_nan:
        close = logical_or(close, logical_and(isnan(a), isnan(b)))
    return close


def allclose(
    x1: TensorLike,
    x2: TensorLike,
    /,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Whether all elements are close, see `isclose`.

    Args:
        x1: numeric; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.
        rtol: the tolerance relative to ``x2``.
        atol: the absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    >>> ef.allclose(ef.tensor([1.0, 2.0]), ef.tensor([1.0000001, 2.0]))
    Tensor(True, bool[]@cpu:0)
    """
    return all(isclose(x1, x2, rtol, atol, equal_nan=equal_nan))


def array_equal(x1: TensorLike, x2: TensorLike, /, equal_nan: bool = False) -> Tensor:
    """Whether two arrays have the same shape and equal elements.

    Args:
        x1: any dtype.
        x2: any dtype.
        equal_nan: whether NaN is equal to NaN.

    >>> ef.array_equal(ef.tensor([1, 2]), ef.tensor([1, 2]))
    Tensor(True, bool[]@cpu:0)
    """
    a, b = tensor_of(x1), tensor_of(x2)
    if not may_be_same_shape(a.shape, b.shape):
        return tensor_of(False)
    truth = None
    if not same_shape(a.shape, b.shape):
        a, b, truth = _common(a, b)
    equals = a == b
    if equal_nan:
        equals = logical_or(equals, logical_and(isnan(a), isnan(b)))
    return all(equals) if truth is None else logical_and(all(equals), truth)


def _common(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The common leading parts of both arrays, and whether these are the whole of both."""
    shape = tuple([minimum(m, n) for m, n in zip(a.shape, b.shape, strict=True)])
    missing = 0
    for x in (a, b):
        for size, part in zip(x.shape, shape, strict=True):
            missing = missing + (size - part)
    key = tuple([slice(None, part) for part in shape])
    return a[key], b[key], as_tensor(missing, device=a.device) == 0
