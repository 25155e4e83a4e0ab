"""Histograms and linear interpolation."""

from __future__ import annotations

from typing import Any, NamedTuple

from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import each_row
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import Dim, maximum
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.hardware import home_of
from eagerflow.ops.indexing.segment import segment_sum
from eagerflow.ops.indexing.take_and_scatter import take
from eagerflow.ops.indexing.where_and_nonzero import where
from eagerflow.ops.ordering.sort import searchsorted
from eagerflow.ops.rules.arguments import as_index
from eagerflow.ops.rules.promotion import floating, operands, promote
from eagerflow.ops.rules.sizes import at_least, matched
from eagerflow.types import DTYPES

__all__ = ["Histogram", "histogram", "interp"]


class Histogram(NamedTuple):
    """The result of `histogram`.

    Attributes:
        hist: the count (or the sum of weights, or the density) of each bin.
        bin_edges: the edges, one more than there are bins.

    >>> ef.histogram(ef.tensor([0.0, 1.0, 2.0, 2.0]), bins=2).hist
    Tensor([1, 3], i64[2]@cpu:0)
    """

    hist: Tensor
    bin_edges: Tensor


_width = define(
    "histogram_width",
    infer=lambda x: x,
    vjp=(lambda g, out, x: g,),
    saved="none",
    precision="exact",
    batch=each_row,
)


def _ends(x: Tensor) -> tuple[Any, Any]:
    """The least and the largest element; 0 and 1 if there are no elements."""
    size: Any = x.size
    if type(size) is Dim:  # then 0 and 1 are joined to the elements at run time if there are none
        spare = functions["arange"](2, dtype=x.dtype, device=home_of(x.device))
        x = functions["concat"]([x, spare[: maximum(2 - 2 * size, 0)]])
    elif not size:
        return 0.0, 1.0
    return functions["min"](x), functions["max"](x)


def _edges(x: Tensor, bins: int, limits: tuple[Any, Any] | None) -> Tensor:
    """The edges of ``bins`` bins of equal width, over the range of ``x`` without limits."""
    refusal, given = "histogram: there must be at least one bin", f"bins={bins}"
    if type(bins) is int and bins < 1:
        raise TensorValueError(refusal, given=given)
    steps = functions["arange"](bins + 1, dtype=x.dtype, device=home_of(x.device)) / bins
    steps = at_least(steps, bins, 1, refusal, given)
    low, high = _ends(x) if limits is None else limits
    low, high = promote(x, low, high, dtype=x.dtype)[1:]
    spread = high == low
    low = where(spread, low - 0.5, low)
    high = where(spread, high + 0.5, high)
    width = bind(_width, high - low)
    edges = low + steps * width
    return where(steps == 1, high, edges)


def histogram(
    x: TensorLike,
    /,
    bins: int | TensorLike = 10,
    range: tuple[Any, Any] | None = None,
    density: bool = False,
    weights: TensorLike | None = None,
) -> Histogram:
    """The number of values in each bin; the last bin includes both of its edges.

    Args:
        x: real; values outside of all bins are left out.
        bins: the number of bins of equal width, or their edges in ascending order.
        range: the first and the last edge, if ``bins`` is a number; by default the least and the
            largest value.
        density: whether to return the density instead, whose integral is 1.
        weights: weights in the shape of ``x``, which are summed instead of counting.

    Returns:
        ``(hist, bin_edges)``; the counts are int64.

    Raises:
        TensorValueError: the range is negative or not finite, such as for values with NaN.
        ShapeError: ``bins`` is not a vector of at least two edges.

    >>> hist, edges = ef.histogram(ef.tensor([1.0, 2.0, 2.0, 5.0]), bins=2)
    >>> hist, edges
    (Tensor([3, 1], i64[2]@cpu:0), Tensor([1., 3., 5.], f32[3]@cpu:0))
    """
    given = bins if hasattr(bins, "__len__") else None
    x, *others = operands(x, *(t for t in (given, weights) if t is not None))
    given = others.pop(0) if given is not None else None
    values = functions["reshape"](floating(x), (-1,))
    if given is None:
        edges = _edges(values, as_index("histogram", "bins", bins), range)
    else:
        values, edges = promote(values, given)
        refusal, shown = "histogram: bins must be a number or at least two edges", type_of(edges)
        if len(edges.shape) != 1:
            raise ShapeError(refusal, given=str(shown))
        edges = at_least(edges, edges.size, 2, refusal, lambda: str(shown))
    count = edges.size - 1
    if weights is None:
        amounts = functions["ones"](
            values.shape, dtype=DTYPES["int64"], device=home_of(values.device)
        )
    else:
        amounts = functions["reshape"](others[0], values.shape)
    bin = searchsorted(edges, values, side="right") - 1
    bin = where(values == edges[-1], count - 1, bin)
    inside = functions["logical_and"](bin >= 0, bin < count)
    hist = segment_sum(where(inside, amounts, 0), where(inside, bin, 0), count)
    if density:
        widths = edges[1:] - edges[:-1]
        hist = hist / (functions["sum"](hist) * widths)
    return Histogram(hist, edges)


def interp(
    x: TensorLike,
    xp: TensorLike,
    fp: TensorLike,
    /,
    left: TensorLike | None = None,
    right: TensorLike | None = None,
) -> Tensor:
    """Linear interpolation between points, with gradients for all arguments.

    Args:
        x: the positions to evaluate at; real, any shape.
        xp: the positions of the points, a vector in ascending order.
        fp: the value at each point; real or complex.
        left: the value below the first point; by default the first of ``fp``.
        right: the value above the last point; by default the last of ``fp``.

    Raises:
        ShapeError: ``xp`` and ``fp`` are not vectors of one length, at least 1.

    >>> ef.interp(ef.tensor([0.5, 1.5, 9.0]), [0.0, 1.0, 2.0], [0.0, 10.0, 30.0])
    Tensor([ 5., 20., 30.], f32[3]@cpu:0)
    """
    x, xp, fp = operands(x, xp, fp)
    at, points = promote(floating(x), floating(xp))
    values = floating(fp)
    refusal = "interp: xp and fp must have one axis of one size, not 0"

    def given() -> str:
        return f"xp={type_of(points)}, fp={type_of(values)}"

    if len(points.shape) != 1 or len(values.shape) != 1:
        raise ShapeError(refusal, given=given())
    values = matched(values, values.shape, points.shape, refusal, given)
    points = at_least(points, points.size, 1, refusal, given)
    behind = functions["clip"](searchsorted(points, at, side="right"), 1, None)
    behind = functions["minimum"](behind, points.size - 1)
    before = functions["maximum"](behind - 1, 0)
    x0, x1 = (take(points, i, axis=0) for i in (before, behind))
    f0, f1 = (take(values, i, axis=0) for i in (before, behind))
    width = x1 - x0
    flat = width == 0
    share = (at - x0) / where(flat, 1, width)
    rise = share * where(flat, 0, f1 - f0)
    result = f0 + rise
    result = where(at < points[0], values[0] if left is None else left, result)
    return where(at > points[-1], values[-1] if right is None else right, result)
