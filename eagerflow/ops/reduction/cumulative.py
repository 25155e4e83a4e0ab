"""Scans along an axis: cumulative totals and extremes, recurrences, differences."""

from __future__ import annotations

from collections.abc import Callable

from eagerflow.core.op import Op, bind, define, functions
from eagerflow.core.op_records.batch_rules import shifted
from eagerflow.core.op_records.cost_formulas import per_input
from eagerflow.core.op_records.op_facts import of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.errors import AxisError, ShapeError, TensorValueError
from eagerflow.ops.elementwise.arithmetic import subtract
from eagerflow.ops.elementwise.logic import not_equal
from eagerflow.ops.reduction.totals import in_dtype, wide
from eagerflow.ops.rules.arguments import as_index, axis_of
from eagerflow.ops.rules.extents import joined_shape
from eagerflow.ops.rules.gradients import conjugate
from eagerflow.ops.rules.promotion import promote, promote_floating
from eagerflow.ops.rules.type_rules import BOOL, INEXACT, REAL, check_kind
from eagerflow.types import DTYPES, DTypeLike, TensorType, may_be_same_shape

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "linear_recurrence",
]


@of_family({
    "precision": "accumulate", "cost": per_input(4), "storage": "fresh", "fails_on": "nothing"
})  # fmt: skip
def _running_type(x: TensorType, *, axis: int) -> TensorType:
    return x.like(dtype=wide(x.dtype))


def _reverse(function: Callable[..., Tensor], *arrays: Tensor, axis: int) -> Tensor:
    """``function`` applied along ``axis`` in reverse."""
    flip = functions["flip"]
    return flip(function(*(flip(x, axis=axis) for x in arrays), axis=axis), axis=axis)


_cumulative_sum = define(
    "cumulative_sum",
    infer=_running_type,
    vjp=(lambda g, out, x, *, axis: _reverse(cumulative_sum, g, axis=axis),),
    saved="none",
    batch=shifted("axis"),
)


def cumulative_sum(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    dtype: DTypeLike = None,
    include_initial: bool = False,
) -> Tensor:
    """The cumulative sums along an axis, each element included.

    Args:
        x: any dtype; integers and bools are summed in 64 bits, other dtypes in their own.
        axis: the axis; may be None if ``x`` has only one.
        dtype: dtype of the sums and of the result.
        include_initial: whether the empty sum, 0, comes first.

    Raises:
        AxisError: the axis is out of range, or missing.

    >>> ef.cumulative_sum(ef.tensor([1.0, 2.0, 3.0]))
    Tensor([1., 3., 6.], f32[3]@cpu:0)
    """
    return _running(_cumulative_sum, x, axis, dtype, 0 if include_initial else None)


def _cumulative_prod_vjp(g: Tensor, out: Tensor, x: Tensor, *, axis: int) -> Tensor:
    """Sums the products of all other elements, without division, so that zeros are no problem."""
    before = _shifted(out, axis, 1)
    factors = functions["flip"](_shifted(functions["flip"](x, axis=axis), axis, 1), axis=axis)
    after = _reverse(linear_recurrence, conjugate(factors), g, axis=axis)
    return after * conjugate(before)


def _shifted(x: Tensor, axis: int, first: float) -> Tensor:
    """``x`` moved by one towards the end of ``axis``, with ``first`` in front."""
    key = (slice(None),) * axis
    head = functions["full_like"](x[(*key, slice(0, 1))], first)
    return functions["concat"]([head, x[(*key, slice(0, -1))]], axis=axis)


_cumulative_prod = define(
    "cumulative_prod", infer=_running_type, vjp=(_cumulative_prod_vjp,), batch=shifted("axis")
)


