"""exp, log and what is made of them.

The error of exp, log, tanh and the logistic function is below 1 ulp in float32 and float64, that of
expm1 below 1.1 and that of log1p below 1.5 ulp of float32, and both below 2 of float64.

Values on the way that need more digits than their kind has are a *pair*: a float and what it lacks.
The polynomials are those of ``tools/minimax.py``. That of log in float64, of s = f / (2 + f), is
FDLIBM's (Sun Microsystems, 1993).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from eagerflow_kernels.native.loop_form import BITS, Kind, LoopBuilder


@final
@dataclass(frozen=True, slots=True)
class _Format:
    """What depends on the kind.

    Attributes:
        digits: bits of the significand that are stored.
        magic: a float whose unit is 1: what is added to it is rounded to an integer.
        log2e: 1 / ln 2.
        ln2: ln 2 as a sum of two, of which the first has few digits.
        rest: of e**r the polynomial q with e**r = 1 + r + r * r * q(r); it begins with 1 / 2.
        overflow: an x whose exponential is infinite, and all above.
        underflow: one whose exponential is 0, and all below.
        tanh: of z = x * x the polynomial p with tanh(x) = x + x * z * p(z), x up to `_NEAR`.
        end: an x from which on tanh(x) is 1.
        root: the bits of a float just below sqrt(1/2).
        smallest: the smallest float that is not subnormal.
    """

    digits: int
    magic: float
    log2e: float
    ln2: tuple[float, ...]
    rest: tuple[float, ...]
    overflow: float
    underflow: float
    tanh: tuple[float, ...]
    end: float
    root: int
    smallest: float


def _floats(*texts: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, texts))


_FORMATS: Final[dict[Kind, _Format]] = {
    "f32": _Format(
        digits=23,
        magic=1.5 * 2**23,
        log2e=float.fromhex("0x1.715476p+0"),
        ln2=_floats("0x1.63p-1", "-0x1.bd0106p-13"),
        rest=_floats("0x1p-1", "0x1.555498p-3", "0x1.55543ap-5", "0x1.123ab2p-7", "0x1.6e6acep-10"),
        overflow=90.0,
        underflow=-105.0,
        tanh=_floats(
            "-0x1.555542p-2", "0x1.110cfp-3", "-0x1.b980e2p-5", "0x1.60d63ep-6",
            "-0x1.070cdep-7", "0x1.366142p-9", "-0x1.8e14e2p-12",
        ),
        end=10.0,
        root=0x3F3504F3,
        smallest=2.0**-126,
    ),
    "f64": _Format(
        digits=52,
        magic=1.5 * 2**52,
        log2e=float.fromhex("0x1.71547652b82fep+0"),
        ln2=_floats("0x1.62e42feep-1", "0x1.a39ef35793c76p-33"),
        rest=_floats(
            "0x1p-1", "0x1.555555555555ap-3", "0x1.555555555555dp-5",
            "0x1.111111110f17cp-7", "0x1.6c16c16c111cep-10", "0x1.a01a01b22b9a5p-13",
            "0x1.a01a01c97299ep-16", "0x1.71ddf2263a05ep-19", "0x1.27e47f8a3c917p-22",
            "0x1.af6a28f16b093p-26", "0x1.201937b428d3dp-29",
        ),
        overflow=710.0,
        underflow=-746.0,
        tanh=_floats(
            "-0x1.5555555555554p-2", "0x1.1111111110f51p-3", "-0x1.ba1ba1ba0433dp-5",
            "0x1.664f487e1d7aep-6", "-0x1.226e34d756f54p-7", "0x1.d6d3bd3dd651ep-9",
            "-0x1.7da26aed65f0ep-10", "0x1.354f54a3f9d0ep-11", "-0x1.f508a3f8db9d8p-13",
            "0x1.943beb7a20543p-14", "-0x1.410cd59ae0eb7p-15", "0x1.e63b8dc348685p-17",
            "-0x1.496b6c16512f3p-18", "0x1.68963a61c6b78p-20", "-0x1.105191766db02p-22",
            "0x1.9bf3cf7b952e3p-26",
        ),
        end=22.0,
        root=0x3FE6A09E667F3BCD,
        smallest=2.0**-1022,
    ),
}  # fmt: skip

#: up to here tanh is a polynomial; from here on 1 - tanh(x) is below 1/4, so that its last digits
#: are below those of the result
_NEAR: Final = 0.9765625

#: (log(1 + f) - f + f**2 / 2) / f**3 between sqrt(1/2) - 1 and sqrt(2) - 1
_LOG_F32: Final = _floats(
    "0x1.555554p-2", "-0x1.000226p-2", "0x1.99a008p-3", "-0x1.547244p-3", "0x1.22da1ep-3",
    "-0x1.0d8542p-3", "0x1.055b68p-3", "-0x1.38b578p-4",
)  # fmt: skip
#: FDLIBM's Lg1 to Lg7
_LOG_F64: Final = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip


class Pair(NamedTuple):
    """A value of more digits: a term, and one that is much smaller."""

    high: int
    low: int


@final
class FloatWriter:
    """Writes arithmetic of one kind."""

    __slots__ = ("b", "format", "kind")

    def __init__(self, b: LoopBuilder, like: int) -> None:
        self.b, self.kind = b, b.kind(like)
        self.format = _FORMATS[self.kind]

    def number(self, value: float) -> int:
        return self.b.constant(value, self.kind)

    def add(self, x: int, y: int) -> int:
        return self.b.apply("add", x, y)

    def subtract(self, x: int, y: int) -> int:
        return self.b.apply("subtract", x, y)

    def multiply(self, x: int, y: int) -> int:
        return self.b.apply("multiply", x, y)

    def fma(self, x: int, y: int, z: int) -> int:
        return self.b.apply("fma", x, y, z)

    def negative(self, x: int) -> int:
        return self.b.apply("negative", x)

    def select(self, condition: int, x: int, y: int) -> int:
        return self.b.apply("select", condition, x, y)

    def clipped(self, x: int, low: float, high: float) -> int:
        """X within limits; NaN stays."""
        below, above = self.number(low), self.number(high)
        x = self.select(self.b.apply("less", x, below), below, x)
        return self.select(self.b.apply("less", above, x), above, x)

    def polynomial(self, coefficients: tuple[float, ...], x: int) -> int:
        """By Horner's rule."""
        *others, result = map(self.number, coefficients)
        for coefficient in reversed(others):
            result = self.fma(result, x, coefficient)
        return result

    def sum_of(self, large: int, small: int) -> Pair:
        """The exact sum of two, of which the first is the larger."""
        high = self.add(large, small)
        return Pair(high, self.subtract(small, self.subtract(high, large)))

    # --- e**x = 2**k * e**r -----------------------------------------------------------------

    def reduced(self, x: int) -> tuple[int, Pair]:
        """K and r of x = k ln 2 + r, |r| at most ln 2 / 2."""
        f = self.format
        magic = self.number(f.magic)
        k = self.subtract(self.fma(x, self.number(f.log2e), magic), magic)
        rough = self.fma(k, self.number(-f.ln2[0]), x)
        small = self.multiply(k, self.number(-f.ln2[1]))
        return k, self.sum_of(rough, small)

    def reduced_to_float(self, x: int) -> tuple[int, int]:
        """As `reduced`: k + `magic`, whose lower bits are those of k, and r rounded once."""
        f = self.format
        magic = self.number(f.magic)
        shifted = self.fma(x, self.number(f.log2e), magic)
        k = self.subtract(shifted, magic)
        rough = self.fma(k, self.number(-f.ln2[0]), x)
        return shifted, self.fma(k, self.number(-f.ln2[1]), rough)

    def rest(self, r: Pair) -> int:
        """e**r - 1 - r, with the lower part of r."""
        q = self.polynomial(self.format.rest, r.high)
        return self.fma(self.multiply(r.high, r.high), q, r.low)

    def rise(self, r: int) -> int:
        """e**r - 1."""
        q = self.polynomial(self.format.rest, r)
        return self.fma(self.multiply(r, r), q, r)

    def power(self, k: int) -> tuple[int, int]:
        """2**k as a product of two powers of 2, so that the result may be subnormal or infinite."""
        return self.power_of_shifted(self.add(k, self.number(self.format.magic)))

    def power_of_shifted(self, shifted: int) -> tuple[int, int]:
        """As `power`, of k + `magic`."""
        bits = self.b.apply("bits", shifted)
        half = self.b.apply("shift_right", bits, by=1)
        return self._exponent(half), self._exponent(self.subtract(bits, half))

    def _exponent(self, bits: int) -> int:
        """The power of 2 whose exponent is in the lower bits of ``bits``."""
        one = self.b.constant(1.0, self.kind)
        moved = self.b.apply("shift_left", bits, by=self.format.digits)
        return self.b.apply("bits", self.add(moved, self.b.apply("bits", one)))

    def single_power(self, shifted: int) -> int:
        """2**k of k + `magic`, where it is neither subnormal nor infinite."""
        return self._exponent(self.b.apply("bits", shifted))

    def exponential(self, x: int) -> tuple[int, Pair]:
        """K and e**r, as a pair."""
        k, r = self.reduced(x)
        first = self.sum_of(self.number(1.0), r.high)
        return k, Pair(first.high, self.add(self.rest(r), first.low))

    def exponential_of_float(self, r: int) -> Pair:
        """e**r as a pair."""
        first = self.sum_of(self.number(1.0), r)
        return Pair(first.high, self.rest(Pair(r, first.low)))

    def less_one(self, x: int) -> Pair:
        """e**x - 1, for x that is at least -40 and at most 20."""
        k, r = self.reduced(x)
        tail = self.sum_of(r.high, self.rest(r))
        scale = self.single_power(self.add(k, self.number(self.format.magic)))
        rough = self.sum_of(self.number(-1.0), scale)
        scaled = Pair(self.multiply(tail.high, scale), self.multiply(tail.low, scale))
        low = self.add(scaled.low, rough.low)
        t = self.sum_of(rough.high, scaled.high)
        near = self.b.apply("equal", rough.high, self.number(0.0))  # k is 0
        return Pair(
            self.select(near, scaled.high, t.high), self.select(near, low, self.add(t.low, low))
        )

    def quotient(self, x: Pair, y: Pair) -> int:
        """X / y, y at least 1."""
        inverse = self.b.apply("divide", self.number(1.0), y.high)
        rough = self.multiply(x.high, inverse)
        negative = self.negative(rough)
        left = self.fma(negative, y.high, x.high)
        left = self.add(left, self.fma(negative, y.low, x.low))
        return self.fma(left, inverse, rough)


