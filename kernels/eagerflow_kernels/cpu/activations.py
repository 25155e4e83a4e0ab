"""Activations for the CPU: SciPy's functions, and overflow that gives the right result."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from eagerflow_kernels.portable.activations import gelu_by_tanh
from eagerflow_kernels.table import special

__all__: list[str] = []

Array = np.ndarray[Any, Any]


@cache
def _erfc() -> Any:
    import scipy.special  # noqa: PLC0415 - `import eagerflow` must not load SciPy

    return scipy.special.erfc


@special("silu", "cpu")
def silu(x: Array, *, order: int) -> Any:
    """``x / (1 + exp(-x))``, or its derivative; 0 where the exponential overflows."""
    out = np.asarray(np.negative(x))
    with np.errstate(over="ignore"):
        np.exp(out, out=out)
    out += 1
    if order == 0:
        return np.divide(x, out, out=out)
    np.divide(1, out, out=out)
    slope = np.asarray(np.subtract(1, out))
    slope *= x
    slope += 1
    slope *= out
    return slope


@special("gelu", "cpu")
def gelu(x: Array, *, approximate: str, order: int) -> Any:
    """In the dtype of ``x``; SciPy's erfc keeps the digits of small results."""
    if approximate == "tanh":
        return gelu_by_tanh(np, x, order)
    out = np.asarray(x * (-1 / math.sqrt(2)))
    out = np.asarray(_erfc()(out)).astype(x.dtype, copy=False)
    out *= 0.5
    if order == 0:
        out *= x
        return out
    bell = np.asarray(np.multiply(x, x))
    bell *= -0.5
    np.exp(bell, out=bell)
    bell *= x
    bell *= 1 / math.sqrt(2 * math.pi)
    bell += out
    return bell
