"""Rules of hyperbolic functions and their inverses.

The error of tanh is below 1 ulp in float32 and float64. The others are for float32, computed in
float64 and rounded once; cosh also is for float64.
"""

from __future__ import annotations

import math
from typing import Final

from eagerflow_kernels.native.functions.exponential import expm1
from eagerflow_kernels.native.functions.float_writer import FloatWriter, floats, in_float64
from eagerflow_kernels.native.functions.logarithms import log1p
from eagerflow_kernels.native.loop_form import Kind, LoopBuilder

#: up to this x tanh is a polynomial; above it 1 - tanh(x) is below 1/4, so that the last digits of
#: the difference are below the last digits of the result
_NEAR: Final = 0.9765625
#: the polynomial p with tanh(x) = x + x * z * p(z), z = x * x, for x up to `_NEAR`
_TANH: Final[dict[Kind, tuple[float, ...]]] = {
    "f32": floats(
        "-0x1.555542p-2", "0x1.110cfp-3", "-0x1.b980e2p-5", "0x1.60d63ep-6",
        "-0x1.070cdep-7", "0x1.366142p-9", "-0x1.8e14e2p-12",
    ),
    "f64": floats(
        "-0x1.5555555555554p-2", "0x1.1111111110f51p-3", "-0x1.ba1ba1ba0433dp-5",
        "0x1.664f487e1d7aep-6", "-0x1.226e34d756f54p-7", "0x1.d6d3bd3dd651ep-9",
        "-0x1.7da26aed65f0ep-10", "0x1.354f54a3f9d0ep-11", "-0x1.f508a3f8db9d8p-13",
        "0x1.943beb7a20543p-14", "-0x1.410cd59ae0eb7p-15", "0x1.e63b8dc348685p-17",
        "-0x1.496b6c16512f3p-18", "0x1.68963a61c6b78p-20", "-0x1.105191766db02p-22",
        "0x1.9bf3cf7b952e3p-26",
    ),
}  # fmt: skip
#: an x from which on tanh(x) is 1
_TANH_END: Final[dict[Kind, float]] = {"f32": 10.0, "f64": 22.0}
#: an x whose exponential overflows in float32, and is far from overflow in float64
_END: Final = 120.0


def tanh(b: LoopBuilder, x: int) -> int:
    """A polynomial near 0, 1 - 2 / (1 + e**(2 |x|)) elsewhere, and the sign of x."""
    w = FloatWriter(b, x)
    one, end = w.number(1.0), w.number(_TANH_END[w.kind])
    size = b.apply("absolute", x)
    size = w.select(b.apply("less", end, size), end, size)
    square = w.multiply(size, size)
    bend = w.multiply(square, w.polynomial(_TANH[w.kind], square))
    near = w.fma(size, bend, size)
    k, r = w.reduced_to_float(w.add(size, size))
    scale = w.single_power(k)
    below = w.fma(w.rise(r), scale, w.add(scale, one))
    far = w.subtract(one, b.apply("divide", w.number(2.0), below))
    is_near = b.apply("less", size, w.number(_NEAR))
    return b.apply("copysign", w.select(is_near, near, far), x)


@in_float64
def sinh(b: LoopBuilder, x: int) -> int:
    """(t + t / (1 + t)) / 2 with t = e**|x| - 1, and the sign of x."""
    w = FloatWriter(b, x)
    t = expm1(b, w.clipped(b.apply("absolute", x), 0.0, _END))
    total = w.add(t, b.apply("divide", t, w.add(t, w.number(1.0))))
    return b.apply("copysign", w.multiply(total, w.number(0.5)), x)


def cosh(b: LoopBuilder, x: int) -> int:
    """H + 1 / (4 h) with h = e**|x| / 2, for float64 too."""
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
