"""Sorting, and search in sorted arrays. NaN counts as the largest value."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import BatchSite, aligned, each_row, shifted
from eagerflow.core.op_records.cost_formulas import searching, sorting
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, scalar, tensor_of
from eagerflow.dims import Size, same
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.ops.indexing.getitem import scatter
from eagerflow.ops.indexing.take_and_scatter import take, take_along_axis
from eagerflow.ops.rules.arguments import as_index, axis_of, check_choice
from eagerflow.ops.rules.promotion import cast, promote
from eagerflow.ops.rules.sizes import matched, surely_less
from eagerflow.ops.rules.subscripts import ARRAY, along
from eagerflow.types import DTYPES, INT64, TensorType

__all__ = ["TopK", "argsort", "searchsorted", "sort", "topk"]


# --- sort -----------------------------------------------------------------------------------


def _sort_vjp(g: Tensor, out: Tensor, x: Tensor, *, axis: int, **attrs: Any) -> Tensor:
    order = argsort(x, axis=axis, **attrs)
    return scatter(g, along(x, order, axis), (ARRAY,) * len(x.shape), x.shape)


_sort = define(
    "sort",
    infer=lambda x, **attrs: x,
    vjp=(_sort_vjp,),
    saved="inputs",
    cost=sorting,
    storage="fresh",
    fails_on="nothing",
    batch=shifted("axis"),
)

_argsort = define(
    "argsort",
    infer=lambda x, **attrs: x.like(dtype=INT64),
    vjp=(None,),
    cost=sorting,
    storage="fresh",
    fails_on="nothing",
    batch=shifted("axis"),
)


def sort(
    x: TensorLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The elements sorted along an axis.

    Args:
        x: any dtype, with at least one axis; complex numbers are ordered by real part first.
        axis: the axis.
        descending: whether to sort from the largest to the smallest, NaN first.
        stable: whether elements that compare equal (zeros of both signs) keep their order.

    >>> ef.sort(ef.tensor([3.0, 1.0, 2.0]))
    Tensor([1., 2., 3.], f32[3]@cpu:0)
    """
    tensor = tensor_of(x)
    axis = axis_of("sort", tensor, axis)
    return bind(_sort, tensor, axis=axis, descending=bool(descending), stable=bool(stable))


def _around_type(x: TensorType, *, q: float) -> TensorType:
    if same(x.shape[-1], 0):
        raise TensorValueError("there are no elements", expected="at least one in each line")
    return x.like(shape=(*x.shape[:-1], 3))


def _around_vjp(g: Tensor, out: Tensor, x: Tensor, *, q: float) -> Tensor:
    last = x.shape[-1] - 1
    position = scalar(q, x.device.lanes[DTYPES["float64"]]) * last
    ends = [functions["floor"](position), functions["ceil"](position), scalar(last, position._lane)]
    positions = functions["stack"](ends)
    order = take(argsort(x), cast(positions, INT64), axis=-1)
    return scatter(g, along(x, order, len(x.shape) - 1), (ARRAY,) * len(x.shape), x.shape)


_order_statistics = define(
    "order_statistics",
    infer=_around_type,
    vjp=(_around_vjp,),
    saved="inputs",
    cost=sorting,
    batch=aligned,
)


def _ordered(x: Tensor, q: float) -> Tensor:
    """The order statistics below and above the fraction ``q`` along the last axis, and the last.

    Sorts no more than needed.
    """
    return bind(_order_statistics, x, q=q)


functions["_order_statistics"] = _ordered  # for medians, in a lower layer


