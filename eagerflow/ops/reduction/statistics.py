"""Statistical reductions: variance, quantiles, and reductions that ignore NaN.

Medians and quantiles are based on `order_statistics` (`eagerflow.ops.ordering.sort`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import shifted
from eagerflow.core.op_records.cost_formulas import per_input
from eagerflow.core.op_records.op_facts import of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, scalar, tensor_of
from eagerflow.dims import maximum as largest
from eagerflow.dims import minimum, same
from eagerflow.errors import TensorValueError
from eagerflow.hardware import home_of
from eagerflow.ops.elementwise.logic import isnan, logical_and, logical_not, logical_or
from eagerflow.ops.elementwise.signs_and_rounding import ceil, floor
from eagerflow.ops.reduction.totals import Axis, all, lines, max, mean, min, sum
from eagerflow.ops.rules.arguments import axes_of, check_choice
from eagerflow.ops.rules.gradients import count_of, safe_quotient, spread, where
from eagerflow.ops.rules.promotion import (
    cast,
    floating,
    host_check,
    known_number,
    operands,
    promote_floating,
)
from eagerflow.ops.rules.sizes import at_least
from eagerflow.ops.rules.type_rules import (
    FLOATING,
    INEXACT,
    check_kind,
    real_dtype,
    reduced_shape,
    unary,
)
from eagerflow.types import DTYPES, DTypeLike, TensorType

__all__ = [
    "average",
    "median",
    "nanmax",
    "nanmean",
    "nanmin",
    "nansum",
    "ptp",
    "quantile",
    "std",
    "var",
]

# --- spread ---------------------------------------------------------------------------------


@of_family({"precision": "accumulate", "cost": per_input(4)})
def _variance_type(
    x: TensorType, *, axis: tuple[int, ...], keepdims: bool, correction: float
) -> TensorType:
    check_kind(x, INEXACT)
    return x.like(shape=reduced_shape(x.shape, axis, keepdims), dtype=real_dtype(x.dtype))


def _slope(x: Tensor, axis: tuple[int, ...], correction: float) -> Tensor:
    """Half the derivative of the variance."""
    count = count_of(x, axis)
    scale = _share(count, correction) if type(count) is int else _share_in(x, count, correction)
    return (x - mean(x, axis, keepdims=True)) * scale


def _share(count: int, correction: float) -> float:
    freedom = count - correction
    return 1 / freedom if freedom > 0 else math.nan


def _share_in(x: Tensor, count: Any, correction: float) -> Tensor | float:
    """`_share` of a symbolic count, in the dtype of ``x``."""
    if not math.isfinite(correction):
        return _share(1, correction)
    enough = math.floor(correction) + 1  # least number of elements with a degree of freedom
    share = 1 / (largest(count, enough) - correction)
    free: Any = minimum(largest(count - enough + 1, 0), 1)
    lane = x._lane
    return where(scalar(free, lane) != 0, scalar(share, lane), math.nan)


_var = define(
    "var",
    infer=_variance_type,
    vjp=(
        lambda g, out, x, *, axis, keepdims, correction: (
            spread(g * 2, x, axis, keepdims) * _slope(x, axis, correction)
        ),
    ),
    saved="inputs",
    batch=shifted("axis"),
)


def var(
    x: TensorLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The variance of elements.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to take the variance over; all if None.
        dtype: dtype that ``x`` is converted to first; None keeps that of ``x``.
        correction: subtracted from the number of elements in the divisor (1 for an unbiased
            estimate).
        ddof: NumPy's name of ``correction``, over which it takes precedence.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.var(ef.tensor([1.0, 2.0, 3.0, 4.0]))
    Tensor(1.25, f32[]@cpu:0)
    """
    tensor = floating(x, dtype)
    correction = correction if ddof is None else ddof
    axes = axes_of("var", tensor, axis)
    return bind(_var, tensor, axis=axes, keepdims=keepdims, correction=float(correction))


def _std_vjp(
    g: Tensor, out: Tensor, x: Tensor, *, axis: tuple[int, ...], keepdims: bool, correction: float
) -> Tensor:
    """The rule of `std`: 0 where all elements are equal, as for `abs`."""
    return spread(safe_quotient(g, out), x, axis, keepdims) * _slope(x, axis, correction)


_std = define("std", infer=_variance_type, vjp=(_std_vjp,), batch=shifted("axis"))


