"""Kernels of sorting, searching and set ops, and of order statistics for medians and quantiles.

NaN counts as the largest value.
"""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.table import Array, portable

portable("searchsorted", "searchsorted")
_FEW = 256  # elements along an axis below which sorting all of them is fastest


@portable("sort")
def sort(xp: Any, x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    """Sort along an axis; if stable, zeros of both signs keep their order."""
    kind = "stable" if _has_radix(x) or (stable and _has_negative_zero(xp, x)) else None
    if descending:
        return _reversed(xp.sort(_reversed(x, axis), axis=axis, kind=kind), axis)
    return xp.sort(x, axis=axis, kind=kind)


def _has_radix(x: Array) -> bool:
    """Whether the stable sort is the fastest, since it is a radix sort."""
    return x.dtype.kind in "biu" and x.dtype.itemsize <= 2


def _has_negative_zero(xp: Any, x: Array) -> bool:
    """Whether there are elements that compare equal and differ in bits: zeros of both signs."""
    if x.dtype.kind == "c":
        return _has_negative_zero(xp, x.real) or _has_negative_zero(xp, x.imag)
    if x.dtype.kind != "f":
        return False
    bits = x.view(f"i{x.dtype.itemsize}")  # -0.0 is the sign bit alone
    return bool((bits == xp.iinfo(bits.dtype).min).any())


def positions_around(x: Array, q: float) -> tuple[int, int, int]:
    """The positions below and above the fraction ``q`` of the last axis, and its last one."""
    last = x.shape[-1] - 1
    if last < 0:
        raise ValueError("there are no elements")
    position = q * last
    return math.floor(position), math.ceil(position), last


@portable("order_statistics")
def order_statistics(xp: Any, x: Array, *, q: float) -> Array:
    """The elements around a fraction of the order along the last axis, in linear time."""
    positions = positions_around(x, q)
    return xp.partition(x, positions, axis=-1)[..., list(positions)]


@portable("argsort")
def argsort(xp: Any, x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    """The indices that sort along an axis."""
    kind = "stable" if stable or x.dtype.kind in "biu" else None  # of integers it is faster
    if not descending:
        return x.argsort(axis=axis, kind=kind)
    order = _reversed(x, axis).argsort(axis=axis, kind=kind)
    return x.shape[axis] - 1 - _reversed(order, axis)


def _reversed(x: Array, axis: int) -> Array:
    return x[(*(slice(None),) * (axis % x.ndim), slice(None, None, -1))]


@portable("topk_indices")
def topk_indices(xp: Any, x: Array, *, k: int, axis: int, largest: bool) -> Array:
    """The indices of the k first elements in sorted order; ties in the order of indices."""
    size = x.shape[axis]
    if not 0 <= k <= size:
        raise ValueError(f"{k} elements of {size}")
    lines = x.swapaxes(axis, -1)
    if size < _FEW or 4 * k > size or _has_nan(xp, x):
        order = argsort(xp, lines, axis=-1, descending=largest, stable=True)[..., :k]
    else:
        order = _partial(xp, lines.reshape((-1, size)), k, largest)
    return order.reshape((*lines.shape[:-1], k)).swapaxes(axis, -1)


def _has_nan(xp: Any, x: Array) -> bool:
    return x.dtype.kind == "f" and bool(xp.isnan(x).any())


def _partial(xp: Any, rows: Array, k: int, largest: bool) -> Array:
    """`topk_indices` of each row without NaN, in linear time."""
    count, size = rows.shape
    if k == 0:
        return xp.zeros((count, 0), xp.int64)
    position = size - k if largest else k - 1
    edge = xp.partition(rows, position, axis=-1)[:, position : position + 1]
    inside = rows >= edge if largest else rows <= edge
    if xp.count_nonzero(inside) != count * k:  # some of the ties at the edge are beyond the k-th
        inside = rows > edge if largest else rows < edge
        ties = rows == edge
        free = k - inside.sum(axis=-1, keepdims=True)
        inside |= ties & (xp.cumsum(ties, axis=-1) <= free)
    columns = xp.nonzero(inside)[1].reshape((count, k))
    values = xp.take_along_axis(rows, columns, axis=-1)
    order = argsort(xp, values, axis=-1, descending=largest, stable=True)
    return xp.take_along_axis(columns, order, axis=-1)


@portable("histogram_width")
def histogram_width(xp: Any, x: Array) -> Array:
    """The width of a range, if bins can divide it."""
    if not (xp.isfinite(x) & (x >= 0)).all():
        raise ValueError(f"the range is {float(x)} wide, bins need a finite one, not negative")
    return x


@portable("isin")
def isin(xp: Any, x1: Array, x2: Array) -> Array:
    """Whether each element of ``x1`` occurs in ``x2``."""
    if not x2.size:
        return xp.zeros(x1.shape, dtype=bool)
    line = xp.sort(x2.reshape(-1))
    position = xp.minimum(xp.searchsorted(line, x1), line.size - 1)
    return line[position] == x1


def _line(xp: Any, x: Array) -> Array:
    """The elements along one axis, in a dtype of NumPy's own."""
    line = x.reshape(-1)
    return line.astype(xp.float32) if x.dtype.kind == "V" else line


@portable("unique_all")
def unique_all(xp: Any, x: Array) -> tuple[Array, Array, Array, Array]:
    """The distinct values, their first indices, the value's index of each element, and counts."""
    values, indices, inverse, counts = xp.unique(
        _line(xp, x), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return values.astype(x.dtype, copy=False), indices, inverse.reshape(x.shape), counts


@portable("unique_counts")
def unique_counts(xp: Any, x: Array) -> tuple[Array, Array]:
    """The distinct values with their counts."""
    values, counts = xp.unique(_line(xp, x), return_counts=True, equal_nan=False)
    return values.astype(x.dtype, copy=False), counts


@portable("unique_values")
def unique_values(xp: Any, x: Array) -> Array:
    """The distinct values, sorted."""
    return xp.unique(_line(xp, x), equal_nan=False).astype(x.dtype, copy=False)
