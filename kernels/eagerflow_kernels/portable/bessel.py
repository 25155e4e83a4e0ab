"""Kernels of modified Bessel functions. They compute in float64 and round once."""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.portable.special import in_float64
from eagerflow_kernels.table import Array

#: x from which on the asymptotic series is used: its smallest term is below the rounding error
_FAR = 30.0


def _scaled(xp: Any, order: int, x: Array) -> Array:
    """exp(-x) times the function of an order, 0 or 1, for x >= 0.

    By the power series (Abramowitz and Stegun 9.6.10), all terms of which are positive, and the
    asymptotic series (9.7.1).
    """
    near = xp.minimum(x, _FAR)
    square = near * near / 4
    term = xp.ones_like(x) if order == 0 else near / 2
    total = term
    for k in range(1, 80):
        term = term * square / (k * (k + order))
        total = total + term
    far = xp.where(x > _FAR, x, _FAR)
    term = xp.ones_like(x)
    series = term
    for k in range(1, 24):
        term = term * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * far)
        series = series + term
    return xp.where(x > _FAR, series / xp.sqrt(2 * math.pi * far), total * xp.exp(-near))


def _grown(xp: Any, scaled: Array, x: Array) -> Array:
    """``scaled`` times exp(x); infinite for infinite x."""
    return xp.where(x == math.inf, x, scaled * xp.exp(x))


@in_float64("i0e")
def i0e(xp: Any, x: Array) -> Array:
    """The function of order 0, scaled."""
    return _scaled(xp, 0, xp.abs(x))


@in_float64("i0")
def i0(xp: Any, x: Array) -> Array:
    """The function of order 0."""
    size = xp.abs(x)
    return _grown(xp, _scaled(xp, 0, size), size)


@in_float64("i1e")
def i1e(xp: Any, x: Array) -> Array:
    """The function of order 1, scaled."""
    return xp.copysign(_scaled(xp, 1, xp.abs(x)), x)


@in_float64("i1")
def i1(xp: Any, x: Array) -> Array:
    """The function of order 1."""
    size = xp.abs(x)
    return xp.copysign(_grown(xp, _scaled(xp, 1, size), size), x)
