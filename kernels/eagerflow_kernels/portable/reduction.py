"""Kernels of the reduction ops. Axes are tuples counted from the front."""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.table import portable

__all__: list[str] = []

Array = Any  # of whatever namespace xp is
Axes = tuple[int, ...]

for _op in ("sum", "prod", "max", "min", "any", "all"):
    portable(_op, _op)


def _count(x: Array, axis: Axes) -> int:
    return math.prod(x.shape[a] for a in axis)


@portable("mean")
def mean(xp: Any, x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """The sum over the number of elements."""
    total = xp.sum(x, axis=axis, keepdims=keepdims)
    return xp.divide(total, xp.asarray(_count(x, axis), dtype=total.dtype))
