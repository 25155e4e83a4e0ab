"""`blank`: arrays filled with the zero of a dtype."""

from __future__ import annotations

from typing import Any

Array = Any  # of the namespace xp


def blank(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """An array of zeros; for bytes (Python's, in NumPy's arrays of objects), of empty strings.

    Args:
        xp: the array namespace.
        shape: of the array.
        dtype: one of NumPy's.
    """
    return xp.full(shape, b"", dtype) if dtype.kind == "O" else xp.zeros(shape, dtype)
