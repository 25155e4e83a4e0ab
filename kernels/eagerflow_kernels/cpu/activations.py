"""Activations for the CPU: fast in float32, and correct where intermediate results overflow."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from eagerflow_kernels.cpu.constants import constant
from eagerflow_kernels.portable.activations import gelu_by_tanh
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]


@cache
def _erfc() -> Any:
    import scipy.special  # noqa: PLC0415 - `import eagerflow` must not load SciPy

    return scipy.special.erfc


@special("relu", "cpu")
def relu(x: Array) -> Any:
    """As the portable kernel."""
    return np.maximum(x, constant(0, x.dtype))


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
    """GELU or its derivative, in the dtype of ``x``; float16 and bfloat16 by way of float32."""
    if approximate == "tanh":
        return gelu_by_tanh(np, x, order)
    if x.dtype == np.float64:
        return _gelu_by_erfc(x, order)
    out = np.empty(x.shape, np.float32)
    flat, rows = np.ravel(x), out.reshape(-1)  # a view of `out`, which is contiguous
    work = np.empty((3, min(_BLOCK, flat.size)), np.float32)
    for start in range(0, flat.size, _BLOCK):
        part = flat[start : start + _BLOCK].astype(np.float32, copy=False)
        _gelu_by_polynomial(part, order, rows[start : start + _BLOCK], *work[:, : part.size])
    return out.astype(x.dtype, copy=False)


def _gelu_by_erfc(x: Array, order: int) -> Any:
    """GELU or its derivative by SciPy's erfc, which keeps the digits of small results."""
    out = np.asarray(x * (-1 / math.sqrt(2)))
    out = np.asarray(_erfc()(out))
    out *= 0.5
    if order == 0:
        out *= x
        return out
    near = np.clip(x, -40.0, 40.0)  # beyond, the bell is 0, while squares could overflow
    bell = np.asarray(np.multiply(near, near))
    bell *= -0.5
    np.exp(bell, out=bell)
    bell *= near
    bell *= 1 / math.sqrt(2 * math.pi)
    bell += out
    return bell


_BLOCK = 65536  # elements whose arrays stay in the cache
_SIGN = np.int32(-(1 << 31))
_END = np.float32(14.5)  # beyond, the tail of the normal distribution is 0 in float32

#: P(X > t) * exp(t**2 / 2) for X of the normal distribution is nearly u times a polynomial in
#: u = 1 / (1 + 0.3 t), highest coefficient first: fitted for the least relative error, 1.7e-7
_STEP = np.float32(0.3)
_TAIL = tuple(map(np.float32, (
    0.03542432825987229, -0.15616075872544324, 0.20456047282261405, -0.052037128924361575,
    0.1276932654325391, 0.10017554145404689, 0.12071219409020503, 0.11963200389640906,
)))  # fmt: skip


def _gelu_by_polynomial(
    x: Array, order: int, out: Array, near: Array, bell: Array, u: Array
) -> None:
    """Write GELU of a float32 array, or its derivative, to ``out``; the others are work space.

    The relative error is about 1e-6, also of small results; SciPy's erf takes ten times as long.
    """
    np.clip(x, -_END, _END, out=near)
    np.multiply(near, near, out=bell)
    bell *= np.float32(-0.5)
    np.exp(bell, out=bell)
    np.abs(near, out=near)
    np.multiply(near, _STEP, out=u)
    u += 1
    np.divide(1, u, out=u)
    np.multiply(u, _TAIL[0], out=out)
    for coefficient in _TAIL[1:]:
        out += coefficient
        out *= u
    out *= bell  # the tail beyond abs(x), which keeps its digits on both sides
    if order == 0:
        np.abs(np.minimum(x, _END, out=near), out=near)
        out *= near
        np.subtract(np.maximum(x, 0, out=near), out, out=out)
        sign = near.view(np.int32)  # zeros keep theirs; NumPy's copysign takes five times as long
        np.bitwise_and(x.view(np.int32), _SIGN, out=sign)
        np.bitwise_or(out.view(np.int32), sign, out=out.view(np.int32))
        return
    bell *= near
    bell *= np.float32(1 / math.sqrt(2 * math.pi))
    out -= bell
    np.copysign(np.float32(1), x, out=near)
    out *= near
    np.subtract(np.maximum(near, 0, out=near), out, out=out)