def std(
    x: TensorLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The standard deviation of elements; its derivative is 0 where all are equal.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to take the deviation over; all if None.
        dtype: dtype that ``x`` is converted to first; None keeps that of ``x``.
        correction: subtracted from the number of elements in the divisor (1 for the square root
            of an unbiased estimate).
        ddof: NumPy's name of ``correction``, over which it takes precedence.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.round(ef.std(ef.tensor([1.0, 2.0, 3.0, 4.0]), correction=1), 3)
    Tensor(1.291, f32[]@cpu:0)
    """
    tensor = floating(x, dtype)
    correction = correction if ddof is None else ddof
    axes = axes_of("std", tensor, axis)
    return bind(_std, tensor, axis=axes, keepdims=keepdims, correction=float(correction))


def ptp(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest element minus the smallest ("peak to peak").

    Args:
        x: real.
        axis: the axis or axes to search; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements.

    >>> ef.ptp(ef.tensor([3.0, 1.0, 4.0]))
    Tensor(3., f32[]@cpu:0)
    """
    tensor = tensor_of(x)
    return max(tensor, axis, keepdims=keepdims) - min(tensor, axis, keepdims=keepdims)


def average(
    x: TensorLike,
    /,
    axis: Axis = None,
    weights: TensorLike | None = None,
    *,
    keepdims: bool = False,
) -> Tensor:
    """The weighted mean of elements.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to take the mean over; all if None.
        weights: broadcasts against ``x``; a vector may be as long as the single axis named. None
            for equal weights.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.average(ef.tensor([1.0, 2.0]), weights=ef.tensor([3.0, 1.0]))
    Tensor(1.25, f32[]@cpu:0)
    """
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    tensor, w = promote_floating(x, weights)
    axes = axes_of("average", tensor, axis)
    if len(w.shape) == 1 and len(axes) == 1:
        w = functions["reshape"](w, (-1, *(1,) * (len(tensor.shape) - 1 - axes[0])))
    w = functions["broadcast_to"](w, tensor.shape)
    total = sum(tensor * w, axes, keepdims=keepdims)
    return total / sum(w, axes, keepdims=keepdims)


# --- order ----------------------------------------------------------------------------------


def _around(flat: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The order statistics below and above positions along the last axis, and the last one."""
    ranked = functions["sort"](flat, axis=-1)
    below, above = (
        functions["take"](ranked, cast(end, DTYPES["int64"]), axis=-1)
        for end in (floor(position), ceil(position))
    )
    return below, above, ranked[..., -1:]


def _around_one(flat: Tensor, q: float) -> tuple[Tensor, ...]:
    """`_around` for a single fraction known in advance, which needs no sorting."""
    statistics = functions["_order_statistics"](flat, q)
    return tuple(statistics[..., i : i + 1] for i in range(3))


_fraction = unary(
    "fraction",
    FLOATING,
    lambda g, out, x: g,
    saved="none",
    precision="exact",
    storage="view",
    order="input",
    fails_on="values",
)


#: the value of a quantile whose fraction lies between two elements
Method = Literal["linear", "lower", "higher", "midpoint", "nearest"]


def quantile(
    x: TensorLike,
    /,
    q: TensorLike,
    axis: Axis = None,
    *,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """The values below which a fraction ``q`` of the elements lies.

    Args:
        x: floating, at least one element; integers count as float32. NaN if an element is NaN.
        q: floating, from 0 to 1; the axes of ``q`` come first in the result.
        axis: the axis or axes to reduce; all if None.
        method: the value between two elements: their interpolation, one of them, or the mean.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements, the method is unknown, or ``q`` is out of range
            (not checked if it is a tensor on an accelerator).

    >>> ef.quantile(ef.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
    Tensor(2.5, f32[]@cpu:0)
    """
    check_choice("quantile", method, get_args(Method), "a method")
    return _quantile("quantile", x, q, axis, keepdims, method)


def _quantile(
    name: str, x: TensorLike, q: TensorLike, axis: Axis, keepdims: bool, method: Method = "linear"
) -> Tensor:
    fixed = known_number(q)
    number = float(fixed) if type(fixed) in (int, float) else None
    x, q = operands(x, fixed)
    tensor = floating(x)
    axes = axes_of(name, tensor, axis)
    _, _, flat = lines(tensor, axes)
    count = flat.shape[-1]
    if same(count, 0):
        raise TensorValueError(f"{name}: there are no elements", given=f"x={tensor.type}")
    if number is None:  # the op for a single fraction refuses it itself
        flat = at_least(flat, count, 1, f"{name}: there are no elements", "")
    if not host_check(lambda part: (part >= 0) & (part <= 1), q):
        raise TensorValueError(f"{name}: q is out of range", given=f"q={q}", expected="0 to 1")
    wide = DTYPES["float64"]
    if number is None:
        fraction = bind(_fraction, cast(q, wide))
    else:
        fraction = scalar(number, home_of(tensor.device).lanes[wide])
    position = functions["reshape"](fraction, (-1,)) * (count - 1)
    below, above, last = _around(flat, position) if number is None else _around_one(flat, number)
    taken = between(below, above, position, method)
    values = where(isnan(last), math.nan, taken)  # NaNs are sorted to the end
    values = functions["moveaxis"](values, -1, 0)
    rest = reduced_shape(tensor.shape, axes, keepdims)
    return functions["reshape"](values, (*fraction.shape, *rest))


def between(below: Tensor, above: Tensor, position: Tensor, method: Method) -> Tensor:
    """The quantile between the elements below and above a position in the order.

    Args:
        below: the elements at the position rounded down.
        above: the elements at the position rounded up.
        position: float64, 0 for the smallest element.
        method: as for `quantile`.
    """
    if method == "lower":
        return below
    if method == "higher":
        return above
    share = position - floor(position)
    if method == "nearest":  # ties go to the even position
        even = floor(position) % 2 == 0
        return where(logical_or(share < 0.5, logical_and(share == 0.5, even)), below, above)
    tie = below == above  # as infinities may be, whose difference is NaN
    step = where(tie, 0.0, above) - where(tie, 0.0, below)
    if method == "midpoint":
        share = 0.5 * ceil(share)
    taken: Tensor = below + step * cast(share, below.dtype)
    return taken


def median(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The median: the middle element in order, or the mean of the middle two.

    Args:
        x: floating, at least one element; integers count as float32. NaN if an element is NaN.
        axis: the axis or axes to reduce; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements.

    >>> ef.median(ef.tensor([3.0, 1.0, 2.0]))
    Tensor(2., f32[]@cpu:0)
    """
    return _quantile("median", x, 0.5, axis, keepdims)


# --- ignoring NaN ---------------------------------------------------------------------------


def nansum(
    x: TensorLike, /, axis: Axis = None, dtype: DTypeLike = None, *, keepdims: bool = False
) -> Tensor:
    """The sum of the elements that are not NaN.

    Args:
        x: numeric or bool.
        axis: the axis or axes to sum over; all if None.
        dtype: as for `sum`.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.nansum(ef.tensor([1.0, float("nan"), 2.0]))
    Tensor(3., f32[]@cpu:0)
    """
    return sum(without_nan(x, 0.0)[0], axis, dtype, keepdims=keepdims)


def nanmean(
    x: TensorLike, /, axis: Axis = None, dtype: DTypeLike = None, *, keepdims: bool = False
) -> Tensor:
    """The mean of the elements that are not NaN.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to take the mean over; all if None.
        dtype: dtype that ``x`` is converted to first; None keeps that of ``x``.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.nanmean(ef.tensor([1.0, float("nan"), 2.0]))
    Tensor(1.5, f32[]@cpu:0)
    """
    tensor = floating(x, dtype)
    count = sum(logical_not(isnan(tensor)), axis, keepdims=keepdims)
    return nansum(tensor, axis, keepdims=keepdims) / cast(count, tensor.dtype)


def nanmax(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest of the elements that are not NaN; NaN if all are.

    Args:
        x: real, or bool.
        axis: the axis or axes to search; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements.

    >>> ef.nanmax(ef.tensor([1.0, float("nan"), 2.0]))
    Tensor(2., f32[]@cpu:0)
    """
    return _nan_extreme(max, -math.inf, x, axis, keepdims)


def nanmin(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The smallest of the elements that are not NaN; NaN if all are.

    Args:
        x: real, or bool.
        axis: the axis or axes to search; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements.

    >>> ef.nanmin(ef.tensor([1.0, float("nan"), 2.0]))
    Tensor(1., f32[]@cpu:0)
    """
    return _nan_extreme(min, math.inf, x, axis, keepdims)


def _nan_extreme(
    extreme: Callable[..., Tensor], worst: float, x: TensorLike, axis: Axis, keepdims: bool
) -> Tensor:
    kept, lost = without_nan(x, worst)
    values = extreme(kept, axis, keepdims=keepdims)
    if lost is None:
        return values
    return where(all(lost, axis, keepdims=keepdims), math.nan, values)


def without_nan(x: TensorLike, instead: float) -> tuple[Tensor, Tensor | None]:
    """The elements with a number in place of NaN, and where NaN was.

    Args:
        x: any dtype.
        instead: the number.

    Returns:
        The elements, and a mask; None for a dtype without NaN.
    """
    tensor = tensor_of(x)
    if not tensor.dtype.is_inexact:
        return tensor, None
    lost = isnan(tensor)
    return where(lost, instead, tensor), lost