def cumulative_prod(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    dtype: DTypeLike = None,
    include_initial: bool = False,
) -> Tensor:
    """The cumulative products along an axis, each element included.

    Args:
        x: any dtype; integers and bools are multiplied in 64 bits, other dtypes in their own.
        axis: the axis; may be None if ``x`` has only one.
        dtype: dtype of the products and of the result.
        include_initial: whether the empty product, 1, comes first.

    Raises:
        AxisError: the axis is out of range, or missing.

    >>> ef.cumulative_prod(ef.tensor([1.0, 2.0, 3.0]))
    Tensor([1., 2., 6.], f32[3]@cpu:0)
    """
    return _running(_cumulative_prod, x, axis, dtype, 1 if include_initial else None)


def _running(
    op: Op, x: TensorLike, axis: int | None, dtype: DTypeLike, initial: int | None
) -> Tensor:
    tensor = tensor_of(x)
    if axis is None and len(tensor.shape) != 1:
        raise AxisError(
            f"{op.name}: axis is missing",
            given=f"x={tensor.type}",
            expected="an axis, unless x has exactly one",
        )
    one = axis_of(op.name, tensor, 0 if axis is None else axis)
    if dtype is None:
        result = bind(op, tensor, axis=one)
    else:
        result = in_dtype(lambda t: bind(op, t, axis=one), tensor, dtype)
    if initial is not None:
        shape = (*result.shape[:one], 1, *result.shape[one + 1 :])
        first = functions["full"](shape, initial, dtype=result.dtype, device=result.device)
        result = functions["concat"]([first, result], axis=one)
    return result


def _flat(x: TensorLike) -> Tensor:
    return functions["reshape"](tensor_of(x), (-1,))


