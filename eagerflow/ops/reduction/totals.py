"""Reductions over axes: sums, products, extremes, logic, positions."""

from __future__ import annotations

import math
from collections.abc import Callable

from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import BatchSite
from eagerflow.core.op_records.cost_formulas import per_input
from eagerflow.core.op_records.op_facts import REDUCTION, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import may_equal, same
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.elementwise.arithmetic import maximum
from eagerflow.ops.elementwise.logic import isfinite
from eagerflow.ops.elementwise.powers_and_logarithms import exp, log
from eagerflow.ops.rules.arguments import as_shape, axes_of, axis_of
from eagerflow.ops.rules.gradients import conjugate, count_of, spread, where
from eagerflow.ops.rules.promotion import cast, floating, promote_floating
from eagerflow.ops.rules.remedies import SQUARES
from eagerflow.ops.rules.type_rules import (
    ANY,
    BOOL,
    INEXACT,
    REAL,
    check_kind,
    reduced_shape,
    repeats_to,
)
from eagerflow.types import DTYPES, INT64, DType, DTypeLike, Shape, TensorType, as_dtype

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max",
           "mean", "min", "prod", "sum", "sum_to"]  # fmt: skip

Axis = int | tuple[int, ...] | None

_BOOL = DTYPES["bool"]


def reduction(
    kinds: frozenset[str] = ANY, dtype: DType | None = None, *, identity: bool = True
) -> Callable[..., TensorType]:
    """The type rule of reductions over axes.

    Args:
        kinds: the kinds of dtype that the op takes.
        dtype: dtype of the result, if it is not that of the input.
        identity: whether there is a result for no elements.
    """

    @of_family(REDUCTION)
    def rule(x: TensorType, *, axis: tuple[int, ...], keepdims: bool) -> TensorType:
        check_kind(x, kinds)
        out = x.like(shape=reduced_shape(x.shape, axis, keepdims), dtype=dtype)
        if not identity:
            _check_elements(x, out)
        return out

    return rule


def _check_elements(x: TensorType, out: TensorType) -> None:
    if same(x.size, 0) and not may_equal(out.size, 0):
        raise TensorValueError(
            "there are no elements to reduce", expected="at least one along each reduced axis"
        )


def wide(dtype: DType) -> DType:
    """The dtype of sums and products of elements of ``dtype``."""
    if dtype.is_inexact:
        return dtype
    return DTYPES["uint64" if dtype.category == "unsigned integer" else "int64"]


def in_dtype(compute: Callable[[Tensor], Tensor], x: Tensor, dtype: DTypeLike) -> Tensor:
    """``compute(x)`` in ``dtype``; for integers ``compute`` returns the dtype `wide`."""
    target = as_dtype(dtype)
    if x._lane.dtype.is_inexact or target.is_inexact:
        return compute(cast(x, target))
    return cast(compute(x), target)  # totals of 64 bits wrap to those of fewer bits


# --- sums and products ----------------------------------------------------------------------


@of_family({**REDUCTION, "precision": "accumulate"})
def _total_type(x: TensorType, *, axis: tuple[int, ...], keepdims: bool) -> TensorType:
    return x.like(shape=reduced_shape(x.shape, axis, keepdims), dtype=wide(x.dtype))


_sum = define(
    "sum",
    infer=_total_type,
    vjp=(lambda g, out, x, *, axis, keepdims: spread(g, x, axis, keepdims),),
    saved="none",
    remedy=SQUARES,
)


def sum(
    x: TensorLike, /, axis: Axis = None, dtype: DTypeLike = None, *, keepdims: bool = False
) -> Tensor:
    """The sum of elements.

    Args:
        x: any dtype; integers and bools are summed in 64 bits, other dtypes in their own.
        axis: the axis or axes to sum over; all if None.
        dtype: dtype of the sums and of the result.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.sum(ef.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([4., 6.], f32[2]@cpu:0)
    """
    tensor = x if type(x) is Tensor else tensor_of(x)
    if dtype is not None:
        return in_dtype(lambda t: sum(t, axis, keepdims=keepdims), tensor, dtype)
    return bind(_sum, tensor, axis=axes_of("sum", tensor, axis), keepdims=keepdims)


