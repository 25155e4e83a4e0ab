"""NumPy's names for functions of samples: derivatives, filters, correlation, missing values.

Missing values are NaN.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, get_args

from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.dims import same
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.creation.dtypes import astype
from eagerflow.ops.elementwise.arithmetic import clip, maximum, minimum
from eagerflow.ops.elementwise.logic import isfinite, isnan, logical_and, logical_not
from eagerflow.ops.elementwise.powers_and_logarithms import sqrt
from eagerflow.ops.elementwise.signs_and_rounding import ceil, floor
from eagerflow.ops.indexing.take_and_scatter import take_along_axis
from eagerflow.ops.indexing.where_and_nonzero import where
from eagerflow.ops.linalg.products import matmul
from eagerflow.ops.names.numpy_names import cov
from eagerflow.ops.ordering.sort import sort
from eagerflow.ops.reduction.cumulative import cumprod, cumsum, diff
from eagerflow.ops.reduction.statistics import Method, between, without_nan
from eagerflow.ops.reduction.totals import Axis, lines, prod, sum
from eagerflow.ops.rules.arguments import axes_of, check_choice
from eagerflow.ops.rules.promotion import (
    cast,
    floating,
    host_check,
    known_number,
    promote,
)
from eagerflow.ops.rules.type_rules import reduced_shape
from eagerflow.ops.shape.diagonals import diagonal
from eagerflow.ops.shape.flip_roll_repeat import flip
from eagerflow.ops.shape.joining import concat, stack
from eagerflow.ops.shape.padding import pad
from eagerflow.ops.shape.reshape_and_transpose import broadcast_to, expand_dims, moveaxis, reshape
from eagerflow.types import DTYPES, DTypeLike

__all__ = [
    "convolve",
    "corrcoef",
    "correlate",
    "fmax",
    "fmin",
    "gradient",
    "nancumprod",
    "nancumsum",
    "nanmedian",
    "nanpercentile",
    "nanprod",
    "nanquantile",
]

Mode = Literal["full", "same", "valid"]
_DOUBLE: Final = DTYPES["float64"]


# --- derivatives of samples -----------------------------------------------------------------


def gradient(
    x: TensorLike, /, *spacing: TensorLike, axis: Axis = None, edge_order: Literal[1, 2] = 1
) -> Any:
    """The numerical derivative of samples by central differences; one-sided at the ends.

    For derivatives of functions see `eagerflow.grad`.

    Args:
        x: samples, floating or complex; integers count as float32.
        spacing: none for a distance of 1; a number or a vector of positions for all axes; or one
            of these per axis.
        axis: the axis or axes; all if None.
        edge_order: the order of the differences at the ends.

    Returns:
        A tensor like ``x`` for one axis; a tuple of such tensors for several axes.

    Raises:
        ShapeError: there are fewer than ``edge_order + 1`` samples along an axis, or the numbers of
            positions and samples differ.
        TensorValueError: there is neither one spacing nor one per axis, or another ``edge_order``.

    >>> ef.gradient(ef.tensor([1.0, 2.0, 4.0, 7.0]))
    Tensor([1. , 1.5, 2.5, 3. ], f32[4]@cpu:0)
    >>> ef.gradient(ef.tensor([1.0, 4.0, 9.0]), ef.tensor([1.0, 2.0, 3.0]))
    Tensor([3., 4., 5.], f32[3]@cpu:0)
    """
    samples = floating(x)
    axes = axes_of("gradient", samples, axis)
    if len(spacing) not in (0, 1, len(axes)):
        raise TensorValueError(
            "gradient: there is neither one spacing nor one for each axis",
            given=f"{len(spacing)} for {len(axes)} axes",
        )
    if edge_order not in (1, 2):
        raise TensorValueError("gradient: edge_order is 1 or 2", given=f"{edge_order}")
    steps = spacing if len(spacing) == len(axes) else (spacing or (1.0,)) * len(axes)
    parts = tuple(
        _slope(samples, at, step, edge_order) for at, step in zip(axes, steps, strict=True)
    )
    return parts[0] if len(parts) == 1 else parts


def _slope(x: Tensor, axis: int, step: TensorLike, edge_order: int) -> Tensor:
    x = moveaxis(x, axis, -1)
    count = x.shape[-1]
    if count < edge_order + 1:
        raise ShapeError(
            "gradient: there are too few samples along an axis",
            given=str(type_of(x)), expected=f"{edge_order + 1} or more",
        )  # fmt: skip
    step = step if isinstance(step, (int, float)) else tensor_of(step)
    if isinstance(step, (int, float)) or step.shape == ():
        widths: Any = step
        inner = (x[..., 2:] - x[..., :-2]) / (2 * step)
        left = right = step, step
    else:
        (points,) = promote(step, dtype=x.dtype)
        if points.shape != (count,):
            raise ShapeError(
                "gradient: there is not one position for each sample",
                given=f"{type_of(points)} for {type_of(x)}",
            )
        widths = diff(points)
        a, b = widths[:-1], widths[1:]
        # between equal widths the middle sample does not count, so neither does its NaN
        middle = x[..., 1:-1]
        middle = where(logical_and(a == b, logical_not(isfinite(middle))), 0.0, middle)
        below = middle - x[..., :-2]
        above = x[..., 2:] - middle
        inner = (below * (b / a) + above * (a / b)) / (a + b)
        left, right = (widths[0], widths[min(1, count - 2)]), (widths[-1], widths[-2 % (count - 1)])
    first = _end(x[..., 0], x[..., 1], x[..., min(2, count - 1)], *left, edge_order)
    last = _end(x[..., -1], x[..., -2], x[..., -3 % count], *right, edge_order)
    ends = expand_dims(first, -1), expand_dims(-last, -1)
    return moveaxis(concat([ends[0], inner, ends[1]], axis=-1), -1, axis)


def _end(x0: Tensor, x1: Tensor, x2: Tensor, a: Any, b: Any, order: int) -> Tensor:
    """The one-sided derivative at the first of three samples at distances ``a`` and ``b``."""
    near: Tensor = (x1 - x0) / a
    if order == 1:
        return near
    far: Tensor = (x2 - x1) / b
    slope: Tensor = near + (near - far) * (a / (a + b))
    return slope


# --- filters --------------------------------------------------------------------------------


def convolve(a: TensorLike, v: TensorLike, /, mode: Mode = "full") -> Tensor:
    """The convolution of two vectors.

    Args:
        a: a vector of numbers.
        v: likewise; both promote to one dtype.
        mode: ``"full"`` for all overlaps, ``"same"`` for as many as the longer vector has
            elements, ``"valid"`` for complete overlaps only.

    Raises:
        ShapeError: ``a`` or ``v`` is no vector, or is empty.
        TensorValueError: the mode is unknown.

    >>> ef.convolve(ef.tensor([1, 2, 3]), ef.tensor([0, 1, 2]))
    Tensor([0, 1, 4, 7, 6], i64[5]@cpu:0)
    """
    first, second = promote(a, v)
    return _convolve("convolve", first, second, mode)


def correlate(a: TensorLike, v: TensorLike, /, mode: Mode = "valid") -> Tensor:
    """The cross-correlation of two vectors: element k is the sum of a[n + k] times conj(v[n]).

    Args:
        a: a vector of numbers.
        v: likewise; both promote to one dtype.
        mode: as for `convolve`.

    Raises:
        ShapeError: ``a`` or ``v`` is no vector, or is empty.
        TensorValueError: the mode is unknown.

    >>> ef.correlate(ef.tensor([1, 2, 3]), ef.tensor([0, 1, 2]), "full")
    Tensor([2, 5, 8, 3, 0], i64[5]@cpu:0)
    """
    first, second = promote(a, v)
    _check_vectors("correlate", first, second)
    if second.shape[0] > first.shape[0]:  # the lags count from the other vector
        return flip(correlate(second, first, mode).conj(), axis=0)
    return _convolve("correlate", first, flip(second.conj(), axis=0), mode)


def _convolve(name: str, a: Tensor, v: Tensor, mode: str) -> Tensor:
    if mode not in ("full", "same", "valid"):
        raise TensorValueError(f"{name}: there is no mode {mode!r}", expected="full, same, valid")
    _check_vectors(name, a, v)
    if v.shape[0] > a.shape[0]:
        a, v = v, a
    count, taps = int(a.shape[0]), int(v.shape[0])
    padded = pad(a, (taps - 1, taps - 1))
    windows = stack([padded[i : i + count + taps - 1] for i in range(taps)], axis=1)
    whole = matmul(windows, flip(v, axis=0))
    if mode == "full":
        return whole
    if mode == "valid":
        return whole[taps - 1 : count]
    start = (taps - 1) // 2
    return whole[start : start + count]


def _check_vectors(name: str, *vectors: Tensor) -> None:
    for x in vectors:
        if len(x.shape) != 1 or x.shape[0] == 0:
            raise ShapeError(f"{name}: takes vectors with elements", given=str(type_of(x)))


# --- correlation ----------------------------------------------------------------------------


def corrcoef(
    x: TensorLike, y: TensorLike | None = None, /, rowvar: bool = True, *, dtype: DTypeLike = None
) -> Tensor:
    """The matrix of correlation coefficients of variables: `cov`, normalised.

    Args:
        x: as for `cov`: a row for each variable and a column for each observation.
        y: more variables, likewise.
        rowvar: whether rows are variables; else columns are.
        dtype: dtype that ``x`` is converted to first; None keeps that of ``x``.

    Returns:
        A matrix; a scalar for one variable. NaN for constant variables.

    Raises:
        ShapeError: there are more than two axes, or ``x`` and ``y`` differ in observations.

    >>> ef.corrcoef(ef.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    Tensor([[ 1., -1.],
            [-1.,  1.]], f32[2,2]@cpu:0)
    """
    covariance = cov(x if dtype is None else astype(tensor_of(x), dtype), y, rowvar=rowvar)
    if not covariance.shape:
        return covariance / covariance
    width = sqrt(diagonal(covariance).real)
    whole = covariance / expand_dims(width, 1) / expand_dims(width, 0)
    return whole if whole.dtype.is_complex else clip(whole, -1.0, 1.0)


# --- missing values -------------------------------------------------------------------------


def fmax(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The larger of two elements; where one is NaN, the other.

    Args:
        x1: real; broadcasts.
        x2: likewise; both promote to one dtype.

    >>> ef.fmax(ef.tensor([1.0, float("nan")]), 0.5)
    Tensor([1. , 0.5], f32[2]@cpu:0)
    """
    a, b = promote(x1, x2)
    return maximum(where(isnan(a), b, a), where(isnan(b), a, b))


def fmin(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The smaller of two elements; where one is NaN, the other.

    Args:
        x1: real; broadcasts.
        x2: likewise; both promote to one dtype.

    >>> ef.fmin(ef.tensor([1.0, float("nan")]), 0.5)
    Tensor([0.5, 0.5], f32[2]@cpu:0)
    """
    a, b = promote(x1, x2)
    return minimum(where(isnan(a), b, a), where(isnan(b), a, b))


def nanprod(x: TensorLike, /, axis: Axis = None, dtype: DTypeLike = None, *,
            keepdims: bool = False) -> Tensor:  # fmt: skip
    """The product of the elements that are not NaN; 1 if all are.

    Args:
        x: numeric.
        axis: the axis or axes; all if None.
        dtype: as for `prod`.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.nanprod(ef.tensor([2.0, float("nan"), 3.0]))
    Tensor(6., f32[]@cpu:0)
    """
    return prod(without_nan(x, 1)[0], axis, dtype, keepdims=keepdims)


def nancumsum(x: TensorLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Tensor:
    """The cumulative sum, with NaN as 0.

    Args:
        x: numeric.
        axis: the axis; None takes the flattened array.
        dtype: as for `cumulative_sum`.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.nancumsum(ef.tensor([1.0, float("nan"), 3.0]))
    Tensor([1., 1., 4.], f32[3]@cpu:0)
    """
    return cumsum(without_nan(x, 0)[0], axis, dtype)


def nancumprod(x: TensorLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Tensor:
    """The cumulative product, with NaN as 1.

    Args:
        x: numeric.
        axis: the axis; None takes the flattened array.
        dtype: as for `cumulative_prod`.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.nancumprod(ef.tensor([2.0, float("nan"), 3.0]))
    Tensor([2., 2., 6.], f32[3]@cpu:0)
    """
    return cumprod(without_nan(x, 1)[0], axis, dtype)


def nanmedian(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The median of the elements that are not NaN; NaN if there are none.

    Args:
        x: floating; integers count as float32.
        axis: the axis or axes; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.nanmedian(ef.tensor([3.0, float("nan"), 1.0]))
    Tensor(2., f32[]@cpu:0)
    """
    return _nanquantile("nanmedian", x, 0.5, axis, keepdims, "linear")


def nanquantile(
    x: TensorLike,
    /,
    q: TensorLike,
    axis: Axis = None,
    *,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """`quantile` of the elements that are not NaN; NaN if there are none.

    Args:
        x: floating; integers count as float32.
        q: floating, from 0 to 1; the axes of ``q`` come first in the result.
        axis: the axis or axes; all if None.
        method: as for `quantile`.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: the method is unknown, or ``q`` is out of range (not checked on
            accelerators).

    >>> ef.nanquantile(ef.tensor([1.0, float("nan"), 3.0]), 0.75)
    Tensor(2.5, f32[]@cpu:0)
    """
    return _nanquantile("nanquantile", x, q, axis, keepdims, method)


def nanpercentile(
    x: TensorLike,
    /,
    q: TensorLike,
    axis: Axis = None,
    *,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """`percentile` of the elements that are not NaN; NaN if there are none.

    Args:
        x: floating; integers count as float32.
        q: from 0 to 100; the axes of ``q`` come first in the result.
        axis: the axis or axes; all if None.
        method: as for `quantile`.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: the method is unknown, or ``q`` is out of range (not checked on
            accelerators).

    >>> ef.nanpercentile(ef.tensor([1.0, float("nan"), 3.0]), 75)
    Tensor(2.5, f32[]@cpu:0)
    """
    fraction = q / 100 if isinstance(q, (int, float)) else tensor_of(q) / 100
    return _nanquantile("nanpercentile", x, fraction, axis, keepdims, method)


def _nanquantile(
    name: str, x: TensorLike, q: TensorLike, axis: Axis, keepdims: bool, method: Method
) -> Tensor:
    check_choice(name, method, get_args(Method), "a method")
    tensor = floating(x)
    q = known_number(q)
    given = tensor_of(q) if isinstance(q, AbstractArray) else as_tensor(q, _DOUBLE, tensor.device)
    fraction = cast(given, _DOUBLE)
    if not host_check(lambda part: (part >= 0) & (part <= 1), fraction):
        raise TensorValueError(f"{name}: q is out of range", given=f"q={q!r}", expected="0 to 1")
    axes = axes_of(name, tensor, axis)
    _, _, flat = lines(tensor, axes)
    if same(flat.shape[-1], 0):  # as if there were one, and it were missing
        flat = pad(flat, ((0, 0),) * (len(flat.shape) - 1) + ((0, 1),), constant_values=math.nan)
    ranked = sort(flat, axis=-1)
    count = sum(logical_not(isnan(flat)), -1, keepdims=True)
    position = reshape(fraction, (-1,)) * cast(maximum(count - 1, 0), _DOUBLE)
    low, high = (cast(end(position), DTYPES["int64"]) for end in (floor, ceil))
    none = broadcast_to(count == 0, low.shape)
    ranked = where(count == 0, 0.0, ranked)
    below, above = (take_along_axis(ranked, at, axis=-1) for at in (low, high))
    taken = between(below, above, position, method)
    values = moveaxis(where(none, math.nan, taken), -1, 0)
    return reshape(values, (*fraction.shape, *reduced_shape(tensor.shape, axes, keepdims)))
