"""Hyperbolic functions and their inverses: of float32, computed in float64 and rounded once.

``tanh``, which has polynomials of its own, is in `exponential`.
"""

from __future__ import annotations

import math
from typing import Final

from eagerflow_kernels.native.functions.exponential import FloatWriter, expm1, log1p
from eagerflow_kernels.native.functions.special import in_float64
from eagerflow_kernels.native.loop_form import LoopBuilder

#: from here on exponentials are infinite in float32, and far from it in float64
_END: Final = 120.0


@in_float64
def sinh(b: LoopBuilder, x: int) -> int:
    """(t + t / (1 + t)) / 2 with t = e**|x| - 1, and the sign of x."""
    w = FloatWriter(b, x)
    t = expm1(b, w.clipped(b.apply("absolute", x), 0.0, _END))
    total = w.add(t, b.apply("divide", t, w.add(t, w.number(1.0))))
    return b.apply("copysign", w.multiply(total, w.number(0.5)), x)


def cosh(b: LoopBuilder, x: int) -> int:
    """H + 1 / (4 h) with h = e**|x| / 2, of float64 too."""
    w = FloatWriter(b, x)
    k, e = w.exponential(w.clipped(b.apply("absolute", x), 0.0, w.format.overflow + 1))
    first, second = w.power(w.subtract(k, w.number(1.0)))
    half = w.multiply(w.multiply(w.add(e.high, e.low), first), second)
    return w.add(half, b.apply("divide", w.number(0.25), half))


@in_float64
def asinh(b: LoopBuilder, x: int) -> int:
    """log(1 + a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|, and the sign of x."""
    w = FloatWriter(b, x)
    size, one = b.apply("absolute", x), w.number(1.0)
    square = w.multiply(size, size)
    below = w.add(one, b.apply("sqrt", w.add(one, square)))
    result = log1p(b, w.add(size, b.apply("divide", square, below)))
    finite = b.apply("less", size, w.number(math.inf))
    return b.apply("copysign", w.select(finite, result, size), x)


@in_float64
def acosh(b: LoopBuilder, x: int) -> int:
    """log(1 + t + sqrt(t (t + 2))) with t = x - 1; NaN below 1."""
    w = FloatWriter(b, x)
    t = w.subtract(x, w.number(1.0))
    root = b.apply("sqrt", w.multiply(t, w.add(t, w.number(2.0))))
    outside = b.apply("less", x, w.number(1.0))
    return w.select(outside, w.number(math.nan), log1p(b, w.add(t, root)))


@in_float64
def atanh(b: LoopBuilder, x: int) -> int:
    """Half of log(1 + 2 a / (1 - a)) with a = |x|, and the sign of x; NaN beyond 1."""
    w = FloatWriter(b, x)
    size = b.apply("absolute", x)
    ratio = b.apply("divide", w.add(size, size), w.subtract(w.number(1.0), size))
    return b.apply("copysign", w.multiply(log1p(b, ratio), w.number(0.5)), x)
