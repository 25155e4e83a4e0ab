"""Functions under NumPy's names, where the array API has another name or none.

The array API's name is the main one; NumPy's name is an addition, with NumPy's arguments. Exact
synonyms (`absolute`, `arccos`, …) are defined next to their functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eagerflow.core.moves_to_scopes import device_wins
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.creation.arrays import tensor, zeros
from eagerflow.ops.creation.ranges import arange, linspace
from eagerflow.ops.elementwise.arithmetic import floor_divide, remainder
from eagerflow.ops.elementwise.logic import bitwise_invert, isnan, logical_not
from eagerflow.ops.elementwise.powers_and_logarithms import sqrt, square
from eagerflow.ops.elementwise.signs_and_rounding import abs, round
from eagerflow.ops.indexing.take_and_scatter import take
from eagerflow.ops.indexing.where_and_nonzero import where
from eagerflow.ops.ordering.sets import unique_all, unique_counts, unique_inverse, unique_values
from eagerflow.ops.ordering.sort import searchsorted
from eagerflow.ops.reduction.statistics import Method, nansum, quantile
from eagerflow.ops.reduction.totals import Axis, mean, sum
from eagerflow.ops.rules.arguments import DeviceLike, axis_of, sequence_of
from eagerflow.ops.rules.promotion import cast, floating, promote, promote_floating
from eagerflow.ops.shape.joining import concat, unstack
from eagerflow.ops.shape.reshape_and_transpose import atleast_3d, moveaxis, permute_dims, reshape
from eagerflow.types import DTYPES, DTypeLike, as_dtype

__all__ = [
    "around",
    "array",
    "concatenate",
    "cov",
    "digitize",
    "divmod",
    "dstack",
    "geomspace",
    "invert",
    "nanstd",
    "nanvar",
    "percentile",
    "transpose",
    "trapezoid",
    "unique",
]

array, around, invert = tensor, round, bitwise_invert


# --- shapes ---------------------------------------------------------------------------------


def concatenate(arrays: Sequence[TensorLike], /, axis: int | None = 0) -> Tensor:
    """Join arrays along an existing axis: `concat`.

    Args:
        arrays: arrays of equal shapes except along this axis; they promote to one dtype.
        axis: the axis; None joins the flattened arrays.

    Raises:
        ShapeError: the shapes do not fit, or there is no array.

    >>> ef.concatenate([ef.tensor([[1], [2]]), ef.tensor([[3], [4]])], 1)
    Tensor([[1, 3],
            [2, 4]], i64[2,2]@cpu:0)
    """
    return concat(arrays, axis=axis)


def dstack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Join arrays along the third axis.

    Args:
        arrays: arrays of equal shapes except along this axis; they promote to one dtype.

    >>> ef.dstack([ef.tensor([1, 2]), ef.tensor([3, 4])])
    Tensor([[[1, 3],
             [2, 4]]], i64[1,2,2]@cpu:0)
    """
    return concat([atleast_3d(x) for x in sequence_of("dstack", arrays)], axis=2)


def transpose(x: TensorLike, /, axes: Sequence[int] | None = None) -> Tensor:
    """``x`` with its axes in another order, by default reversed.

    Args:
        x: any dtype.
        axes: each axis once, in the order wanted.

    Raises:
        AxisError: ``axes`` is not a permutation of the axes.

    >>> ef.transpose(ef.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    operand = tensor_of(x)
    order = tuple(range(len(operand.shape)))[::-1] if axes is None else axes
    return permute_dims(operand, order)


# --- numbers --------------------------------------------------------------------------------


def divmod(x1: TensorLike, x2: TensorLike, /) -> tuple[Tensor, Tensor]:
    """The quotient, rounded down, and the remainder.

    Args:
        x1: real; broadcasts.
        x2: likewise; both promote to one dtype.

    >>> ef.divmod(ef.tensor([7, -7]), 2)
    (Tensor([ 3, -4], i64[2]@cpu:0), Tensor([1, 1], i64[2]@cpu:0))
    """
    return floor_divide(x1, x2), remainder(x1, x2)


@device_wins
def geomspace(
    start: float,
    stop: float,
    /,
    num: int = 50,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` values from ``start`` to ``stop``, in geometric progression.

    Args:
        start: the first value, a real number other than 0.
        stop: the last value, or without ``endpoint`` the value after it; of the same sign.
        num: number of values.
        dtype: float32 by default.
        device: device of the result; by default the current device.
        endpoint: whether ``stop`` is among the values.

    Raises:
        TensorValueError: a bound is 0, not finite, or of the other sign.

    >>> ef.geomspace(1, 1000, 4)
    Tensor([   1.,   10.,  100., 1000.], f32[4]@cpu:0)
    """
    first, last = float(start), float(stop)
    if not (first * last > 0 and math.isfinite(first) and math.isfinite(last)):
        raise TensorValueError(
            "geomspace: the bounds must be finite, not 0, and of one sign",
            given=f"start={start}, stop={stop}",
        )
    low, high = (math.log10(math.fabs(v)) for v in (first, last))
    exponents = linspace(low, high, num, dtype=DTYPES["float64"], device=device, endpoint=endpoint)
    values = 10.0**exponents * math.copysign(1.0, first)
    index = arange(num, device=device)
    if endpoint:  # both ends exactly, or the first if there is only one value
        values = where(index == num - 1, last, values)
    values = where(index == 0, first, values)
    return cast(values, DTYPES["float32"] if dtype is None else as_dtype(dtype))