def argsort(
    x: TensorLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort an array along an axis.

    Args:
        x: any dtype, with at least one axis.
        axis: the axis.
        descending: whether to sort from the largest to the smallest, NaN first.
        stable: whether elements that compare equal keep their order.

    >>> ef.argsort(ef.tensor([3.0, 1.0, 2.0]))
    Tensor([1, 2, 0], i64[3]@cpu:0)
    """
    tensor = tensor_of(x)
    axis = axis_of("argsort", tensor, axis)
    return bind(_argsort, tensor, axis=axis, descending=bool(descending), stable=bool(stable))


# --- the k largest --------------------------------------------------------------------------


class TopK(NamedTuple):
    """The result of `topk`.

    Attributes:
        values: the elements, in order.
        indices: their indices along the axis.

    >>> ef.topk(ef.tensor([3.0, 1.0, 2.0]), 2).indices
    Tensor([0, 2], i64[2]@cpu:0)
    """

    values: Tensor
    indices: Tensor


def _too_many(k: Size, size: Size) -> bool:
    return surely_less(k, 0) or surely_less(size, k)


def _topk_type(x: TensorType, *, k: int, axis: int, largest: bool) -> TensorType:
    if _too_many(k, x.shape[axis]):
        raise ShapeError(
            f"{k} elements of {x.shape[axis]} along axis {axis}",
            expected=f"0 to {x.shape[axis]}",
        )
    return x.like(shape=(*x.shape[:axis], k, *x.shape[axis + 1 :]), dtype=INT64)


_topk = define("topk_indices", infer=_topk_type, vjp=(None,), cost=sorting, batch=shifted("axis"))


def topk(x: TensorLike, k: int, /, axis: int = -1, *, largest: bool = True) -> TopK:
    """The k largest elements along an axis, in order, with their indices.

    Args:
        x: any dtype, with at least one axis.
        k: number of elements.
        axis: the axis.
        largest: whether to return the largest, descending; else the smallest, ascending.

    Returns:
        ``(values, indices)``. Of elements that compare equal, the earlier comes first.

    Raises:
        ShapeError: there are fewer than ``k`` elements.

    >>> values, indices = ef.topk(ef.tensor([3.0, 1.0, 4.0, 1.0, 5.0]), 2)
    >>> values, indices
    (Tensor([5., 4.], f32[2]@cpu:0), Tensor([4, 2], i64[2]@cpu:0))
    """
    tensor = tensor_of(x)
    axis = axis_of("topk", tensor, axis)
    count = as_index("topk", "k", k)
    if _too_many(count, tensor.shape[axis]):
        raise ShapeError(
            f"topk: {count} elements of {tensor.shape[axis]}",
            given=f"x={type_of(tensor)}, axis={axis}",
            expected=f"k from 0 to {tensor.shape[axis]}",
        )
    indices = bind(_topk, tensor, k=count, axis=axis, largest=bool(largest))
    return TopK(take_along_axis(tensor, indices, axis=axis), indices)


# --- search ---------------------------------------------------------------------------------


def _search_type(x1: TensorType, x2: TensorType, *, side: str) -> TensorType:
    if x1.ndim != 1:
        raise ShapeError("the sorted sequence must have one axis")
    return x2.like(dtype=INT64)


def _batched_search(at: BatchSite) -> Tensor:
    result: Tensor = each_row(at) if at.batched[0] else at.bind(*at.inputs, **at.attrs)
    return result


_searchsorted = define(
    "searchsorted", infer=_search_type, vjp=(None, None), cost=searching, batch=_batched_search
)


def _arranged(line: Tensor, sorter: Tensor) -> Tensor:
    refusal = "searchsorted: the sorter must have one index for each element of x1"

    def given() -> str:
        return f"x1={type_of(line)}, sorter={type_of(sorter)}"

    if len(line.shape) != 1 or len(sorter.shape) != 1:
        raise ShapeError(refusal, given=given())
    return take(matched(line, sorter.shape, line.shape, refusal, given), sorter, axis=0)


def searchsorted(
    x1: TensorLike,
    x2: TensorLike,
    /,
    side: Literal["left", "right"] = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """The positions at which values would be inserted into a sorted array.

    Args:
        x1: a vector, sorted in ascending order.
        x2: the values, of any shape; both promote to one dtype.
        side: ``"left"`` for positions before equal elements, ``"right"`` for positions after them.
        sorter: indices that sort ``x1``, if it is not sorted.

    Returns:
        int64, in the shape of ``x2``.

    >>> ef.searchsorted(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([2.0, 5.0]))
    Tensor([1, 3], i64[2]@cpu:0)
    """
    check_choice("searchsorted", side, ("left", "right"), "a side")
    line, values = promote(x1, x2)
    if sorter is not None:
        line = _arranged(line, tensor_of(sorter))
    return bind(_searchsorted, line, values, side=side)