def _sum_to_type(x: TensorType, *, shape: Shape) -> TensorType:
    check_kind(x, INEXACT)
    if not repeats_to(shape, x.shape):
        raise ShapeError(
            f"the shape {shape} does not broadcast to that of x",
            expected="sizes that are equal or 1, aligned at the last axis",
        )
    return x.like(shape=shape)


def _batched_sum_to(at: BatchSite) -> Tensor:
    shape = at.attrs["shape"]
    missing = len(at.shape(0)) - len(shape)
    result: Tensor = at.bind(at.inputs[0], shape=(at.rows, *(1,) * missing, *shape))
    return at.in_shape(result, (at.rows, *shape)) if missing else result


_sum_to = define(
    "sum_to",
    infer=_sum_to_type,
    vjp=(lambda g, out, x, *, shape: functions["broadcast_to"](g, x.shape),),
    saved="none",
    precision="accumulate",
    batch=_batched_sum_to,
)


def sum_to(x: TensorLike, /, shape: int | Shape) -> Tensor:
    """The sum over the axes along which an array of ``shape`` broadcasts to the shape of ``x``.

    It is the gradient of `broadcast_to`.

    Args:
        x: floating or complex; integers count as float32.
        shape: shape of the result; it broadcasts to the shape of ``x``.

    Raises:
        ShapeError: ``shape`` does not broadcast to the shape of ``x``.

    >>> ef.sum_to(ef.tensor([[1.0, 2.0], [3.0, 4.0]]), (2, 1))
    Tensor([[3.],
            [7.]], f32[2,1]@cpu:0)
    """
    return bind(_sum_to, floating(x), shape=as_shape("sum_to", shape))


def _product_of_others(x: Tensor, axis: tuple[int, ...]) -> Tensor:
    """For each element, the product over ``axis`` of all other elements; zeros are no problem."""
    order, moved_shape, flat = lines(x, axis)
    before = _products_before(flat)
    after = functions["flip"](_products_before(functions["flip"](flat, axis=-1)), axis=-1)
    others = functions["reshape"](before * after, moved_shape)
    inverse = tuple(order.index(i) for i in range(len(order)))
    return functions["permute_dims"](others, inverse)


def lines(x: Tensor, axis: tuple[int, ...]) -> tuple[tuple[int, ...], Shape, Tensor]:
    """The order and the sizes of the axes, and ``x`` with ``axis`` flattened into a last axis."""
    kept = tuple(i for i in range(len(x.shape)) if i not in axis)
    moved = functions["permute_dims"](x, kept + axis)
    shape = (*moved.shape[: len(kept)], count_of(x, axis))
    return kept + axis, moved.shape, functions["reshape"](moved, shape)


def _products_before(x: Tensor) -> Tensor:
    """For each element, the product of the elements before it along the last axis."""
    return functions["cumulative_prod"](x, axis=-1, include_initial=True)[..., :-1]


_prod = define(
    "prod",
    infer=_total_type,
    vjp=(
        lambda g, out, x, *, axis, keepdims: (
            spread(g, x, axis, keepdims) * conjugate(_product_of_others(x, axis))
        ),
    ),
    saved="inputs",
    remedy=SQUARES,
)


def prod(
    x: TensorLike, /, axis: Axis = None, dtype: DTypeLike = None, *, keepdims: bool = False
) -> Tensor:
    """The product of elements.

    Args:
        x: any dtype; integers and bools are multiplied in 64 bits, other dtypes in their own.
        axis: the axis or axes to multiply over; all if None.
        dtype: dtype of the products and of the result.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.prod(ef.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    Tensor([ 2., 12.], f32[2]@cpu:0)
    """
    tensor = tensor_of(x)
    if dtype is not None:
        return in_dtype(lambda t: prod(t, axis, keepdims=keepdims), tensor, dtype)
    return bind(_prod, tensor, axis=axes_of("prod", tensor, axis), keepdims=keepdims)


