"""`blank`: arrays of what stands for nothing in a dtype."""

from __future__ import annotations

from typing import Any

Array = Any  # of whatever namespace xp is


def blank(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros; of bytes (which are Python's, in NumPy's arrays of objects), empty ones.

    Args:
        xp: the array namespace.
        shape: of the array.
        dtype: one of NumPy's.
    """
    return xp.full(shape, b"", dtype) if dtype.kind == "O" else xp.zeros(shape, dtype)
