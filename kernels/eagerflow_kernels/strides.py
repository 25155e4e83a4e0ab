"""Copies of arrays with the memory layout of the original, strides included.

Results of NumPy and BLAS depend on the strides of an array in the last bit: in the order of sums,
and in the loops for contiguous elements.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_FACTOR: Final = 4  # the most memory of a copy, in multiples of its elements' memory
_SMALL: Final = 1 << 12  # bytes that a copy may take in any case


def blank(x: Array) -> Array:
    """An array of the dtype, shape and strides of ``x``, whose elements are not set.

    If that would take several times the memory of the elements (a column of a large matrix), only
    the order of the axes is kept, and elements are contiguous.

    >>> x = np.zeros((4, 6), "float32")[::2, ::-1]
    >>> blank(x).strides == x.strides
    True
    """
    first, last = _extent(x)
    span = last - first
    if x.dtype.hasobject or not x.size or span > max(_FACTOR * x.nbytes, _SMALL):
        return np.empty_like(x)
    memory = np.empty(span, np.uint8)
    return np.ndarray(x.shape, x.dtype, memory, -first, x.strides)


def copied(x: Array) -> Array:
    """A copy with the memory layout of ``x``.

    >>> x = np.broadcast_to(np.arange(3), (2, 3))
    >>> copied(x).strides == x.strides
    True
    """
    out = blank(x)
    out[...] = x
    return out


def memory_of(x: Array) -> int:
    """Number of bytes of a copy with the memory layout of ``x``."""
    first, last = _extent(x)
    span = last - first
    return x.nbytes if not x.size or span > max(_FACTOR * x.nbytes, _SMALL) else span


def _extent(x: Array) -> tuple[int, int]:
    """Begin and end of the memory of ``x``, in bytes from its first element."""
    steps = [(size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True)]
    return sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps) + x.itemsize
