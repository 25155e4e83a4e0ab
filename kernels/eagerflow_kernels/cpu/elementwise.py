"""Elementwise kernels for the CPU that are faster than NumPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]


# for these dtypes NumPy's functions need no additions of the portable kernels
for _op, _function, _kinds in (
    ("expm1", np.expm1, "efd"),
    ("floor_divide", np.floor_divide, "bhilBHIL"),
    ("log1p", np.log1p, "efd"),
    ("round", np.rint, "efd"),
    ("tanh", np.tanh, "efd"),
):
    for _kind in _kinds:
        special(_op, "cpu", (np.dtype(_kind).name,))(_function)


@special("pow", "cpu")
def power(x1: Array, x2: Any) -> Any:
    """``x1 ** x2``, fast for a single whole exponent, where NumPy is slow for negative bases."""
    if type(x2) is np.ndarray:
        if x2.size != 1 or x2.ndim > x1.ndim:
            return np.power(x1, x2)
        exponent = x2.item()
    else:  # an operator passes a Python number
        exponent = x2
    if exponent == 2:
        return np.square(x1)
    if exponent == 3:
        return np.multiply(np.square(x1), x1)
    if x1.dtype.kind == "f" and x1.ndim:
        if exponent == 0.5:  # NumPy takes the root, which is NaN for -inf and -0 for -0
            return np.sqrt(np.where(x1 == -np.inf, -x1, x1)) + x1.dtype.type(0)
        if float(exponent).is_integer():
            out = np.power(np.abs(x1), x2)
            return np.copysign(out, x1, out=out) if exponent % 2 else out
    return np.power(x1, x2)


_SMALL = 4096  # elements up to which two ufuncs cost less than NumPy's clip, which is in Python


@special("clip", "cpu")
def clip(x: Array, low: Array, high: Array) -> Any:
    """The smaller of ``high`` and the larger of ``x`` and ``low``."""
    if x.size <= _SMALL:
        return np.minimum(np.maximum(x, low), high)
    return np.clip(x, low, high)


@special("sigmoid", "cpu")
def sigmoid(x: Array) -> Any:
    """1 / (1 + exp(-x)); where the exponential overflows, the result is 0."""
    out = np.asarray(np.negative(x))
    with np.errstate(over="ignore"):
        np.exp(out, out=out)
    np.add(out, 1, out=out)
    return np.divide(1, out, out=out)
