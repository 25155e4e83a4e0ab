"""Kernels of reduction ops. Axes are tuples counted from the front."""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.table import Array, portable

Axes = tuple[int, ...]

for _op in ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all"):
    portable(_op, _op)

portable("cumulative_sum", "cumsum")
portable("cumulative_prod", "cumprod")


def _count(x: Array, axis: Axes) -> int:
    return math.prod(x.shape[a] for a in axis)


def sum_to_axes(x: Array, shape: tuple[int, ...]) -> Axes:
    """The axes along which an array of ``shape`` is broadcast to the shape of ``x``.

    Raises:
        ValueError: it does not broadcast to that.
    """
    lead = x.ndim - len(shape)
    if lead < 0 or any(d not in (1, n) for n, d in zip(x.shape[lead:], shape, strict=True)):
        raise ValueError(f"shape {shape} does not broadcast to {x.shape}")
    return (*range(lead), *(lead + i for i, d in enumerate(shape) if d != x.shape[lead + i]))


@portable("sum_to")
def sum_to(xp: Any, x: Array, *, shape: tuple[int, ...]) -> Array:
    """Sums over the axes along which ``shape`` is broadcast; a view if there are none."""
    axis = sum_to_axes(x, shape)
    return xp.sum(x, axis=axis).reshape(shape) if axis else x.view()


@portable("mean")
def mean(xp: Any, x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """The sum over the number of elements; NaN of no elements, without a warning of 0 / 0."""
    return xp.divide(xp.sum(x, axis=axis, keepdims=keepdims), _count(x, axis) or math.nan)


@portable("logsumexp")
def logsumexp(xp: Any, x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """The logarithm of sums of exponentials, relative to the largest, so that none overflows."""
    shape = tuple(1 if i in axis else d for i, d in enumerate(x.shape))
    if x.size == 0:
        out = xp.full(shape, -math.inf, dtype=x.dtype)
    else:
        largest = xp.max(x.real, axis=axis, keepdims=True)
        largest = xp.where(xp.isfinite(largest), largest, 0).astype(largest.dtype)
        shifted = xp.asarray(x - largest)
        total = xp.sum(xp.exp(shifted, out=shifted), axis=axis, keepdims=True)
        zero = total == 0
        out = xp.where(zero, -math.inf, xp.log(xp.where(zero, 1, total))).astype(x.dtype) + largest
    return out if keepdims else xp.squeeze(out, axis=axis)


@portable("count_nonzero")
def count_nonzero(xp: Any, x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """The number of elements that are not zero."""
    if len(axis) == x.ndim and not keepdims:
        return xp.asarray(xp.count_nonzero(x), dtype="int64")
    return xp.sum(x != 0, axis=axis, keepdims=keepdims, dtype="int64")


# --- spread ---------------------------------------------------------------------------------


def variance(xp: Any, total: Any, x: Array, axis: Axes, keepdims: bool, correction: float) -> Array:
    """The variance in two passes: the mean, then the mean square of the differences from it.

    ``total`` is the function for sums.
    """
    count = _count(x, axis)
    centre = xp.divide(total(x, axis=axis, keepdims=True), count)
    rest = xp.asarray(x - centre)
    if x.dtype.kind == "c":
        square = rest.real**2 + rest.imag**2
    else:
        square = xp.multiply(rest, rest, out=rest)
    return xp.divide(total(square, axis=axis, keepdims=keepdims), max(count - correction, 0))


@portable("var")
def var(xp: Any, x: Array, *, axis: Axes, keepdims: bool, correction: float) -> Array:
    """The mean square of distances from the mean."""
    return variance(xp, xp.sum, x, axis, keepdims, correction)


@portable("std")
def std(xp: Any, x: Array, *, axis: Axes, keepdims: bool, correction: float) -> Array:
    """The square root of the variance."""
    return xp.sqrt(variance(xp, xp.sum, x, axis, keepdims, correction))


@portable("fraction")
def fraction(xp: Any, x: Array) -> Array:
    """The same values, which are not checked, since that would wait for a device."""
    return x.view()


# --- along an axis --------------------------------------------------------------------------


@portable("linear_recurrence")
def linear_recurrence(xp: Any, a: Array, b: Array, *, axis: int) -> Array:
    """A linear recurrence by recursive doubling: passes over windows of 1, 2, 4, … steps."""
    out = xp.array(b)
    y, factor = xp.moveaxis(out, axis, 0), xp.moveaxis(xp.array(a), axis, 0)
    step = 1
    while step < len(y):
        y[step:] += factor[step:] * y[:-step]
        factor[step:] = factor[step:] * factor[:-step]
        step *= 2
    return out


def running_position(xp: Any, x: Array, axis: int, extreme: Array, latest: Any) -> Array:
    """The last index at which the running extreme is met; from a NaN on, the index of the first.

    Args:
        xp: the array namespace.
        x: the elements.
        axis: the axis to go along.
        extreme: the running extreme.
        latest: the function for running maxima, like NumPy's `accumulate`.
    """
    shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    index = xp.arange(x.shape[axis], dtype="int64").reshape(shape)
    met = x == extreme
    if x.dtype.kind == "f":
        lost = xp.isnan(x)
        met = met | (lost & (xp.cumsum(lost, axis=axis) == 1))
    return latest(xp.where(met, index, 0), axis=axis)


def _accumulate(xp: Any, function: Any) -> Any:
    """A scan with an associative function, in passes over windows of 1, 2, 4, … elements."""

    def accumulate(x: Array, axis: int) -> Array:
        out = xp.array(x)
        y = xp.moveaxis(out, axis, 0)
        step = 1
        while step < len(y):
            y[step:] = function(y[step:], y[:-step])
            step *= 2
        return out

    return accumulate


@portable("running_argmax")
def running_argmax(xp: Any, x: Array, *, axis: int) -> Array:
    """The index of the largest element so far."""
    latest = _accumulate(xp, xp.maximum)
    return running_position(xp, x, axis, latest(x, axis=axis), latest)


@portable("running_argmin")
def running_argmin(xp: Any, x: Array, *, axis: int) -> Array:
    """The index of the smallest element so far."""
    extreme = _accumulate(xp, xp.minimum)(x, axis=axis)
    return running_position(xp, x, axis, extreme, _accumulate(xp, xp.maximum))