def exp(b: LoopBuilder, x: int) -> int:
    """e**x."""
    w = FloatWriter(b, x)
    k, r = w.reduced_to_float(w.clipped(x, w.format.underflow, w.format.overflow))
    first, second = w.power_of_shifted(k)
    e = w.exponential_of_float(r)
    return w.multiply(w.multiply(w.add(e.high, e.low), first), second)


def sigmoid(b: LoopBuilder, x: int) -> int:
    """The logistic function: with z = e**-abs(x), 1 / (1 + z), and z / (1 + z) below 0."""
    w = FloatWriter(b, x)
    one, zero, lowest = w.number(1.0), w.number(0.0), w.number(w.format.underflow)
    size = w.negative(b.apply("absolute", x))
    k, r = w.reduced_to_float(w.select(b.apply("less", size, lowest), lowest, size))
    first, second = w.power_of_shifted(k)
    e = w.exponential_of_float(r)
    z = Pair(*(w.multiply(w.multiply(part, first), second) for part in w.sum_of(*e)))
    below = w.sum_of(one, z.high)
    negative = b.apply("less", x, zero)
    above = Pair(w.select(negative, z.high, one), w.select(negative, z.low, zero))
    return w.quotient(above, Pair(below.high, w.add(below.low, z.low)))


def tanh(b: LoopBuilder, x: int) -> int:
    """A polynomial near 0, 1 - 2 / (1 + e**(2 |x|)) elsewhere, and the sign of x."""
    w = FloatWriter(b, x)
    one, end = w.number(1.0), w.number(w.format.end)
    size = b.apply("absolute", x)
    size = w.select(b.apply("less", end, size), end, size)
    square = w.multiply(size, size)
    bend = w.multiply(square, w.polynomial(w.format.tanh, square))
    near = w.fma(size, bend, size)
    k, r = w.reduced_to_float(w.add(size, size))
    scale = w.single_power(k)
    below = w.fma(w.rise(r), scale, w.add(scale, one))
    far = w.subtract(one, b.apply("divide", w.number(2.0), below))
    is_near = b.apply("less", size, w.number(_NEAR))
    return b.apply("copysign", w.select(is_near, near, far), x)


