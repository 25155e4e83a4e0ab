"""Powers, roots and logarithms of other bases than e, of float32: in float64, rounded once."""

from __future__ import annotations

import math

from eagerflow_kernels.native.functions.exponential import FloatWriter, exp, log, log1p
from eagerflow_kernels.native.functions.special import in_float64
from eagerflow_kernels.native.loop_form import LoopBuilder


@in_float64
def exp2(b: LoopBuilder, x: int) -> int:
    """2**x."""
    w = FloatWriter(b, x)
    return exp(b, w.multiply(x, w.number(math.log(2))))


@in_float64
def log2(b: LoopBuilder, x: int) -> int:
    """The logarithm to base 2."""
    w = FloatWriter(b, x)
    return w.multiply(log(b, x), w.number(1 / math.log(2)))


@in_float64
def log10(b: LoopBuilder, x: int) -> int:
    """The logarithm to base 10."""
    w = FloatWriter(b, x)
    return w.multiply(log(b, x), w.number(1 / math.log(10)))


@in_float64
def cbrt(b: LoopBuilder, x: int) -> int:
    """The cube root, with the sign of x."""
    w = FloatWriter(b, x)
    third = w.multiply(log(b, b.apply("absolute", x)), w.number(1 / 3))
    return b.apply("copysign", exp(b, third), x)


@in_float64
def hypot(b: LoopBuilder, x: int, y: int) -> int:
    """sqrt(x**2 + y**2), whose squares float64 holds; infinite if one is, beside NaN too."""
    w = FloatWriter(b, x)
    result = b.apply("sqrt", w.fma(x, x, w.multiply(y, y)))
    infinite = w.number(math.inf)
    for side in (x, y):
        found = b.apply("equal", b.apply("absolute", side), infinite)
        result = w.select(found, infinite, result)
    return result


@in_float64
def logaddexp(b: LoopBuilder, x: int, y: int) -> int:
    """log(e**x + e**y): the larger one, and log(1 + e**-d) of their distance d."""
    w = FloatWriter(b, x)
    distance = b.apply("absolute", w.subtract(x, y))
    distance = w.select(b.apply("equal", x, y), w.number(0.0), distance)  # of infinite ones, NaN
    return w.add(b.apply("maximum", x, y), log1p(b, exp(b, w.negative(distance))))