_mean = define(
    "mean",
    infer=reduction(INEXACT),
    vjp=(lambda g, out, x, *, axis, keepdims: spread(g / count_of(x, axis, 1), x, axis, keepdims),),
    saved="none",
    remedy=SQUARES,
    precision="accumulate",
)


def mean(
    x: TensorLike, /, axis: Axis = None, dtype: DTypeLike = None, *, keepdims: bool = False
) -> Tensor:
    """The arithmetic mean of elements; NaN for no elements.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to take the mean over; all if None.
        dtype: dtype that ``x`` is converted to first; None keeps that of ``x``.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.mean(ef.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([2., 3.], f32[2]@cpu:0)
    """
    tensor = floating(x, dtype)
    return bind(_mean, tensor, axis=axes_of("mean", tensor, axis), keepdims=keepdims)


_logsumexp = define(
    "logsumexp",
    infer=reduction(INEXACT),
    vjp=(
        lambda g, out, x, *, axis, keepdims: (
            spread(g, x, axis, keepdims)
            * conjugate(exp(x - spread(where(isfinite(out), out, 0.0), x, axis, keepdims)))
        ),
    ),
    precision="accumulate",
    cost=per_input(40),
)


def logsumexp(
    x: TensorLike, /, axis: Axis = None, *, b: TensorLike | None = None, keepdims: bool = False
) -> Tensor:
    """The logarithm of the sum of exponentials, without overflow; -inf for no elements.

    Args:
        x: floating or complex; integers count as float32.
        axis: the axis or axes to sum over; all if None.
        b: real factors of the exponentials, broadcast against ``x``, or None. Elements with factor
            0 do not count; where the weighted sum is negative, the result is NaN.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.round(ef.logsumexp(ef.tensor([1000.0, 1000.0])), 3)
    Tensor(1000.693, f32[]@cpu:0)
    """
    if b is not None:
        return _weighted_logsumexp(x, b, axis, keepdims)
    tensor = floating(x)
    axes = axes_of("logsumexp", tensor, axis)
    return bind(_logsumexp, tensor, axis=axes, keepdims=keepdims)


