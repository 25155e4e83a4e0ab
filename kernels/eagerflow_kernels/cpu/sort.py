"""Sorting kernels for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.portable import sort as portable
from eagerflow_kernels.table import special

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_WORTH = 5000  # elements from which the passes over the array pay


def _ordered(x: Array) -> Array:
    """Integers in the order of floats: both zeros are equal, and so are all NaN, the largest."""
    bits: Array = (x + x.dtype.type(0)).view(f"i{x.itemsize}")
    top = np.iinfo(bits.dtype).max
    bits ^= (bits >> (8 * x.itemsize - 1)) & top
    bits[np.isnan(x)] = top
    return bits


def _packed(keys: Array) -> Array:
    """The stable order along the last axis of 32-bit integers: one sort with the indices below."""
    pairs = (keys.astype(np.int64) << 32) | np.arange(keys.shape[-1])
    pairs.sort(axis=-1)
    pairs &= 0xFFFFFFFF
    return pairs


@special("argsort", "cpu")
def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    """The portable one; a stable order of floats is found as that of integers, which is faster."""
    if x.dtype.kind != "f" or not stable or x.size < _WORTH or x.shape[axis] >= 1 << 32:
        out: Array = portable.argsort(np, x, axis=axis, descending=descending, stable=stable)
        return out
    keys = _ordered(x)
    if descending:
        keys = ~keys
    if x.itemsize != 4:
        return np.argsort(keys, axis=axis, kind="stable")
    return np.moveaxis(_packed(np.moveaxis(keys, axis, -1)), -1, axis)
