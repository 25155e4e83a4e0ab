"""`FloatWriter`: arithmetic of floats for rules, with extra precision in intermediate results.

A value that needs more digits than its kind has is a *pair*: a float and its rounding error. The
polynomials are computed by ``tools/minimax.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NamedTuple, final

from eagerflow_kernels.native.loop_form import Kind, LoopBuilder


@final
@dataclass(frozen=True, slots=True)
class _Format:
    """Constants of a kind of floats.

    Attributes:
        digits: bits of the significand that are stored.
        magic: a float whose unit is 1: a float added to it is rounded to an integer.
        log2e: 1 / ln 2.
        ln2: ln 2 as a sum of two floats, of which the first has few digits.
        rest: the polynomial q with e**r = 1 + r + r * r * q(r); it begins with 1 / 2.
        overflow: an x from which on exponentials are infinite.
        underflow: an x below which exponentials are 0, as at it.
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
    root: int
    smallest: float


def floats(*texts: str) -> tuple[float, ...]:
    """Floats from their hexadecimal digits."""
    return tuple(map(float.fromhex, texts))


_FORMATS: Final[dict[Kind, _Format]] = {
    "f32": _Format(
        digits=23,
        magic=1.5 * 2**23,
        log2e=float.fromhex("0x1.715476p+0"),
        ln2=floats("0x1.63p-1", "-0x1.bd0106p-13"),
        rest=floats("0x1p-1", "0x1.555498p-3", "0x1.55543ap-5", "0x1.123ab2p-7", "0x1.6e6acep-10"),
        overflow=90.0,
        underflow=-105.0,
        root=0x3F3504F3,
        smallest=2.0**-126,
    ),
    "f64": _Format(
        digits=52,
        magic=1.5 * 2**52,
        log2e=float.fromhex("0x1.71547652b82fep+0"),
        ln2=floats("0x1.62e42feep-1", "0x1.a39ef35793c76p-33"),
        rest=floats(
            "0x1p-1", "0x1.555555555555ap-3", "0x1.555555555555dp-5",
            "0x1.111111110f17cp-7", "0x1.6c16c16c111cep-10", "0x1.a01a01b22b9a5p-13",
            "0x1.a01a01c97299ep-16", "0x1.71ddf2263a05ep-19", "0x1.27e47f8a3c917p-22",
            "0x1.af6a28f16b093p-26", "0x1.201937b428d3dp-29",
        ),
        overflow=710.0,
        underflow=-746.0,
        root=0x3FE6A09E667F3BCD,
        smallest=2.0**-1022,
    ),
}  # fmt: skip


class Pair(NamedTuple):
    """A value of extra precision: the sum of a term and a much smaller one."""

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
        """The value of a polynomial at x, by Horner's rule."""
        *others, result = map(self.number, coefficients)
        for coefficient in reversed(others):
            result = self.fma(result, x, coefficient)
        return result

    def sum_of(self, large: int, small: int) -> Pair:
        """The exact sum of two terms, of which the first is the larger."""
        high = self.add(large, small)
        return Pair(high, self.subtract(small, self.subtract(high, large)))

    def sum_of_any(self, x: int, y: int) -> Pair:
        """The exact sum of two terms, either of which may be the larger (Knuth's TwoSum)."""
        high = self.add(x, y)
        added = self.subtract(high, x)
        return Pair(
            high, self.add(self.subtract(x, self.subtract(high, added)), self.subtract(y, added))
        )

    def multiple(self, x: int, y: Pair) -> Pair:
        """A float times a pair."""
        high = self.multiply(x, y.high)
        return Pair(high, self.fma(x, y.low, self.fma(x, y.high, self.negative(high))))

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
        """e**r - 1 - r.high, for a pair r."""
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
        """As `power`, from k + `magic`."""
        bits = self.b.apply("bits", shifted)
        half = self.b.apply("shift_right", bits, by=1)
        return self._exponent(half), self._exponent(self.subtract(bits, half))

    def _exponent(self, bits: int) -> int:
        """The power of 2 whose exponent is in the lower bits of ``bits``."""
        one = self.b.constant(1.0, self.kind)
        moved = self.b.apply("shift_left", bits, by=self.format.digits)
        return self.b.apply("bits", self.add(moved, self.b.apply("bits", one)))

    def single_power(self, shifted: int) -> int:
        """2**k from k + `magic`, where 2**k is neither subnormal nor infinite."""
        return self._exponent(self.b.apply("bits", shifted))

    def exponential(self, x: int) -> tuple[int, Pair]:
        """K and the pair e**r of x = k ln 2 + r."""
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


Rule = Callable[..., int]


def in_float64(rule: Rule) -> Rule:
    """A rule for float32 from one for float64: computes in float64, and rounds once."""

    @wraps(rule)
    def rounded(b: LoopBuilder, *terms: int, **attributes: Any) -> int:
        kind = b.kind(terms[0])
        wide = [b.apply("convert", x, kind="f64") for x in terms]
        return b.apply("convert", rule(b, *wide, **attributes), kind=kind)

    return rounded


def first_and_rest(w: FloatWriter, texts: tuple[str, str]) -> tuple[int, int]:
    """A number as a float and its rounding error, from their hexadecimal digits."""
    high, low = (w.number(float.fromhex(text)) for text in texts)
    return high, low


def is_odd(w: FloatWriter, whole: int) -> int:
    """Whether a whole number is odd."""
    half = w.multiply(whole, w.number(0.5))
    return w.b.apply("not_equal", w.b.apply("floor", half), half)
