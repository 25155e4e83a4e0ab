"""Reductions for the CPU: NumPy's ufuncs themselves, without the Python code around them."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.portable.reduction import running_position
from eagerflow_kernels.table import special

__all__: list[str] = []

Array = np.ndarray[Any, Any]

_add: Any = np.add.reduce

for _op, _ufunc in {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}.items():
    special(_op, "cpu")(_ufunc.reduce)


@special("mean", "cpu")
def mean(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    """The sum over the number of elements."""
    count = 1
    for a in axis:
        count *= x.shape[a]
    return np.divide(_add(x, axis=axis, keepdims=keepdims), count)


for _op, _extreme in {"running_argmax": np.maximum, "running_argmin": np.minimum}.items():

    def _running(x: Array, *, axis: int, extreme: np.ufunc = _extreme) -> Any:
        best = extreme.accumulate(x, axis=axis)
        return running_position(np, x, axis, best, np.maximum.accumulate)

    special(_op, "cpu")(_running)
