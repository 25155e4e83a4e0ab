"""Rules of the error function, and of functions based on it or on exponentials.

For float32 GELU, softplus and erfc are computed in float64.

The polynomials are computed by ``tools/minimax.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from eagerflow_kernels.native.functions.arithmetic import maximum, nearest
from eagerflow_kernels.native.functions.exponential import exp, expm1
from eagerflow_kernels.native.functions.float_writer import FloatWriter, Pair, in_float64
from eagerflow_kernels.native.functions.logarithms import log1p
from eagerflow_kernels.native.loop_form import LoopBuilder

#: the polynomial p with erf(x) = x * p(x**2), |x| at most 1
_NEAR: Final = tuple(map(float.fromhex, (
    "0x1.20dd750429b6dp+0", "-0x1.812746b0379e7p-2", "0x1.ce2f21a042bddp-4",
    "-0x1.b82ce31288997p-6", "0x1.565bcd0e64a0dp-8", "-0x1.c02db3fed7076p-11",
    "0x1.f9a326bf7b632p-14", "-0x1.f4d255dc583dfp-17", "0x1.b9e64cbf42760p-20",
    "-0x1.5f6d686c77c72p-23", "0x1.fc40eec4838f8p-27", "-0x1.4e5516164d9abp-30",
    "0x1.7ec82f160cf80p-34", "-0x1.2920067a05950p-38",
)))  # fmt: skip
#: (1 + 2 x) exp(x**2) erfc(x) as a polynomial in (x - 4) / (x + 4), x from 0 to 28
_FAR: Final = tuple(map(float.fromhex, (
    "0x1.3ba5916e9fd7fp+0", "-0x1.1df1ad154a28fp-3", "0x1.f7f5df66fd7d0p-7",
    "0x1.16ecefcfa5406p-4", "-0x1.9ddb23c3e9197p-4", "0x1.7fee004e112fbp-4",
    "-0x1.0fb06dfe47f09p-4", "0x1.3079edf6af1e7p-5", "-0x1.096238855df1ap-6",
    "0x1.49c6727702f9bp-8", "-0x1.8d4a999b21518p-11", "-0x1.a1df18a32c2eap-13",
    "0x1.3be03755e90acp-13", "-0x1.995b066c888c6p-16", "-0x1.7883892e6e74cp-17",
    "0x1.7f3d516bbb81dp-18", "0x1.3952264b224a1p-22", "-0x1.bc52ecc996ee0p-21",
    "0x1.4a1added97e0cp-24", "0x1.e5a28c9629645p-24", "-0x1.46ae017250782p-26",
    "-0x1.1a6bebf9c0b63p-26", "0x1.d15e7d5777b36p-30", "0x1.19154405e1bccp-29",
    "0x1.2ad925ce0daebp-32",
)))  # fmt: skip
_CENTRE: Final = 4.0
_END: Final = 28.0  # beyond, erfc is 0
_NORMAL_END: Final = 39.0  # beyond, the normal distribution function is 0


def _near(w: FloatWriter, x: int) -> int:
    return w.multiply(x, w.polynomial(_NEAR, w.multiply(x, x)))


def _tail(w: FloatWriter, z: int, x: int, scale: float) -> int:
    """exp(-scale * x**2) (1 + 2 z) exp(z**2) erfc(z) / (1 + 2 z), the product in extra precision.

    Args:
        w: the writer.
        z: from 0 to 28.
        x: not negative; the result is erfc(z) if scale * x**2 is z**2.
        scale: a power of 2.
    """
    k, e = _exponential_of_square(w, x, scale)
    centre = w.number(_CENTRE)
    t = w.quotient(_sum(w, z, w.negative(centre)), _sum(w, z, centre))
    p = w.polynomial(_FAR, t)
    high = w.multiply(p, e.high)
    low = w.fma(p, e.low, w.fma(p, e.high, w.negative(high)))
    ratio = w.quotient(Pair(high, low), _sum(w, w.add(z, z), w.number(1.0)))
    first, second = w.power(k)
    return w.multiply(w.multiply(ratio, first), second)


def _sum(w: FloatWriter, x: int, y: int) -> Pair:
    """The exact sum of two terms, whichever is larger."""
    high = w.add(x, y)
    part = w.subtract(high, x)
    return Pair(high, w.add(w.subtract(x, w.subtract(high, part)), w.subtract(y, part)))


def _exponential_of_square(w: FloatWriter, x: int, scale: float) -> tuple[int, Pair]:
    """K and e with exp(-scale * x**2) = 2**k e."""
    factor = w.number(-scale)
    square = w.multiply(x, x)
    lost = w.multiply(w.fma(x, x, w.negative(square)), factor)
    k, e = w.exponential(w.clipped(w.multiply(square, factor), w.format.underflow, 0.0))
    return k, Pair(e.high, w.fma(w.add(e.high, e.low), lost, e.low))


def _bell(w: FloatWriter, x: int, scale: float) -> int:
    """exp(-scale * x**2), scale a power of 2, corrected for the rounding of the square."""
    k, e = _exponential_of_square(w, x, scale)
    first, second = w.power(k)
    return w.multiply(w.multiply(w.add(e.high, e.low), first), second)


#: (erf(x) - x) / x as a polynomial in x**2, |x| at most 1, for float32
_NEAR_SINGLE: Final = tuple(map(float.fromhex, (
    "0x1.06eba80000000p-3", "-0x1.81273e0000000p-2", "0x1.ce2cf60000000p-4",
    "-0x1.b7f8f60000000p-6", "0x1.5405180000000p-8", "-0x1.a3f3380000000p-11",
    "0x1.4960fa0000000p-14",
)))  # fmt: skip
#: the square root of 1 - erf(x) as a polynomial in x - `_MIDDLE`, x from 1 to `_ONE`, for float32
_ROOT_SINGLE: Final = tuple(map(float.fromhex, (
    "0x1.2cb03e0000000p-3", "-0x1.18a0820000000p-2", "0x1.843ab60000000p-3",
    "-0x1.3133560000000p-5", "-0x1.723e5e0000000p-6", "0x1.b01a7e0000000p-7",
    "-0x1.c10df00000000p-16", "-0x1.c558e20000000p-10", "0x1.7aa7ce0000000p-12",
    "0x1.b53fe00000000p-14", "-0x1.c1b7f80000000p-15", "0x1.b578280000000p-18",
)))  # fmt: skip
_MIDDLE: Final = 1.625
_ONE: Final = 3.9375  # from there on, the error function is 1 in float32


def erf(b: LoopBuilder, x: int) -> int:
    """The error function; for float32 in its own arithmetic, which takes a fifth of the time."""
    return _erf_of_single(b, x) if b.kind(x) == "f32" else _erf(b, x)


def _erf_of_single(b: LoopBuilder, x: int) -> int:
    """Below 1 a multiple of x; above, 1 less a square, which takes no exponential."""
    size, one, last = b.apply("absolute", x), b.constant(1.0, x), b.constant(_ONE, x)
    near = b.apply("fma", _horner(b, _NEAR_SINGLE, b.apply("multiply", x, x)), x, x)
    above = b.apply("select", b.apply("less", last, size), last, size)  # NaN stays
    root = _horner(b, _ROOT_SINGLE, b.apply("subtract", above, b.constant(_MIDDLE, x)))
    far = b.apply("copysign", b.apply("fma", b.apply("negative", root), root, one), x)
    return b.apply("select", b.apply("less", one, size), far, near)


def _horner(b: LoopBuilder, coefficients: Sequence[float], x: int) -> int:
    """A polynomial in float32, the coefficient of the lowest power first."""
    *rest, highest = [nearest(b, c, x) for c in coefficients]
    for c in reversed(rest):
        highest = b.apply("fma", highest, x, c)
    return highest


@in_float64
def _erf(b: LoopBuilder, x: int) -> int:
    """The error function, in float64."""
    w = FloatWriter(b, x)
    size = b.apply("absolute", x)
    z = w.clipped(size, 0.0, 6.0)
    far = w.subtract(w.number(1.0), _tail(w, z, z, 1.0))
    is_near = b.apply("less", size, w.number(1.0))
    near = _near(w, w.select(is_near, x, w.number(0.0)))
    return w.select(is_near, near, b.apply("copysign", far, x))


@in_float64
def erfc(b: LoopBuilder, x: int) -> int:
    """1 - erf(x), accurate where it is small."""
    w = FloatWriter(b, x)
    size = b.apply("absolute", x)
    z = w.clipped(size, 0.0, _END)
    far = _tail(w, z, z, 1.0)
    far = w.select(b.apply("less", x, w.number(0.0)), w.subtract(w.number(2.0), far), far)
    is_near = b.apply("less", size, w.number(0.5))
    near = _near(w, w.select(is_near, x, w.number(0.0)))
    return w.select(is_near, w.subtract(w.number(1.0), near), far)


@in_float64
def gelu_by_erf(b: LoopBuilder, x: int, *, order: int) -> int:
    """X times the normal distribution function, or its derivative."""
    w = FloatWriter(b, x)
    z = w.clipped(b.apply("absolute", x), 0.0, _NORMAL_END)
    tail = _tail(w, w.multiply(z, w.number(math.sqrt(0.5))), z, 0.5)
    tail = w.multiply(tail, w.number(0.5))
    negative = b.apply("less", x, w.number(0.0))
    below = w.select(negative, tail, w.subtract(w.number(1.0), tail))
    half, is_near = w.number(0.5), b.apply("less", z, w.number(0.5))
    near = _near(w, w.multiply(w.select(is_near, x, half), w.number(math.sqrt(0.5))))
    below = w.select(is_near, w.fma(near, half, half), below)
    if order == 0:
        return w.multiply(x, below)
    slope = w.multiply(_bell(w, z, 0.5), w.number(1 / math.sqrt(2 * math.pi)))
    return w.fma(b.apply("copysign", z, x), slope, below)


@in_float64
def softplus(b: LoopBuilder, x: int) -> int:
    """log(1 + e**x); in float32 arithmetic its error would exceed 2 ulp for some x."""
    w = FloatWriter(b, x)
    rest = log1p(b, exp(b, w.negative(b.apply("absolute", x))))
    return w.add(rest, maximum(b, x, w.number(0.0)))


def elu(b: LoopBuilder, x: int, *, alpha: int) -> int:
    """X above 0, ``alpha * (e**x - 1)`` below."""
    zero = FloatWriter(b, x).number(0.0)
    below = b.apply("multiply", expm1(b, b.apply("minimum", x, zero)), alpha)
    return b.apply("add", below, b.apply("maximum", x, zero))
