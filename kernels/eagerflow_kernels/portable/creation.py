"""Kernels of ops that create arrays."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import Array, portable

portable("zeros", "zeros")
portable("full", "full")
portable("tril", "tril")
portable("triu", "triu")


@portable("arange")
def arange(xp: Any, *, start: Any, stop: Any, step: Any, size: int, dtype: Any) -> Array:
    """Values from ``start`` in steps; integers are exact, others rounded once from float64."""
    integral = isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)
    if integral and dtype.is_integer:
        return xp.arange(start, stop, step, dtype=dtype)
    return (xp.arange(size, dtype="float64") * step + start).astype(dtype)


@portable("linspace")
def linspace(xp: Any, *, start: Any, stop: Any, num: int, endpoint: bool, dtype: Any) -> Array:
    """Evenly spaced values, computed in double precision and rounded once; to integers, down."""
    wide = "complex128" if isinstance(start, complex) or isinstance(stop, complex) else "float64"
    values = xp.linspace(start, stop, num, endpoint=endpoint, dtype=wide)
    return (xp.floor(values) if dtype.is_integer else values).astype(dtype)


@portable("eye")
def eye(xp: Any, *, rows: int, columns: int, k: int, dtype: Any) -> Array:
    """Ones on the k-th diagonal."""
    return xp.eye(rows, columns, k, dtype=dtype)


@portable("copy")
def copy(xp: Any, x: Array) -> Array:
    """The same values in memory of their own."""
    return x.copy()


@portable("of_taking_rows")
def of_taking_rows(xp: Any, x: Array, taking: Array) -> Array:
    """The same values: outside of `ef.vmap` all rows take the same way."""
    return x.view()


@portable("identity")
@portable("stop_gradient")
def identity(xp: Any, x: Array) -> Array:
    """The same values in the same memory, as another array object."""
    return x.view()
