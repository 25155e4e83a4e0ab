"""Powers, roots and logarithms of other bases than e.

Those to base 2 are exact where the result is whole. The others are of float32: computed in float64
and rounded once.
"""

from __future__ import annotations

import math
from typing import Final

from eagerflow_kernels.native.functions.exponential import (
    FloatWriter,
    Pair,
    exp,
    exponent_and_part,
    log,
    log1p,
    log_of,
    outside_of_logarithms,
)
from eagerflow_kernels.native.functions.special import in_float64
from eagerflow_kernels.native.loop_form import Kind, LoopBuilder

#: of each kind ln 2 and 1 / ln 2, each with what it lacks
_LN2: Final[dict[Kind, tuple[str, str]]] = {
    "f32": ("0x1.62e43p-1", "-0x1.05c61p-29"),
    "f64": ("0x1.62e42fefa39efp-1", "0x1.abc9e3b39803fp-56"),
}
_LOG2E: Final[dict[Kind, tuple[str, str]]] = {
    "f32": ("0x1.715476p+0", "0x1.4ae0cp-26"),
    "f64": ("0x1.71547652b82fep+0", "0x1.777d0ffda0d24p-56"),
}


def _numbers(w: FloatWriter, texts: tuple[str, str]) -> tuple[int, int]:
    high, low = (w.number(float.fromhex(text)) for text in texts)
    return high, low


def exp2(b: LoopBuilder, x: int) -> int:
    """2**x: of the nearest whole number, and e**r of what is left times ln 2."""
    w = FloatWriter(b, x)
    scale = 1 / math.log(2)
    low, high = (math.ceil(end * scale) for end in (w.format.underflow, w.format.overflow))
    x = w.clipped(x, low, high)
    k = b.apply("round", x)
    rest = w.subtract(x, k)  # exact
    first, second = _numbers(w, _LN2[w.kind])
    product = w.multiply(rest, first)
    r = Pair(product, w.fma(rest, second, w.fma(rest, first, w.negative(product))))
    total = w.sum_of(w.number(1.0), r.high)
    e = w.add(total.high, w.add(w.rest(r), total.low))
    scale_of_first, scale_of_second = w.power(k)
    return w.multiply(w.multiply(e, scale_of_first), scale_of_second)


def log2(b: LoopBuilder, x: int) -> int:
    """The logarithm to base 2: k, and that of m, of x as 2**k m."""
    w = FloatWriter(b, x)
    k, m = exponent_and_part(w, x)
    first, second = _numbers(w, _LOG2E[w.kind])
    part = log_of(w, m, w.number(0.0))
    product = w.multiply(part, first)
    lost = w.fma(part, second, w.fma(part, first, w.negative(product)))
    total = w.sum_of(k, product)
    near = b.apply("equal", k, w.number(0.0))
    result = w.select(near, w.add(product, lost), w.add(total.high, w.add(total.low, lost)))
    return outside_of_logarithms(w, x, result)


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
