"""Index kernels for the CPU, where reading values waits for no device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerflow_kernels.cpu.segment import WORTH, summed_rows
from eagerflow_kernels.portable import indexing as portable
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]


@special("signed_indices", "cpu")
def signed_indices(indices: Array) -> Array:
    """Indices of uint64 as int64; an index beyond its range is an error."""
    if indices.size and indices.max() >= 2**63:
        raise IndexError(f"index {indices.max()} is out of range")
    return indices.astype(np.int64)


_BITS = {2: np.int16, 4: np.int32, 8: np.int64}
_MANY = 2048  # elements from which on the passes cost less than a branch for each element


@special("where", "cpu")
def where(condition: Array, x1: Array, x2: Array) -> Any:
    """NumPy's function; for many elements integer arithmetic on their bits, several times faster.

    NumPy branches for each element, and processors cannot predict the branches of a random mask.
    Sums and products of integers wrap around, so ``(a - b) * 1 + b`` is ``a``, to the bit.
    """
    if condition.size < _MANY or x1.dtype.kind not in "fiu" or x1.itemsize not in _BITS:
        return np.where(condition, x1, x2)
    bits = _BITS[x1.itemsize]
    first, second, chosen = x1.view(bits), x2.view(bits), condition.view(np.int8)
    if not second.ndim and not second:
        return np.multiply(first, chosen).view(x1.dtype)
    if not first.ndim and not first:
        return np.multiply(second, np.bitwise_xor(chosen, 1)).view(x1.dtype)
    out = _into(np.multiply, np.subtract(first, second), chosen)
    return _into(np.add, out, second).view(x1.dtype)


def _into(function: np.ufunc, x: Array, y: Array) -> Any:
    """The result in the memory of ``x``, if it has that shape."""
    fits = type(x) is np.ndarray and (y.ndim == 0 or x.shape == y.shape)
    return function(x, y, out=x) if fits else function(x, y)


@special("index_scatter", "cpu")
def index_scatter(
    value: Array, *indices: Array, key: tuple[Any, ...], shape: tuple[int, ...]
) -> Any:
    """As the portable kernel; many rows that are picked by one array are summed like segments."""
    return scattered(summed_rows, value, *indices, key=key, shape=shape)


def scattered(
    sums: Callable[[Array, Array, int], Array], value: Array, *indices: Array,
    key: tuple[Any, ...], shape: tuple[int, ...],
) -> Any:  # fmt: skip
    """The values added to zeros at the places of a key.

    Args:
        sums: the sums of the rows of each id up to a number, added in the order of the rows as the
            portable kernel does; it gets rows that are many, of ids in range.
        value: the values.
        indices: the arrays of the key.
        key: see the op.
        shape: of the result.
    """
    if key[:1] != ("array",) or len(indices) != 1 or value.dtype.kind != "f":
        return portable.index_scatter(np, value, *indices, key=key, shape=shape)
    ids, count = indices[0], shape[0]
    fits = value.shape == ids.shape + shape[1:] and all(item == ":" for item in key[1:])
    if not fits or value.itemsize < 4 or value.size < WORTH or ids.dtype.kind != "i":
        return portable.index_scatter(np, value, *indices, key=key, shape=shape)
    ids = ids.reshape(-1)
    if int(ids.min()) < 0:
        ids = np.where(ids < 0, ids + count, ids)
    if int(ids.min()) < 0 or int(ids.max()) >= count:  # the error is NumPy's
        return portable.index_scatter(np, value, *indices, key=key, shape=shape)
    return sums(value.reshape((len(ids), *shape[1:])), ids, count)
