"""Kernels of the elementwise ops."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import portable

__all__: list[str] = []

Array = Any  # of whatever namespace xp is

# ops that are a function of the array namespace, under the same name or another
for _op, _function in {
    "add": "add",
    "multiply": "multiply",
    "divide": "divide",
    "negative": "negative",
    "conj": "conj",
    "exp": "exp",
}.items():
    portable(_op, _function)


@portable("cast")
def cast(xp: Any, x: Array, *, dtype: Any) -> Array:
    """Convert to another dtype; the imaginary part of a complex number is dropped."""
    if x.dtype.kind == "c" and xp.dtype(dtype).kind != "c":
        x = x.real
    return x.astype(dtype)
