"""Shape kernels for the CPU, without the Python code around NumPy's functions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]
_SMALL = 4096  # elements of a matrix up to which its mask is kept


@special("broadcast_to", "cpu")
def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    """A view that repeats elements by strides of zero."""
    lead = len(shape) - x.ndim
    if lead < 0 or not x.size or not x.flags.c_contiguous or x.dtype.kind in "VO":
        return np.broadcast_to(x, shape)
    strides = [0] * lead
    for size, wanted, stride in zip(x.shape, shape[lead:], x.strides, strict=True):
        if size != wanted and size != 1:
            raise ValueError(f"{x.shape} does not broadcast to {shape}")
        strides.append(stride if size == wanted else 0)
    return np.ndarray(shape, x.dtype, x, 0, strides)


def _mask(rows: int, columns: int, k: int) -> Array:
    return np.tri(rows, columns, k, dtype=bool)


_kept_mask = lru_cache(maxsize=64)(_mask)


def _lower(x: Array, k: int) -> Array:
    """The mask of elements on or below the k-th diagonal of a matrix."""
    rows, columns = x.shape[-2:]
    return (_kept_mask if rows * columns <= _SMALL else _mask)(rows, columns, k)


@special("tril", "cpu")
def tril(x: Array, *, k: int) -> Array:
    """The array with zeros above the k-th diagonal."""
    return np.where(_lower(x, k), x, np.zeros((), x.dtype))


@special("triu", "cpu")
def triu(x: Array, *, k: int) -> Array:
    """The array with zeros below the k-th diagonal."""
    return np.where(_lower(x, k - 1), np.zeros((), x.dtype), x)
