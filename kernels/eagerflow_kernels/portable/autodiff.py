"""Kernels of the ops that only differentiation tells from the identity."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import portable

__all__: list[str] = []

Array = Any  # of whatever namespace xp is


@portable("stop_gradient")
def stop_gradient(xp: Any, x: Array) -> Array:
    """The same values in the same memory, as another array object."""
    return x.view()
