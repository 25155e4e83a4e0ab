"""Reductions for the CPU: methods of NumPy's ufuncs, without the Python code around them."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.portable.reduction import running_position, sum_to_axes, variance
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]

for _op, _ufunc in {
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}.items():
    special(_op, "cpu")(_ufunc.reduce)


# --- sums -----------------------------------------------------------------------------------

_add: Any = np.add.reduce
_BLOCK = 512  # elements that are added one after the other; their rounding errors add up


@special("sum", "cpu")
def total(x: Array, *, axis: Axes, keepdims: bool) -> Any:
    """Sums; long ones by blocks, except along the fastest axis, where NumPy adds pairwise."""
    short = len(axis) == 1 and x.shape[axis[0]] < 2 * _BLOCK
    if short or x.size < 4 * _BLOCK or x.dtype.char not in "fF" or _has_fastest(x, axis):
        return _add(x, axis, None, None, keepdims)
    out = x
    for a in axis:
        out = _by_blocks(out, a)
    return out if keepdims else out.reshape([d for i, d in enumerate(x.shape) if i not in axis])


def _has_fastest(x: Array, axis: Axes) -> bool:
    """Whether ``axis`` has the axis whose elements are next to each other in memory."""
    strides = [abs(s) if d > 1 else x.nbytes for s, d in zip(x.strides, x.shape, strict=True)]
    return strides.index(min(strides)) in axis


def _by_blocks(x: Array, axis: int) -> Any:
    """Sums over one axis, which is kept: over blocks, then recursively over their sums."""
    count = x.shape[axis] // _BLOCK
    if count < 2:
        return _add(x, axis=axis, keepdims=True)
    before, after = (slice(None),) * axis, x.shape[axis + 1 :]
    blocks = x[(*before, slice(count * _BLOCK))].reshape((*x.shape[:axis], count, _BLOCK, *after))
    rest = _add(x[(*before, slice(count * _BLOCK, None))], axis=axis, keepdims=True)
    return _by_blocks(_add(blocks, axis=axis + 1), axis) + rest


@special("sum_to", "cpu")
def sum_to(x: Array, *, shape: tuple[int, ...]) -> Any:
    """As the portable kernel, with the sums of `total`."""
    axis = sum_to_axes(x, shape)
    return total(x, axis=axis, keepdims=False).reshape(shape) if axis else x.view()


@special("mean", "cpu")
def mean(x: Array, *, axis: Axes, keepdims: bool) -> Any:
    """As the portable kernel, with the sums of `total`."""
    count = 1
    for a in axis:
        count *= x.shape[a]
    return np.divide(total(x, axis=axis, keepdims=keepdims), count or np.nan)


@special("var", "cpu")
def var(x: Array, *, axis: Axes, keepdims: bool, correction: float) -> Any:
    """As the portable kernel, with the sums of `total`."""
    return variance(np, total, x, axis, keepdims, correction)


@special("std", "cpu")
def std(x: Array, *, axis: Axes, keepdims: bool, correction: float) -> Any:
    """The square root of the variance."""
    return np.sqrt(variance(np, total, x, axis, keepdims, correction))


@special("fraction", "cpu")
def fraction(x: Array) -> Array:
    """The same array, if all elements are from 0 to 1."""
    if not ((x >= 0) & (x <= 1)).all():
        raise ValueError("a fraction is out of range 0 to 1")
    return x.view()


# --- along an axis --------------------------------------------------------------------------

for _op, _extreme in {"running_argmax": np.maximum, "running_argmin": np.minimum}.items():

    def _running(x: Array, *, axis: int, extreme: np.ufunc = _extreme) -> Any:
        best = extreme.accumulate(x, axis=axis)
        return running_position(np, x, axis, best, np.maximum.accumulate)

    special(_op, "cpu")(_running)
