"""Kernels of activations, with as few allocations as possible: big arrays cost page faults."""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.portable.special import erfc, sigmoid
from eagerflow_kernels.table import Array, portable

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715
_TANH_END = 10.0  # beyond, the tanh is 1 in all dtypes, while squares could overflow
_END = 40.0  # likewise exp(-x**2 / 2) is 0


@portable("relu")
def relu(xp: Any, x: Array) -> Array:
    """The larger of ``x`` and 0."""
    return xp.maximum(x, 0)


@portable("leaky_relu")
def leaky_relu(xp: Any, x: Array, *, slope: float) -> Array:
    """``x`` above 0, ``slope * x`` below."""
    out = xp.asarray(x * slope)
    if 0 < slope <= 1:
        return xp.maximum(x, out, out=out)
    return xp.where(x > 0, x, out)


@portable("hardtanh")
def hardtanh(xp: Any, x: Array, *, low: float, high: float) -> Array:
    """``x`` within limits."""
    return xp.clip(x, low, high)


@portable("elu")
def elu(xp: Any, x: Array, *, alpha: float) -> Array:
    """``x`` above 0, ``alpha * expm1(x)`` below."""
    out = xp.asarray(xp.minimum(x, 0))
    xp.expm1(out, out=out)
    out *= alpha
    out += xp.maximum(x, 0)
    return out


@portable("softplus")
def softplus(xp: Any, x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    out = xp.asarray(xp.abs(x))
    xp.negative(out, out=out)
    xp.exp(out, out=out)
    xp.log1p(out, out=out)
    out += xp.maximum(x, 0)
    return out


@portable("silu")
def silu(xp: Any, x: Array, *, order: int) -> Array:
    """``x * sigmoid(x)``, or its derivative."""
    out = xp.asarray(sigmoid(xp, x), dtype=x.dtype)
    return x * out if order == 0 else out * (1 + x * (1 - out))


@portable("gelu")
def gelu(xp: Any, x: Array, *, approximate: str, order: int) -> Array:
    """``x`` times the normal distribution function, or its derivative; in float64."""
    if approximate == "tanh":
        return gelu_by_tanh(xp, x, order)
    wide = xp.asarray(x, dtype="float64")
    below = 0.5 * erfc(xp, wide / -math.sqrt(2))
    if order == 0:
        out = wide * below
    else:
        wide = xp.clip(wide, -_END, _END)
        out = below + wide * xp.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    return xp.asarray(out, dtype=x.dtype)


def gelu_by_tanh(xp: Any, x: Array, order: int) -> Array:
    """The approximation with tanh, or its derivative; float16 and bfloat16 by way of float32."""
    if x.dtype.itemsize == 2:
        return xp.asarray(gelu_by_tanh(xp, xp.asarray(x, dtype="float32"), order), dtype=x.dtype)
    near = xp.clip(x, -_TANH_END, _TANH_END)
    square = near * near
    out = xp.asarray(square * (_TANH_SCALE * _TANH_CUBIC))
    out += _TANH_SCALE
    out *= near
    xp.tanh(out, out=out)
    if order == 0:
        out += 1
        out *= x
        out *= 0.5
        return out
    square = xp.asarray(square * (1.5 * _TANH_SCALE * _TANH_CUBIC))
    square += 0.5 * _TANH_SCALE
    square *= near
    square *= 1 - out * out  # x / 2 times the slope of the tanh
    out *= 0.5
    out += 0.5
    out += square
    return out
