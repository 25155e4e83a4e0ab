"""The kernel of resizing: each position takes an element of an axis, or interpolates two."""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.table import Array, portable

Sizes = tuple[int, ...]
#: indices along an axis in ascending order, and the weights of their elements; None is 1
Term = tuple[Array, Array | None]


#: up to this size of an axis a product with a matrix is faster than picking elements: 28 to 56
#: elements took 1.0 against 3.7 ms, and the time of the product grows with the size
_DENSE = 128


def _nearest(xp: Any, size: int, count: int, scale: float | None, middle: bool) -> list[Term]:
    """The element in which a position begins, or has its ``middle``."""
    positions = xp.arange(count)
    if scale is None:  # in integers, where no quotient can fall short of an element
        elements = (
            (2 * positions + 1) * size // (2 * count) if middle else positions * size // count
        )
    else:
        elements = xp.floor((positions + (0.5 if middle else 0)) / scale).astype("int64")
    return [(xp.minimum(elements, size - 1), None)]


def _linear(xp: Any, size: int, count: int, scale: float | None, corners: bool) -> list[Term]:
    """The two elements around a position, with the weights of the interpolation."""
    positions = xp.arange(count)
    if corners:
        where = positions * ((size - 1) / max(count - 1, 1))
    else:
        step = size / count if scale is None else 1 / scale
        where = xp.maximum((positions + 0.5) * step - 0.5, 0)
    where = xp.minimum(where, size - 1)
    below = xp.floor(where).astype("int64")
    share = where - below
    return [(below, 1 - share), (xp.minimum(below + 1, size - 1), share)]


def _moved(xp: Any, x: Array, axis: int, terms: list[Term]) -> Array:
    out: Any = None
    for index, weight in terms:
        part = x.take(index, axis)
        if weight is not None:
            part *= weight
        out = part if out is None else xp.add(out, part, out=out)
    return out


def _moved_back(xp: Any, x: Array, axis: int, size: int, terms: list[Term]) -> Array:
    """The transpose of `_moved`; indices ascend, so that it sums over runs of equal ones."""
    lead = (slice(None),) * axis
    out = xp.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    for index, weight in terms:
        new = xp.concatenate([xp.ones(1, bool), index[1:] != index[:-1]])
        starts = xp.flatnonzero(new)
        part = x if weight is None else x * weight
        out[(*lead, index[starts])] += xp.add.reduceat(part, starts, axis=axis)
    return out


def _repeated(xp: Any, x: Array, axis: int, size: int, times: int, back: bool) -> Array:
    """Each element repeated ``times`` times; ``back`` sums the repetitions."""
    if not back:
        return xp.repeat(x, times, axis=axis)
    parts = x.reshape(*x.shape[:axis], size, times, *x.shape[axis + 1 :])
    lead = (slice(None),) * (axis + 1)
    out = parts[(*lead, 0)].copy()
    for i in range(1, times):  # NumPy's sums over a short axis are several times slower
        out += parts[(*lead, i)]
    return out


def _multiplied(xp: Any, x: Array, axis: int, size: int, terms: list[Term], back: bool) -> Array:
    """`_moved`, or with ``back`` `_moved_back`, as a product with a mostly zero matrix."""
    count = len(terms[0][0])
    matrix = xp.zeros((count, size), x.dtype)
    for index, weight in terms:
        matrix[xp.arange(count), index] += 1 if weight is None else weight.reshape(-1)
    if back:
        matrix = matrix.T
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    shape = (*before, len(matrix), *after)
    if not after:
        return xp.matmul(x, matrix.T)
    lines = x.reshape(math.prod(before), x.shape[axis], math.prod(after))
    return xp.matmul(matrix, lines).reshape(shape)


@portable("resize")
def resize(
    xp: Any,
    x: Array,
    *,
    places: Sizes,
    size: Sizes,
    mode: str,
    corners: bool,
    scale: tuple[float | None, ...],
    back: bool,
) -> Array:
    """Resize from ``size`` to ``places``, one axis after the other; ``back`` is the transpose."""
    if x.shape[2:] != (places if back else size) or min(*places, *size) < 1:
        raise ValueError("the sizes do not fit")
    for axis, (n, m, s) in enumerate(zip(size, places, scale, strict=True), 2):
        if n == m and s in (None, 1):
            continue
        if mode != "linear" and s is None and m % n == 0:
            x = _repeated(xp, x, axis, n, m // n, back)
            continue
        if mode == "linear":
            terms = _linear(xp, n, m, s, corners)
        else:
            terms = _nearest(xp, n, m, s, mode == "nearest-exact")
        shape = (-1,) + (1,) * (x.ndim - 1 - axis)
        terms = [(i, w if w is None else w.astype(x.real.dtype).reshape(shape)) for i, w in terms]
        # zeros times non-finite elements would make all elements of the axis NaN
        if mode == "linear" and max(n, m) <= _DENSE and bool(xp.isfinite(x).all()):
            x = _multiplied(xp, x, axis, n, terms, back)
        else:
            x = _moved_back(xp, x, axis, n, terms) if back else _moved(xp, x, axis, terms)
    return x.view()