def cumsum(x: TensorLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Tensor:
    """NumPy's form of `cumulative_sum`: over all elements in row-major order if axis is None.

    Args:
        x: any dtype.
        axis: the axis to sum along.
        dtype: dtype of the sums and of the result.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.cumsum(ef.tensor([[1, 2], [3, 4]]))
    Tensor([ 1,  3,  6, 10], i64[4]@cpu:0)
    """
    return cumulative_sum(_flat(x) if axis is None else x, axis, dtype=dtype)


def cumprod(x: TensorLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Tensor:
    """NumPy's form of `cumulative_prod`: over all elements in row-major order if axis is None.

    Args:
        x: any dtype.
        axis: the axis to multiply along.
        dtype: dtype of the products and of the result.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.cumprod(ef.tensor([[1, 2], [3, 4]]))
    Tensor([ 1,  2,  6, 24], i64[4]@cpu:0)
    """
    return cumulative_prod(_flat(x) if axis is None else x, axis, dtype=dtype)


def _recurrence_type(a: TensorType, b: TensorType, *, axis: int) -> TensorType:
    check_kind(a, INEXACT)
    if not may_be_same_shape(a.shape, b.shape):
        raise ShapeError("the shapes differ", expected="equal ones")
    return b.like(shape=joined_shape((a.shape, b.shape)))


_linear_recurrence = define(
    "linear_recurrence",
    infer=_recurrence_type,
    vjp=(
        lambda g, out, a, b, *, axis: (
            _recurrence_transposed(g, a, axis) * conjugate(_shifted(out, axis, 0))
        ),
        lambda g, out, a, b, *, axis: _recurrence_transposed(g, a, axis),
    ),
    precision="accumulate",
    cost=per_input(4),
    batch=shifted("axis"),
)


def _recurrence_transposed(g: Tensor, a: Tensor, axis: int) -> Tensor:
    flip = functions["flip"]
    factors = flip(_shifted(flip(a, axis=axis), axis, 0), axis=axis)
    return _reverse(linear_recurrence, conjugate(factors), g, axis=axis)


def linear_recurrence(a: TensorLike, b: TensorLike, /, axis: int = -1) -> Tensor:
    """The solution of ``y[i] = a[i] * y[i - 1] + b[i]`` with ``y[0] = b[0]``, along an axis.

    Args:
        a: floating or complex, integers count as float32; ``a[0]`` is not used.
        b: likewise; both promote to one dtype and broadcast.
        axis: the axis along which ``i`` counts.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.linear_recurrence(ef.tensor([0.0, 2.0, 2.0]), ef.tensor([1.0, 1.0, 1.0]))
    Tensor([1., 3., 7.], f32[3]@cpu:0)
    """
    factors, terms = functions["broadcast_arrays"](*promote_floating(a, b))
    one = axis_of("linear_recurrence", terms, axis)
    return bind(_linear_recurrence, factors, terms, axis=one)


# --- running extremes -----------------------------------------------------------------------


def _position_type(x: TensorType, *, axis: int) -> TensorType:
    check_kind(x, REAL | BOOL)
    return x.like(dtype=DTYPES["int64"])


_running_argmax = define(
    "running_argmax", infer=_position_type, vjp=(None,), cost=per_input(4), batch=shifted("axis")
)
_running_argmin = define(
    "running_argmin", infer=_position_type, vjp=(None,), cost=per_input(4), batch=shifted("axis")
)


def cummax(x: TensorLike, /, axis: int = -1) -> Tensor:
    """The cumulative maximum along an axis; NaN from the first NaN on.

    Args:
        x: real or bool.
        axis: the axis.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.cummax(ef.tensor([1.0, 3.0, 2.0]))
    Tensor([1., 3., 3.], f32[3]@cpu:0)
    """
    return _running_extreme(_running_argmax, "cummax", x, axis)


def cummin(x: TensorLike, /, axis: int = -1) -> Tensor:
    """The cumulative minimum along an axis; NaN from the first NaN on.

    Args:
        x: real or bool.
        axis: the axis.

    Raises:
        AxisError: the axis is out of range.

    >>> ef.cummin(ef.tensor([2.0, 1.0, 3.0]))
    Tensor([2., 1., 1.], f32[3]@cpu:0)
    """
    return _running_extreme(_running_argmin, "cummin", x, axis)


def _running_extreme(op: Op, name: str, x: TensorLike, axis: int) -> Tensor:
    tensor = tensor_of(x)
    one = axis_of(name, tensor, axis)
    return functions["take_along_axis"](tensor, bind(op, tensor, axis=one), axis=one)


# --- differences ----------------------------------------------------------------------------


def _slice_of(part: Tensor, x: Tensor, axis: int) -> Tensor:
    """``part``, with a scalar expanded to a slice of ``x``."""
    if part.shape or not x.shape:
        return part
    filled: Tensor = functions["broadcast_to"](part, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return filled


def diff(
    x: TensorLike,
    /,
    n: int = 1,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, taken ``n`` times; for bools, "xor".

    Args:
        x: any dtype, with at least one axis.
        axis: the axis.
        n: number of times, at least 0.
        prepend: values joined to the front of ``x`` first: a scalar, or an array of the same shape
            except along the axis.
        append: values joined to the end of ``x`` first, likewise.

    Raises:
        AxisError: the axis is out of range.
        TensorValueError: ``n`` is negative.

    >>> ef.diff(ef.tensor([1.0, 4.0, 9.0]))
    Tensor([3., 5.], f32[2]@cpu:0)
    """
    tensor = tensor_of(x)
    one = axis_of("diff", tensor, axis)
    times = as_index("diff", "n", n)
    if times < 0:
        raise TensorValueError("diff: n is negative", given=f"n={times}")
    if times and not (prepend is None and append is None):
        parts = promote(*(p for p in (prepend, tensor, append) if p is not None))
        tensor = functions["concat"]([_slice_of(p, tensor, one) for p in parts], axis=one)
    minus = not_equal if tensor.dtype.category == "bool" else subtract
    key = (slice(None),) * one
    for _ in range(times):
        tensor = minus(tensor[(*key, slice(1, None))], tensor[(*key, slice(None, -1))])
    return tensor
