"""Einsum for the CPU: the portable plan, with the sums of `cpu.reduction`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eagerflow_kernels.cpu.reduction import total
from eagerflow_kernels.portable.einsum import follow, make_plan
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]


def _sum(x: Array, axes: tuple[int, ...]) -> Any:
    if x.dtype.kind == "b":
        return np.logical_or.reduce(x, axis=axes)
    if x.dtype.kind in "iu":
        return np.add.reduce(x, axis=axes, dtype=x.dtype)
    return total(x, axis=axes, keepdims=False)


#: methods, where NumPy's functions only call them
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "diagonal": np.ndarray.diagonal,
    "matmul": np.matmul,
    "multiply": np.multiply,
    "reshape": np.ndarray.reshape,
    "squeeze": np.ndarray.squeeze,
    "sum": _sum,
    "transpose": np.ndarray.transpose,
}


@special("einsum", "cpu")
def einsum(*arrays: Array, subscripts: str, optimize: bool | str = "auto") -> Any:
    """Run the portable plan with the CPU's functions."""
    plan = make_plan(subscripts, tuple([x.shape for x in arrays]), optimize)
    return follow(plan, arrays, _FUNCTIONS)
