"""Rules of exponentials.

The error of exp is below 1 ulp in float32 and float64, the error of expm1 below 1.1 ulp in float32
and below 2 ulp in float64.
"""

from __future__ import annotations

import math
from typing import Final

from eagerflow_kernels.native.functions.float_writer import FloatWriter, Pair, first_and_rest
from eagerflow_kernels.native.loop_form import Kind, LoopBuilder

#: for each kind ln 2 as a float, and its rounding error
_LN2: Final[dict[Kind, tuple[str, str]]] = {
    "f32": ("0x1.62e43p-1", "-0x1.05c61p-29"),
    "f64": ("0x1.62e42fefa39efp-1", "0x1.abc9e3b39803fp-56"),
}


def exp(b: LoopBuilder, x: int) -> int:
    """e**x."""
    w = FloatWriter(b, x)
    k, r = w.reduced_to_float(w.clipped(x, w.format.underflow, w.format.overflow))
    first, second = w.power_of_shifted(k)
    e = w.exponential_of_float(r)
    return w.multiply(w.multiply(w.add(e.high, e.low), first), second)


def expm1(b: LoopBuilder, x: int) -> int:
    """e**x - 1, with all its digits near 0."""
    w = FloatWriter(b, x)
    t = w.less_one(w.clipped(x, -40.0, 20.0))
    near = w.select(b.apply("equal", x, w.number(0.0)), x, w.add(t.high, t.low))
    large = b.apply("less", w.number(20.0), x)
    return w.select(large, w.subtract(exp(b, x), w.number(1.0)), near)


def exp2(b: LoopBuilder, x: int) -> int:
    """2**x: 2**k of the nearest whole number k, times e**r with r = (x - k) ln 2."""
    w = FloatWriter(b, x)
    scale = 1 / math.log(2)
    low, high = (math.ceil(end * scale) for end in (w.format.underflow, w.format.overflow))
    x = w.clipped(x, low, high)
    k = b.apply("round", x)
    rest = w.subtract(x, k)  # exact
    first, second = first_and_rest(w, _LN2[w.kind])
    product = w.multiply(rest, first)
    r = Pair(product, w.fma(rest, second, w.fma(rest, first, w.negative(product))))
    total = w.sum_of(w.number(1.0), r.high)
    e = w.add(total.high, w.add(w.rest(r), total.low))
    scale_of_first, scale_of_second = w.power(k)
    return w.multiply(w.multiply(e, scale_of_first), scale_of_second)
