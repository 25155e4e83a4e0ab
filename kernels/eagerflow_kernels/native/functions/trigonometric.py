"""Rules of sine, cosine and tangent of float32, computed in float64 and rounded once."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from eagerflow_kernels.native.functions.float_writer import FloatWriter, in_float64, is_odd
from eagerflow_kernels.native.loop_form import LoopBuilder

#: sin(x pi / 2) / x and cos(x pi / 2) as polynomials in x**2, |x| at most 1/2
_SIN: Final = tuple(map(float.fromhex, (
    "0x1.921fb54442d18p+0", "-0x1.4abbce625be40p-1", "0x1.466bc677586cfp-4",
    "-0x1.32d2cce2d23ebp-8", "0x1.50782fc771291p-13", "-0x1.e300612807e16p-19",
    "0x1.e3edfffed4859p-25",
)))  # fmt: skip
_COS: Final = tuple(map(float.fromhex, (
    "0x1.fffffffffffffp-1", "-0x1.3bd3cc9be457fp+0", "0x1.03c1f081aff2bp-2",
    "-0x1.55d3c7db70e36p-6", "0x1.e1f4fada2a1a3p-11", "-0x1.a6c9868bd3110p-16",
    "0x1.f3c827e89ecc1p-22",
)))  # fmt: skip
#: bits of 2 / pi, as an integer times 2**-_DIGITS
_DIGITS: Final = 320
_TWO_OVER_PI: Final = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0", 16
)
#: a number of band b is scaled below 2**48 by 2**(-24 b)
_BAND: Final = 24
_BANDS: Final = 5


def _parts(band: int) -> tuple[float, float]:
    """2 / pi times 2**(24 band), modulo 4, as a sum of two floats."""
    bits = _TWO_OVER_PI << _BAND * band
    bits %= 4 << _DIGITS
    high = math.ldexp(bits >> _DIGITS - 50, -50)  # at most 52 bits
    rest = bits & (1 << _DIGITS - 50) - 1
    return high, math.ldexp(rest >> _DIGITS - 104, -104)


class Angle(NamedTuple):
    """An angle in right angles: the nearest whole number of them, from 0 to 3, and the rest."""

    quarters: int
    rest: int


def whole_and_rest(w: FloatWriter, whole: int, rest: int) -> Angle:
    """The angle of a whole number of right angles, not below 0, and a rest."""
    fours = w.b.apply("floor", w.multiply(whole, w.number(0.25)))
    return Angle(w.fma(fours, w.number(-4.0), whole), rest)


def _angle(w: FloatWriter, x: int) -> Angle:
    """X, which has the digits of float32, times 2 / pi; only the last digits are rounded.

    So the angle is accurate for any number, however large.
    """
    size = w.b.apply("absolute", x)
    high, low = (w.number(part) for part in _parts(0))
    y = x
    for band in range(1, _BANDS):
        beyond = w.b.apply("less", w.number(2.0 ** (_BAND * (band + 1) - 1)), size)
        parts = _parts(band)
        high = w.select(beyond, w.number(parts[0]), high)
        low = w.select(beyond, w.number(parts[1]), low)
        y = w.select(beyond, w.multiply(x, w.number(2.0 ** (-_BAND * band))), y)
    product = w.multiply(y, high)
    lost = w.fma(y, high, w.negative(product))
    first = w.b.apply("round", product)
    rest = w.add(w.subtract(product, first), w.fma(y, low, lost))  # the difference is exact
    second = w.b.apply("round", rest)
    rest, whole = w.subtract(rest, second), w.add(first, second)
    return whole_and_rest(w, whole, rest)


def _sine_and_cosine(w: FloatWriter, angle: Angle) -> tuple[int, int]:
    """Sine and cosine of the rest of an angle."""
    square = w.multiply(angle.rest, angle.rest)
    return w.multiply(angle.rest, w.polynomial(_SIN, square)), w.polynomial(_COS, square)


def sine(w: FloatWriter, angle: Angle) -> int:
    """The sine of an angle."""
    of_rest, cosine_of_rest = _sine_and_cosine(w, angle)
    result = w.select(is_odd(w, angle.quarters), cosine_of_rest, of_rest)
    below = w.b.apply("less", w.number(1.0), angle.quarters)
    return w.select(below, w.negative(result), result)


def cosine(w: FloatWriter, angle: Angle) -> int:
    """The cosine of an angle."""
    sine_of_rest, of_rest = _sine_and_cosine(w, angle)
    result = w.select(is_odd(w, angle.quarters), sine_of_rest, of_rest)
    from_centre = w.b.apply("absolute", w.subtract(angle.quarters, w.number(1.5)))
    below = w.b.apply("less", from_centre, w.number(1.0))  # one quarter, or two
    return w.select(below, w.negative(result), result)


@in_float64
def sin(b: LoopBuilder, x: int) -> int:
    """The sine of an angle in radians."""
    w = FloatWriter(b, x)
    return w.select(b.apply("equal", x, w.number(0.0)), x, sine(w, _angle(w, x)))


@in_float64
def cos(b: LoopBuilder, x: int) -> int:
    """The cosine of an angle in radians."""
    w = FloatWriter(b, x)
    return cosine(w, _angle(w, x))


@in_float64
def tan(b: LoopBuilder, x: int) -> int:
    """The tangent of an angle in radians."""
    w = FloatWriter(b, x)
    angle = _angle(w, x)
    of_sine, of_cosine = _sine_and_cosine(w, angle)
    odd = is_odd(w, angle.quarters)
    above = w.select(odd, w.negative(of_cosine), of_sine)
    result = b.apply("divide", above, w.select(odd, of_sine, of_cosine))
    return w.select(b.apply("equal", x, w.number(0.0)), x, result)
