"""Rules of logarithms.

The error of log is below 1 ulp in float32 and float64, the error of log1p below 1.5 ulp in float32
and 2 ulp in float64. log2 is exact where the result is whole; log10 and logaddexp are for float32,
computed in float64 and rounded once. The polynomial of log in float32 is computed by
``tools/minimax.py``. That of log in float64, in s = f / (2 + f), is FDLIBM's (Sun Microsystems,
1993).
"""

from __future__ import annotations

import math
from typing import Final

from eagerflow_kernels.native.functions.exponential import exp
from eagerflow_kernels.native.functions.float_writer import (
    FloatWriter,
    first_and_rest,
    floats,
    in_float64,
)
from eagerflow_kernels.native.loop_form import BITS, Kind, LoopBuilder

#: (log(1 + f) - f + f**2 / 2) / f**3 between sqrt(1/2) - 1 and sqrt(2) - 1
_LOG_F32: Final = floats(
    "0x1.555554p-2", "-0x1.000226p-2", "0x1.99a008p-3", "-0x1.547244p-3", "0x1.22da1ep-3",
    "-0x1.0d8542p-3", "0x1.055b68p-3", "-0x1.38b578p-4",
)  # fmt: skip
#: FDLIBM's Lg1 to Lg7
_LOG_F64: Final = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip


#: for each kind 1 / ln 2 as a float, and its rounding error
_LOG2E: Final[dict[Kind, tuple[str, str]]] = {
    "f32": ("0x1.715476p+0", "0x1.4ae0cp-26"),
    "f64": ("0x1.71547652b82fep+0", "0x1.777d0ffda0d24p-56"),
}


def log1p(b: LoopBuilder, x: int) -> int:
    """log(1 + x), accurate near 0: the logarithm of the sum, corrected for the sum's rounding."""
    w = FloatWriter(b, x)
    one, zero = w.number(1.0), w.number(0.0)
    u = w.add(one, x)
    small = w.subtract(x, w.subtract(u, one))
    large = w.subtract(one, w.subtract(u, x))
    lost = b.apply("divide", w.select(b.apply("less", x, one), small, large), u)
    inside = b.apply("and", b.apply("less", zero, u), b.apply("less", u, w.number(math.inf)))
    result = w.add(log(b, u), w.select(inside, lost, zero))
    return w.select(b.apply("equal", x, zero), x, result)


def log(b: LoopBuilder, x: int) -> int:
    """The natural logarithm, from x = 2**k m: that of m, plus k ln 2."""
    w = FloatWriter(b, x)
    k, m = exponent_and_part(w, x)
    return outside_of_logarithms(w, x, log_of(w, m, k))


def log_of(w: FloatWriter, m: int, k: int) -> int:
    """The natural logarithm of 2**k m, m between sqrt(1/2) and sqrt(2)."""
    of_part = _log_f32 if w.kind == "f32" else _log_f64
    return of_part(w, w.subtract(m, w.number(1.0)), k)


def outside_of_logarithms(w: FloatWriter, x: int, result: int) -> int:
    """The result, with the logarithms of 0, negative, infinite and NaN x put in."""
    b = w.b
    infinite = w.number(math.inf)
    result = w.select(b.apply("less", x, infinite), result, x)
    result = w.select(b.apply("less", x, w.number(0.0)), w.number(math.nan), result)
    return w.select(b.apply("equal", x, w.number(0.0)), w.number(-math.inf), result)


def exponent_and_part(w: FloatWriter, x: int) -> tuple[int, int]:
    """K and m of x = 2**k m, m between sqrt(1/2) and sqrt(2), also where x is subnormal."""
    f = w.format
    lifted = float(f.digits + 1)
    subnormal = w.b.apply("less", x, w.number(f.smallest))
    normal = w.select(subnormal, w.multiply(x, w.number(2.0**lifted)), x)
    k, m = _parts(w, normal)
    return w.subtract(k, w.select(subnormal, w.number(lifted), w.number(0.0))), m


def _parts(w: FloatWriter, x: int) -> tuple[int, int]:
    """K and m of x = 2**k m, m between sqrt(1/2) and sqrt(2)."""
    b, f = w.b, w.format
    whole = BITS[w.kind]
    bits = b.apply("bits", x)
    k = b.apply("shift_right", w.subtract(bits, b.bit_pattern(f.root, whole)), by=f.digits)
    m = b.apply("bits", w.subtract(bits, b.apply("shift_left", k, by=f.digits)))
    magic = w.number(f.magic)
    shifted = b.apply("bits", w.add(k, b.apply("bits", magic)))
    return w.subtract(shifted, magic), m


def _log_f32(w: FloatWriter, f: int, k: int) -> int:
    """K ln 2 + f - f**2 / 2 + f**3 q(f), the large parts first."""
    high, low = map(w.number, w.format.ln2)
    q = w.polynomial(_LOG_F32, f)
    square = w.multiply(f, f)
    rest = w.multiply(square, w.fma(f, q, w.number(-0.5)))
    large = w.multiply(k, high)  # exact, and larger than f unless k is 0
    total = w.sum_of(large, f)
    low_part = w.fma(k, low, total.low)
    return w.add(total.high, w.add(low_part, rest))


def _log_f64(w: FloatWriter, f: int, k: int) -> int:
    high, low = map(w.number, w.format.ln2)
    s = w.b.apply("divide", f, w.add(w.number(2.0), f))
    z = w.multiply(s, s)
    half_square = w.multiply(w.number(0.5), w.multiply(f, f))
    rest = w.multiply(z, w.polynomial(_LOG_F64, z))
    inner = w.fma(s, w.add(half_square, rest), w.multiply(k, low))
    total = w.sum_of(w.multiply(k, high), f)
    return w.add(total.high, w.add(total.low, w.subtract(inner, half_square)))


def log2(b: LoopBuilder, x: int) -> int:
    """The logarithm to base 2: with x = 2**k m, k + log(m) / ln 2."""
    w = FloatWriter(b, x)
    k, m = exponent_and_part(w, x)
    first, second = first_and_rest(w, _LOG2E[w.kind])
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
def logaddexp(b: LoopBuilder, x: int, y: int) -> int:
    """log(e**x + e**y): the larger operand, plus log(1 + e**-d) of their distance d."""
    w = FloatWriter(b, x)
    distance = b.apply("absolute", w.subtract(x, y))
    distance = w.select(b.apply("equal", x, y), w.number(0.0), distance)  # inf - inf is NaN
    return w.add(b.apply("maximum", x, y), log1p(b, exp(b, w.negative(distance))))
