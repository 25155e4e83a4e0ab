"""Kernels of pooling: windows that slide over the axes after the batch and the channels.

An element of the window is a *tap*. The elements under one tap at all positions are a strided view
of the input, so that each tap is one operation on a whole array. Sums and maxima over a window are
computed along one axis after the other: ``h + w`` taps in place of ``h * w``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from eagerflow_kernels.portable.convolution import Sizes, Windows, slide
from eagerflow_kernels.scattering import scatter
from eagerflow_kernels.table import Array, portable


def _slide(sizes: Sizes, *, padding: Sizes, **sliding: Any) -> Windows:
    """Windows with equal padding before and after."""
    return slide(sizes, padding=tuple((p, p) for p in padding), **sliding)


def _seen(size: int, positions: int, stride: int, start: int) -> tuple[slice, slice] | None:
    """The positions that have an element ``position*stride + start``, and these elements."""
    low = max(0, -(start // stride))
    high = min(positions, (size - 1 - start) // stride + 1)
    if high <= low:
        return None
    return slice(low, high), slice(low * stride + start, (high - 1) * stride + start + 1, stride)


def _along(axis: int, part: slice) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, part)


def _reduced(
    xp: Any, function: Any, first: Any, x: Array, windows: Windows, *, back: bool = False
) -> Array:
    """The elements of each window combined, axis by axis; with ``back`` the transpose of that."""
    for axis, (n, k, s, (p, _), d, m) in enumerate(windows.axes(), 2):
        out = xp.full((*x.shape[:axis], n if back else m, *x.shape[axis + 1 :]), first, x.dtype)
        for tap in range(k):
            slices = _seen(n, m, s, tap * d - p)
            if slices is not None:
                target, source = slices[::-1] if back else slices
                part = out[_along(axis, target)]
                function(part, x[_along(axis, source)], out=part)
        x = out
    return x


def _taps(windows: Windows) -> Iterator[tuple[int, tuple[Any, ...], tuple[Any, ...]]]:
    """The number of each tap, the positions at which it covers an element, and these elements."""
    for number, tap in enumerate(itertools.product(*map(range, windows.kernel))):
        pairs = [
            _seen(n, m, s, t * d - p)
            for t, (n, _, s, (p, _), d, m) in zip(tap, windows.axes(), strict=True)
        ]
        seen = [pair for pair in pairs if pair is not None]
        if len(seen) == len(pairs):
            yield number, (..., *(a for a, _ in seen)), (..., *(b for _, b in seen))


def _check_seen(windows: Windows) -> None:
    """Refuse windows that cover only padding, as a window with dilation may."""
    for n, k, s, (p, _), d, m in windows.axes():
        parts = [_seen(n, m, s, tap * d - p) for tap in range(k)] if d > 1 else []
        done = 0
        for low, high in sorted((a[0].start, a[0].stop) for a in parts if a is not None):
            done = max(done, high) if low <= done else done
        if d > 1 and done < m:
            raise ValueError("some windows see padding alone")


# --- maxima ---------------------------------------------------------------------------------


@portable("max_pool")
def max_pool(xp: Any, x: Array, **sliding: Any) -> Array:
    """The largest element of each window; NaN if any is."""
    windows = _slide(x.shape[2:], **sliding)
    _check_seen(windows)
    least = -math.inf if x.dtype.kind == "f" else xp.iinfo(x.dtype).min
    return _reduced(xp, xp.maximum, least, x, windows)


@portable("max_pool_indices")
def max_pool_indices(xp: Any, x: Array, out: Array, **sliding: Any) -> Array:
    """The index in its plane of the first element of each window that is ``out``, or a NaN."""
    windows = _slide(x.shape[2:], **sliding)
    if out.shape != (*x.shape[:2], *windows.positions):
        raise ValueError("the maxima are not those of x")
    lost = x.dtype.kind == "f" and bool(xp.isnan(out).any())
    count = math.prod(windows.kernel)
    # the first tap has the largest number; a narrow dtype gives more elements per instruction
    numbers = xp.dtype("uint8" if count < 256 else "int64").type
    first_taps = xp.zeros(out.shape, numbers)
    for tap, some, elements in _taps(windows):
        seen = x[elements]
        meets = seen == out[some]
        if lost:
            meets |= xp.isnan(seen)
        part = first_taps[some]
        xp.maximum(part, xp.multiply(meets, numbers(count - tap)), out=part)
    ahead, start = _offsets(xp, windows)
    where = xp.concatenate([ahead, ahead[:1]])[::-1].take(first_taps)
    return xp.add(where, start, out=where)


def _offsets(xp: Any, windows: Windows) -> tuple[Array, Array]:
    """The offsets in a plane of the taps from the start of a window, and of windows' starts."""
    ahead = xp.zeros((), "int64")
    start = xp.zeros((), "int64")
    for n, k, s, (p, _), d, m in windows.axes():
        ahead = ahead[..., None] * n + xp.arange(k) * d
        start = start[..., None] * n + (xp.arange(m) * s - p)
    return ahead.reshape(-1), start