def expm1(b: LoopBuilder, x: int) -> int:
    """e**x - 1, with all its digits near 0."""
    w = FloatWriter(b, x)
    t = w.less_one(w.clipped(x, -40.0, 20.0))
    near = w.select(b.apply("equal", x, w.number(0.0)), x, w.add(t.high, t.low))
    large = b.apply("less", w.number(20.0), x)
    return w.select(large, w.subtract(exp(b, x), w.number(1.0)), near)


def log1p(b: LoopBuilder, x: int) -> int:
    """log(1 + x), with all its digits near 0: that of the sum, and what its rounding lost."""
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
    """The natural logarithm: that of 1 + f, and k ln 2, of x as 2**k (1 + f)."""
    w = FloatWriter(b, x)
    k, m = exponent_and_part(w, x)
    return outside_of_logarithms(w, x, log_of(w, m, k))


def log_of(w: FloatWriter, m: int, k: int) -> int:
    """The natural logarithm of 2**k m, m between sqrt(1/2) and sqrt(2)."""
    of_part = _log_f32 if w.kind == "f32" else _log_f64
    return of_part(w, w.subtract(m, w.number(1.0)), k)


def outside_of_logarithms(w: FloatWriter, x: int, result: int) -> int:
    """The logarithm of x, where it is not that of a positive number: NaN and infinite values."""
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