def trapezoid(
    y: TensorLike, x: TensorLike | None = None, /, dx: float = 1.0, axis: int = -1
) -> Tensor:
    """The integral of values by the trapezoidal rule.

    Args:
        y: the values; floating or complex, integers count as float32.
        x: the positions of the values: a vector, or of the shape of ``y``; evenly spaced if None.
        dx: the distance between positions without ``x``.
        axis: the axis to integrate along.

    >>> ef.trapezoid(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([4.0, 6.0, 8.0]))
    Tensor(8., f32[]@cpu:0)
    """
    if x is None:
        values = floating(y)
        width: Any = dx
    else:
        values, points = promote_floating(y, x)
        if len(points.shape) != 1:
            points = moveaxis(points, axis_of("trapezoid", points, axis), -1)
        width = points[..., 1:] - points[..., :-1]
    values = moveaxis(values, axis_of("trapezoid", values, axis), -1)
    heights = (values[..., 1:] + values[..., :-1]) * 0.5
    return sum(heights * width, -1)


# --- statistics -----------------------------------------------------------------------------


def percentile(
    x: TensorLike,
    /,
    q: TensorLike,
    axis: Axis = None,
    *,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """The values below which ``q`` percent of the elements lie: `quantile` of q / 100.

    Args:
        x: floating, at least one element; integers count as float32. NaN if an element is NaN.
        q: from 0 to 100; the axes of ``q`` come first in the result.
        axis: the axis or axes to reduce; all if None.
        method: as for `quantile`.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements, the method is unknown, or ``q`` is out of range.

    >>> ef.percentile(ef.tensor([1.0, 2.0, 3.0, 4.0]), 50)
    Tensor(2.5, f32[]@cpu:0)
    """
    if isinstance(q, (int, float)):
        if not 0 <= q <= 100:
            raise TensorValueError(
                "percentile: q is out of range", given=f"q={q}", expected="0 to 100"
            )
        return quantile(x, q / 100, axis, method=method, keepdims=keepdims)
    (percent,) = promote(q, dtype=DTYPES["float64"])
    return quantile(x, percent / 100.0, axis, method=method, keepdims=keepdims)


def cov(
    x: TensorLike, y: TensorLike | None = None, /, *, rowvar: bool = True, correction: float = 1.0
) -> Tensor:
    """The covariance matrix of variables.

    Args:
        x: floating or complex, integers count as float32: a row for each variable and a column
            for each observation, or one variable.
        y: more variables, likewise.
        rowvar: whether rows are variables; else columns are.
        correction: subtracted from the number of observations in the divisor.

    Returns:
        A matrix; a scalar for one variable.

    Raises:
        ShapeError: there are more than two axes, or ``x`` and ``y`` differ in observations.

    >>> ef.cov(ef.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    Tensor([[ 1., -1.],
            [-1.,  1.]], f32[2,2]@cpu:0)
    """
    parts = promote_floating(x) if y is None else promote_floating(x, y)
    rows = concat([_variables(part, rowvar) for part in parts], axis=0)
    rows = rows - mean(rows, 1, keepdims=True)
    covariance = rows @ transpose(rows.conj()) * _reciprocal(rows, correction)
    return reshape(covariance, ()) if covariance.shape == (1, 1) else covariance


def _reciprocal(rows: Tensor, correction: Any) -> Tensor:
    """The reciprocal of the degrees of freedom, NaN if there are none."""
    freedom = as_tensor(rows.shape[1] - correction, DTYPES["float64"], rows.device)
    some = freedom > 0.0
    return cast(where(some, 1.0 / where(some, freedom, 1.0), math.nan), rows.dtype)


def _variables(x: Tensor, rowvar: bool) -> Tensor:
    if len(x.shape) > 2:
        raise ShapeError("cov: takes a matrix or a vector", given=str(type_of(x)))
    if len(x.shape) < 2:
        return reshape(x, (1, -1))
    return x if rowvar else transpose(x)


def nanvar(
    x: TensorLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The variance of the elements that are not NaN; NaN if these are too few.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to take the variance over; all if None.
        dtype: dtype that ``x`` is converted to first; None keeps that of ``x``.
        correction: subtracted from the number of elements in the divisor.
        ddof: NumPy's name of ``correction``, over which it takes precedence.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.nanvar(ef.tensor([1.0, float("nan"), 3.0]))
    Tensor(1., f32[]@cpu:0)
    """
    values = floating(x, dtype)
    correction = correction if ddof is None else ddof
    lost = isnan(values)
    kept = cast(sum(logical_not(lost), axis, keepdims=True), values.dtype)
    middle = nansum(values, axis, keepdims=True) / where(kept == 0, 1.0, kept)
    off = where(lost, 0.0, values - middle)
    total = sum(square(abs(off) if off.dtype.is_complex else off), axis, keepdims=keepdims)
    count = sum(logical_not(lost), axis, keepdims=keepdims)
    freedom = cast(count - correction, total.dtype)
    return total / where(freedom > 0, freedom, math.nan)


def nanstd(
    x: TensorLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The standard deviation of the elements that are not NaN; NaN if these are too few.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to take the deviation over; all if None.
        dtype: dtype that ``x`` is converted to first; None keeps that of ``x``.
        correction: subtracted from the number of elements in the divisor.
        ddof: NumPy's name of ``correction``, over which it takes precedence.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.nanstd(ef.tensor([1.0, float("nan"), 3.0]))
    Tensor(1., f32[]@cpu:0)
    """
    variance = nanvar(x, axis, dtype, correction=correction, ddof=ddof, keepdims=keepdims)
    zero = variance == 0  # the derivative is 0 there, as for `std`
    return where(zero, 0.0, sqrt(where(zero, 1.0, variance)))


# --- search and sets ------------------------------------------------------------------------


def digitize(x: TensorLike, bins: TensorLike, /, right: bool = False) -> Tensor:
    """The bin of each value: the number of edges at or below it.

    Args:
        x: real, of any shape.
        bins: the edges, in ascending order.
        right: whether a value on an edge counts as below that edge.

    Returns:
        int64, in the shape of ``x``; 0 below the first edge.

    >>> ef.digitize(ef.tensor([0.5, 1.0, 9.0]), ef.tensor([0.0, 1.0, 2.0]))
    Tensor([1, 2, 3], i64[3]@cpu:0)
    """
    return searchsorted(bins, x, side="left" if right else "right")


def unique(
    x: TensorLike,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The distinct values, sorted; each NaN is distinct.

    Args:
        x: any dtype; with ``axis`` not complex.
        return_index: whether to return the index of the first occurrence of each value.
        return_inverse: whether to return for each element the index of its value.
        return_counts: whether to return the number of occurrences of each value.
        axis: find distinct slices along this axis, such as rows for 0, in lexicographic order;
            indices and counts are of slices. None finds distinct elements.

    Returns:
        A tensor; a tuple of the values and the further results requested, in this order.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.unique(ef.tensor([3, 1, 3]), return_counts=True)
    (Tensor([1, 3], i64[2]@cpu:0), Tensor([1, 2], i64[2]@cpu:0))
    >>> ef.unique(ef.tensor([[2, 1], [0, 5], [2, 1]]), axis=0)
    Tensor([[0, 5],
            [2, 1]], i64[2,2]@cpu:0)
    """
    wanted = (return_index, return_inverse, return_counts)
    if axis is not None:
        parts = _unique_slices(tensor_of(x), axis)
        return parts[0] if not any(wanted) else _asked(parts, wanted)
    if not any(wanted):
        return unique_values(x)
    if wanted == (False, False, True):
        return tuple(unique_counts(x))
    return _asked(unique_all(x), wanted)


def _unique_slices(x: Tensor, axis: int) -> tuple[Tensor, ...]:
    """`unique_all` of slices, by numbers that are in the order of the slices."""
    axis = axis_of("unique", x, axis)
    rows = moveaxis(x, axis, 0)
    rows = reshape(rows, (x.shape[axis], math.prod(x.shape[:axis] + x.shape[axis + 1 :])))
    order = zeros(x.shape[axis], dtype="int64", device=x.device)
    for column in unstack(rows, axis=1):
        values, ranks = unique_inverse(column)
        # ranks again, so that products stay below the square of their number
        order = unique_inverse(order * values.shape[0] + ranks).inverse_indices
    groups = unique_all(order)
    return take(x, groups.indices, axis=axis), *groups[1:]


def _asked(parts: Sequence[Tensor], wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    return parts[0], *[part for part, ask in zip(parts[1:], wanted, strict=True) if ask]
