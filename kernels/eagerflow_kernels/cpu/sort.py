"""Sorting kernels for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.portable import sort as portable
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]
_WORTH = 5000  # elements from which on the passes over the array pay off


def _ordered(x: Array) -> Array:
    """Integers in the order of floats: zeros of both signs are equal; all NaN are, the largest."""
    bits: Array = (x + x.dtype.type(0)).view(f"i{x.itemsize}")
    top = np.iinfo(bits.dtype).max
    bits ^= (bits >> (8 * x.itemsize - 1)) & top
    bits[np.isnan(x)] = top
    return bits


def _packed(keys: Array) -> Array:
    """The stable order of 32-bit integers along the last axis: one sort of keys above indices."""
    pairs = (keys.astype(np.int64) << 32) | np.arange(keys.shape[-1])
    pairs.sort(axis=-1)
    pairs &= 0xFFFFFFFF
    return pairs


@special("order_statistics", "cpu")
def order_statistics(x: Array, *, q: float) -> Any:
    """As the portable kernel, by one partition; the neighbours are extremes of its parts."""
    first, second, last = portable.positions_around(x, q)
    if second == last or x.dtype.kind != "f":
        return portable.order_statistics(np, x, q=q)
    parts = np.partition(x, first, axis=-1)
    out = np.empty((*x.shape[:-1], 3), x.dtype)
    rest = parts[..., first + 1 :]
    out[..., 0] = parts[..., first]
    out[..., 1] = out[..., 0] if second == first else np.fmin.reduce(rest, axis=-1)
    out[..., 2] = np.maximum.reduce(rest, axis=-1)
    return out


_BLOCKS = 1024  # parts of a line whose extremes give the bound for candidates


@special("topk_indices", "cpu")
def topk_indices(x: Array, *, k: int, axis: int, largest: bool) -> Any:
    """As the portable kernel; a few elements of one long line are found in one pass over it."""
    if x.ndim == 1 and 0 < k <= _BLOCKS // 8 and x.size >= 64 * _BLOCKS and x.dtype.kind == "f":
        candidates = _candidates(x, k, largest)
        if candidates is not None:
            order = portable.argsort(np, x[candidates], axis=0, descending=largest, stable=True)
            return candidates[order[:k]]
    return portable.topk_indices(np, x, k=k, axis=axis, largest=largest)


def _candidates(x: Array, k: int, largest: bool) -> Array | None:
    """The indices of all elements at least as far out as the k-th; None if NaN or ties are many.

    The k-th of the blocks' extremes is a bound: at least k elements lie beyond it or on it.
    """
    size = x.size - x.size % _BLOCKS
    blocks = x[:size].reshape(_BLOCKS, -1)
    extremes = blocks.max(axis=1) if largest else blocks.min(axis=1)
    if np.isnan(extremes).any() or np.isnan(x[size:]).any():
        return None
    position = _BLOCKS - k if largest else k - 1
    bound = np.partition(extremes, position)[position]
    inside = x >= bound if largest else x <= bound
    return None if np.count_nonzero(inside) > x.size // 8 else np.flatnonzero(inside)


@special("argsort", "cpu")
def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Any:
    """As the portable kernel; a stable order of floats is that of integers, found faster."""
    if x.dtype.kind != "f" or not stable or x.size < _WORTH or x.shape[axis] >= 1 << 32:
        return portable.argsort(np, x, axis=axis, descending=descending, stable=stable)
    keys = _ordered(x)
    if descending:
        keys = ~keys
    if x.itemsize != 4:
        return np.argsort(keys, axis=axis, kind="stable")
    return np.moveaxis(_packed(np.moveaxis(keys, axis, -1)), -1, axis)