@portable("plane_pick")
def plane_pick(xp: Any, x: Array, indices: Array, *, size: Sizes, back: bool) -> Array:
    """The elements at indices of their planes; ``back`` adds elements there."""
    lead, plane = indices.shape[:2], math.prod(size)
    if x.shape != (indices.shape if back else (*lead, *size)):
        raise ValueError("there must be an index for each position")
    first = xp.arange(lead[0] * lead[1]) * plane
    flat = (indices + first.reshape(*lead, *(1,) * (indices.ndim - 2))).reshape(-1)
    if not back:
        return x.reshape(-1).take(flat).reshape(indices.shape)
    out = xp.zeros(lead[0] * lead[1] * plane, x.dtype)
    scatter(xp, "add", out, flat, x.reshape(-1))
    return out.reshape(*lead, *size)


# --- means ----------------------------------------------------------------------------------


def _counts(xp: Any, windows: Windows, inside: bool) -> Array:
    """Number of elements of each window, with padding unless only elements ``inside`` count."""
    whole: Any = 1
    for n, k, s, (p, _), _d, m in windows.axes():
        start = xp.arange(m) * s - p
        stop = xp.minimum(start + k, n if inside else n + p)
        count = stop - (xp.maximum(start, 0) if inside else start)
        whole = xp.asarray(whole)[..., None] * count
    return whole


@portable("avg_pool")
def avg_pool(
    xp: Any,
    x: Array,
    *,
    inside: bool,
    divisor: int | None,
    size: Sizes,
    back: bool,
    kernel: Sizes,
    **sliding: Any,
) -> Array:
    """The mean of each window; ``back`` adds the value over the count to all its elements."""
    windows = _slide(size, kernel=kernel, dilation=(1,) * len(kernel), **sliding)
    if x.shape[2:] != (windows.positions if back else size):
        raise ValueError("the sizes do not belong together")
    counts = divisor
    if divisor is None:
        counts = _counts(xp, windows, inside).astype(x.real.dtype)
    if not back:
        total = _reduced(xp, xp.add, 0, x, windows)
        return xp.divide(total, counts, out=total)
    return _reduced(xp, xp.add, 0, xp.divide(x, counts), windows, back=True)


# --- windows that divide an axis --------------------------------------------------------------


def _shares(size: int, count: int) -> list[slice]:
    """The ``count`` windows over ``size`` elements: neighbours overlap if it does not divide."""
    if size < 1 or count < 1:
        raise ValueError("there are no elements to distribute")
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


@portable("adaptive_avg_pool")
def adaptive_avg_pool(xp: Any, x: Array, *, places: Sizes, size: Sizes, back: bool) -> Array:
    """Means along one axis after the other; ``back`` spreads each value over its window."""
    if x.shape[2:] != (places if back else size):
        raise ValueError("the sizes do not belong together")
    for axis, (n, m) in enumerate(zip(size, places, strict=True), 2):
        windows = _shares(n, m)
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        if n % m == 0:
            shape = (*before, m, n // m, *after)
            if not back:
                x = xp.mean(x.reshape(shape), axis=axis + 1)
            else:
                x = xp.broadcast_to(xp.expand_dims(x / (n // m), axis + 1), shape)
                x = x.reshape(*before, n, *after)
            continue
        out = xp.zeros((*before, n if back else m, *after), x.dtype)
        for i, window in enumerate(windows):
            part, at = _along(axis, window), _along(axis, slice(i, i + 1))
            if back:
                out[part] += x[at] / (window.stop - window.start)
            else:
                xp.mean(x[part], axis=axis, keepdims=True, out=out[at])
        x = out
    return x


@portable("adaptive_max_indices")
def adaptive_max_indices(xp: Any, x: Array, *, places: Sizes) -> Array:
    """The index in its plane of the first maximum of each window, or of the first NaN."""
    sizes = x.shape[2:]
    out = xp.empty((*x.shape[:2], *places), "int64")
    shares = [_shares(n, m) for n, m in zip(sizes, places, strict=True)]
    for position in itertools.product(*map(range, places)):
        window = [share[i] for share, i in zip(shares, position, strict=True)]
        part = x[(..., *window)]
        widths = part.shape[2:]
        best = xp.argmax(part.reshape(*x.shape[:2], math.prod(widths)), axis=-1)
        where, step = 0, 1
        for n, width, one in reversed(list(zip(sizes, widths, window, strict=True))):
            where = where + (best % width + one.start) * step
            best, step = best // width, step * n
        out[(..., *position)] = where
    return out