def _weighted_logsumexp(x: TensorLike, b: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
    tensor, weights = promote_floating(x, b)
    tensor = where(weights == 0, -math.inf, tensor + 0 * where(isfinite(weights), weights, 0.0))
    axes = axes_of("logsumexp", tensor, axis)
    top = max(tensor, axes, keepdims=True)
    top = where(isfinite(top), top, 0.0)
    total = sum(weights * exp(tensor - top), axes, keepdims=True)
    result: Tensor = log(total) + top
    kept = reduced_shape(tensor.shape, axes, keepdims)
    return functions["reshape"](result, kept)


# --- extremes -------------------------------------------------------------------------------


def _extreme_vjp(
    g: Tensor, out: Tensor, x: Tensor, *, axis: tuple[int, ...], keepdims: bool
) -> Tensor:
    """The rule of `max` and `min`: elements equal to the extreme share the cotangent equally."""
    chosen = x == spread(out, x, axis, keepdims)
    count = maximum(sum(chosen, axis, keepdims=True), 1)
    share = spread(g, x, axis, keepdims) / cast(count, x.dtype)
    return where(chosen, share, 0.0)


_max = define("max", infer=reduction(REAL | BOOL, identity=False), vjp=(_extreme_vjp,))


def max(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if any element is NaN.

    Args:
        x: real or bool.
        axis: the axis or axes to search; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements.

    >>> ef.max(ef.tensor([[1.0, 2.0], [3.0, 0.0]]), axis=0)
    Tensor([3., 2.], f32[2]@cpu:0)
    """
    tensor = tensor_of(x)
    return bind(_max, tensor, axis=axes_of("max", tensor, axis), keepdims=keepdims)


_min = define("min", infer=reduction(REAL | BOOL, identity=False), vjp=(_extreme_vjp,))


def min(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if any element is NaN.

    Args:
        x: real or bool.
        axis: the axis or axes to search; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        TensorValueError: there are no elements.

    >>> ef.min(ef.tensor([[1.0, 2.0], [3.0, 0.0]]), axis=0)
    Tensor([1., 0.], f32[2]@cpu:0)
    """
    tensor = tensor_of(x)
    return bind(_min, tensor, axis=axes_of("min", tensor, axis), keepdims=keepdims)


amax = max
amin = min


def _position_type(x: TensorType, *, axis: int | None, keepdims: bool) -> TensorType:
    check_kind(x, REAL | BOOL)
    axes = tuple(range(x.ndim)) if axis is None else (axis,)
    out = x.like(shape=reduced_shape(x.shape, axes, keepdims), dtype=INT64)
    _check_elements(x, out)
    return out


def _batched_position(at: BatchSite) -> Tensor:
    (x,), axis, keepdims = at.inputs, at.attrs["axis"], at.attrs["keepdims"]
    if axis is not None:
        moved: Tensor = at.bind(x, axis=axis + 1, keepdims=keepdims)
        return moved
    result: Tensor = at.bind(at.in_shape(x, (at.rows, -1)), axis=1, keepdims=False)
    return at.in_shape(result, (at.rows, *(1,) * len(at.shape(0)))) if keepdims else result


_argmax = define(
    "argmax", infer=_position_type, vjp=(None,), cost=per_input(4), batch=_batched_position
)


def argmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index of the largest element: the first of several, or the first NaN if there is any.

    Args:
        x: real or bool.
        axis: the axis to search; all elements in row-major order if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: the axis is out of range.
        TensorValueError: there are no elements.

    >>> ef.argmax(ef.tensor([[1.0, 2.0], [3.0, 0.0]]), axis=1)
    Tensor([1, 0], i64[2]@cpu:0)
    """
    tensor = tensor_of(x)
    one = None if axis is None else axis_of("argmax", tensor, axis)
    return bind(_argmax, tensor, axis=one, keepdims=keepdims)


_argmin = define(
    "argmin", infer=_position_type, vjp=(None,), cost=per_input(4), batch=_batched_position
)


def argmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index of the smallest element: the first of several, or the first NaN if there is any.

    Args:
        x: real or bool.
        axis: the axis to search; all elements in row-major order if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: the axis is out of range.
        TensorValueError: there are no elements.

    >>> ef.argmin(ef.tensor([[1.0, 2.0], [3.0, 0.0]]), axis=1)
    Tensor([0, 1], i64[2]@cpu:0)
    """
    tensor = tensor_of(x)
    one = None if axis is None else axis_of("argmin", tensor, axis)
    return bind(_argmin, tensor, axis=one, keepdims=keepdims)


# --- logic ----------------------------------------------------------------------------------

_all = define("all", infer=reduction(ANY, _BOOL), vjp=(None,))


def all(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether all elements are true; true for no elements.

    Args:
        x: any dtype; nonzero means true.
        axis: the axis or axes to reduce; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.all(ef.tensor([[True, False], [True, True]]), axis=1)
    Tensor([False,  True], bool[2]@cpu:0)
    """
    tensor = tensor_of(x)
    return bind(_all, tensor, axis=axes_of("all", tensor, axis), keepdims=keepdims)


_any = define("any", infer=reduction(ANY, _BOOL), vjp=(None,))


def any(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether at least one element is true; false for no elements.

    Args:
        x: any dtype; nonzero means true.
        axis: the axis or axes to reduce; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.any(ef.tensor([[True, False], [False, False]]), axis=1)
    Tensor([ True, False], bool[2]@cpu:0)
    """
    tensor = tensor_of(x)
    return bind(_any, tensor, axis=axes_of("any", tensor, axis), keepdims=keepdims)


_count_nonzero = define("count_nonzero", infer=reduction(ANY, INT64), vjp=(None,))


def count_nonzero(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements that are not zero.

    Args:
        x: any dtype.
        axis: the axis or axes to count over; all if None.
        keepdims: whether the reduced axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.

    >>> ef.count_nonzero(ef.tensor([[1, 0], [2, 3]]), axis=0)
    Tensor([2, 1], i64[2]@cpu:0)
    """
    tensor = tensor_of(x)
    axes = axes_of("count_nonzero", tensor, axis)
    return bind(_count_nonzero, tensor, axis=axes, keepdims=keepdims)
