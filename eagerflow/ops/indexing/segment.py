"""Segment reductions: reductions over groups of elements along the first axis, given by ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import Op, bind, define, functions
from eagerflow.core.op_records.batch_rules import SIZES, each_row
from eagerflow.core.op_records.cost_formulas import per_input
from eagerflow.core.op_records.op_facts import RowSum
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import same, unknown
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.hardware import home_of
from eagerflow.ops.indexing.take_and_scatter import integers, take
from eagerflow.ops.rules.arguments import as_index
from eagerflow.ops.rules.extents import check_not_negative
from eagerflow.ops.rules.gradients import where
from eagerflow.ops.rules.promotion import cast, floating, host_check, operands
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.rules.type_rules import NUMERIC, REAL, check_kind
from eagerflow.types import INT64, TensorType, may_be_same_shape, same_shape

__all__ = ["bincount", "segment_max", "segment_mean", "segment_min", "segment_sum"]


# --- ops ------------------------------------------------------------------------------------


def _rule(kinds: frozenset[str]) -> Callable[..., TensorType]:
    def rule(values: TensorType, segment_ids: TensorType, *, num_segments: int) -> TensorType:
        check_kind(values, kinds)
        check_not_negative(num_segments)
        if not may_be_same_shape(values.shape[:1], segment_ids.shape):
            raise ShapeError(
                "values and segment ids differ in size",
                expected="one id for each element along the first axis of values",
            )
        return values.like(shape=(num_segments, *values.shape[1:]))

    return rule


_sum = define(
    "segment_sum",
    infer=_rule(NUMERIC),
    vjp=(lambda g, out, values, ids, *, num_segments: take(g, ids, axis=0), None),
    jvp=lambda t, out, values, ids, *, num_segments: segment_sum(t[0], ids, num_segments),
    saved="indices",
    precision="accumulate",
    cost=per_input(4),
    row_sum=RowSum(
        lambda values, ids, shape, attrs: same(attrs["num_segments"], shape[0]), IndexedSlices
    ),
    pair="segment_sums",
    batch=each_row,
)


def _both_types(
    first: TensorType, second: TensorType, segment_ids: TensorType, *, num_segments: int
) -> tuple[TensorType, TensorType]:
    sums = _rule(NUMERIC)
    return (
        sums(first, segment_ids, num_segments=num_segments),
        sums(second, segment_ids, num_segments=num_segments),
    )


def _both_vjp(
    i: int, g: tuple[Tensor, Tensor], out: Any, first: Tensor, second: Tensor, ids: Tensor, *,
    num_segments: int,
) -> Tensor | None:  # fmt: skip
    return take(g[i], ids, axis=0) if i < 2 else None


# The pass `share` merges two sums by the same ids into this op.
define(
    "segment_sums",
    infer=_both_types,
    vjp=_both_vjp,
    saved="indices",
    precision="accumulate",
    cost=per_input(4),
    outputs=2,
    errors_as="segment_sum",
    batch=each_row,
)


def _extreme_vjp(
    g: Tensor, out: Tensor, values: Tensor, ids: Tensor, *, num_segments: int
) -> Tensor:
    hit = values == take(out, ids, axis=0)
    ties = segment_sum(cast(hit, g.dtype), ids, num_segments)
    share = g / functions["maximum"](ties, 1)
    return where(hit, take(share, ids, axis=0), 0)


_max, _min = (
    define(name, infer=_rule(REAL), vjp=(_extreme_vjp, None), cost=per_input(4), batch=each_row)
    for name in ("segment_max", "segment_min")
)

# --- public functions -----------------------------------------------------------------------


def _together(values: TensorLike, ids: TensorLike) -> tuple[Tensor, TensorLike]:
    """The values, on the device of the ids if only these are a tensor, and the ids unchanged."""
    if isinstance(ids, AbstractArray):
        return operands(values, ids)[0], ids
    return tensor_of(values), ids


def _ids(name: str, segment_ids: TensorLike, like: AbstractArray | None) -> Tensor:
    return cast(integers(name, segment_ids, like, "ids"), INT64)


def _counted_type(ids: TensorType, *, least: int, natural: bool) -> tuple[TensorType, TensorType]:
    size = unknown(
        "segments",
        "the number of segments depends on the data",
        "give the number: num_segments=...",
    )
    return ids, ids.like(shape=(size,))


_count_segments = define(
    "count_segments",
    infer=_counted_type,
    nondifferentiable=True,
    saved="none",
    cost=per_input(4),
    outputs=2,
    batch=SIZES,
)


def _counted(ids: Tensor, least: int = 0, *, natural: bool = False) -> tuple[Tensor, int]:
    """The ids, and the smallest number of segments for them that is at least ``least``.

    Args:
        ids: integers.
        least: the least number of segments.
        natural: whether negative ids are refused here, with an error of their own.
    """
    same_ids, numbers = bind(_count_segments, ids, least=least, natural=natural)
    return same_ids, numbers.shape[0]


def _fitted(name: str, tensor: Tensor, ids: Tensor) -> Tensor:
    """``tensor``, checked that its first axes have the sizes of the ids, as far as known."""
    wrong = f"{name}: the shape of the values does not begin with that of the ids"
    given = f"values={type_of(tensor)}, segment_ids={type_of(ids)}"
    front = tensor.shape[: len(ids.shape)]
    if len(front) != len(ids.shape):
        raise ShapeError(wrong, given=given)
    return matched(tensor, front, ids.shape, wrong, given)


def _segment(
    name: str, op: Op, values: TensorLike, segment_ids: TensorLike, num_segments: Any
) -> Tensor:
    tensor, segment_ids = _together(values, segment_ids)
    if tensor._lane.dtype.category == "bool" and op is _sum:
        tensor = cast(tensor, INT64)
    ids = _ids(name, segment_ids, tensor)
    lead = len(ids.shape)
    front = tensor.shape[:lead]
    if len(front) != lead or not same_shape(front, ids.shape):
        tensor = _fitted(name, tensor, ids)
    if lead != 1:
        tensor = functions["reshape"](tensor, (ids.size, *tensor.shape[lead:]))
        ids = functions["reshape"](ids, (-1,))
    if num_segments is None:
        ids, count = _counted(ids)
    else:
        count = as_index(name, "num_segments", num_segments)
    if type(count) is int and count < 0:
        raise ShapeError(f"{name}: num_segments cannot be negative", given=str(count))
    return bind(op, tensor, ids, num_segments=count)


def segment_sum(
    values: TensorLike, segment_ids: TensorLike, num_segments: int | None = None
) -> Tensor:
    """The sum of each segment; 0 for an empty segment.

    Args:
        values: any dtype, ``[k, *rest]``; bools are counted in int64.
        segment_ids: integers in [0, num_segments), ``[k]``: the segment of each element along the
            first axis, in any order. With more axes they index elements along as many axes.
        num_segments: number of segments; by default one more than the largest id, which depends on
            the data.

    Raises:
        TensorIndexError: an id is out of range.

    >>> ef.segment_sum(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([0, 2, 0]), 3)
    Tensor([4., 0., 2.], f32[3]@cpu:0)
    """
    return _segment("segment_sum", _sum, values, segment_ids, num_segments)


def segment_max(
    values: TensorLike, segment_ids: TensorLike, num_segments: int | None = None
) -> Tensor:
    """The largest element of each segment; -inf (or the smallest integer) for an empty segment.

    Elements that tie share the gradient equally.

    Args:
        values: real, ``[k, *rest]``.
        segment_ids: integers in [0, num_segments), ``[k]``; see `segment_sum`.
        num_segments: number of segments; by default one more than the largest id.

    >>> ef.segment_max(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([0, 1, 0]))
    Tensor([3., 2.], f32[2]@cpu:0)
    """
    return _segment("segment_max", _max, values, segment_ids, num_segments)


def segment_min(
    values: TensorLike, segment_ids: TensorLike, num_segments: int | None = None
) -> Tensor:
    """The smallest element of each segment; inf (or the largest integer) for an empty segment.

    Elements that tie share the gradient equally.

    Args:
        values: real, ``[k, *rest]``.
        segment_ids: integers in [0, num_segments), ``[k]``; see `segment_sum`.
        num_segments: number of segments; by default one more than the largest id.

    >>> ef.segment_min(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([0, 1, 0]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    return _segment("segment_min", _min, values, segment_ids, num_segments)


def segment_mean(
    values: TensorLike, segment_ids: TensorLike, num_segments: int | None = None
) -> Tensor:
    """The mean of each segment; 0 for an empty segment.

    Args:
        values: numeric, ``[k, *rest]``; integers count as float32.
        segment_ids: integers in [0, num_segments), ``[k]``; see `segment_sum`.
        num_segments: number of segments; by default one more than the largest id.

    >>> ef.segment_mean(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([0, 1, 0]))
    Tensor([2., 2.], f32[2]@cpu:0)
    """
    tensor, segment_ids = _together(values, segment_ids)
    tensor = floating(tensor)
    total = _segment("segment_mean", _sum, tensor, segment_ids, num_segments)
    ids = _ids("segment_mean", segment_ids, tensor)
    ones = functions["ones"](ids.shape, dtype=INT64, device=home_of(ids.device))
    sizes = functions["maximum"](segment_sum(ones, ids, total.shape[0]), 1)
    sizes = functions["reshape"](sizes, (-1,) + (1,) * (len(total.shape) - 1))
    return total / sizes


def bincount(x: TensorLike, /, weights: TensorLike | None = None, minlength: int = 0) -> Tensor:
    """The number of occurrences of each of 0, 1, 2, …, or the sum of their weights.

    Args:
        x: a vector of integers that are not negative.
        weights: a weight for each element; the result has their dtype. Without weights it is
            int64.
        minlength: the least size of the result, which otherwise is one more than the largest
            element, so that it depends on the data.

    Raises:
        TensorValueError: an element is negative.
        ShapeError: ``x`` is not a vector.

    >>> ef.bincount(ef.tensor([1, 3, 1]))
    Tensor([0, 2, 0, 1], i64[4]@cpu:0)
    """
    ids = _ids("bincount", x, weights if isinstance(weights, AbstractArray) else None)
    if len(ids.shape) != 1:
        raise ShapeError("bincount: x must have one axis", given=f"x={type_of(ids)}")
    if not host_check(lambda values: values >= 0, ids):
        raise TensorValueError("bincount: x has negative elements", given=f"x={type_of(ids)}")
    if weights is None:
        weights = functions["ones"](ids.shape, dtype=INT64, device=home_of(ids.device))
    ids, size = _counted(ids, as_index("bincount", "minlength", minlength), natural=True)
    return segment_sum(weights, ids, size)
