"""Rules of arithmetic, comparisons and casts: one operation of the loop form, or a few."""

from __future__ import annotations

import math
import struct

from eagerflow_kernels.native.loop_form import FLOATS, Kind, LoopBuilder


def nearest(b: LoopBuilder, value: float, like: int) -> int:
    """The number nearest to a value, of the kind of a term; infinite if it is too large."""
    form = "<f" if b.kind(like) == "f32" else "<d"
    try:
        rounded: float = struct.unpack(form, struct.pack(form, value))[0]
    except OverflowError:
        rounded = math.copysign(math.inf, value)
    return b.constant(rounded, like)


def same(b: LoopBuilder, x: int) -> int:
    """X, unchanged."""
    return x


def add(b: LoopBuilder, x: int, y: int) -> int:
    """X + y."""
    return b.apply("add", x, y)


def subtract(b: LoopBuilder, x: int, y: int) -> int:
    """X - y."""
    return b.apply("subtract", x, y)


def multiply(b: LoopBuilder, x: int, y: int) -> int:
    """X * y."""
    return b.apply("multiply", x, y)


def divide(b: LoopBuilder, x: int, y: int) -> int:
    """X / y."""
    return b.apply("divide", x, y)


def reciprocal(b: LoopBuilder, x: int) -> int:
    """1 / x."""
    return b.apply("divide", b.constant(1, x), x)


def negative(b: LoopBuilder, x: int) -> int:
    """-x."""
    if b.kind(x) in FLOATS:
        return b.apply("negative", x)
    return b.apply("subtract", b.constant(0, x), x)


def absolute(b: LoopBuilder, x: int) -> int:
    """|x|."""
    if b.kind(x) in FLOATS:
        return b.apply("absolute", x)
    return b.apply("maximum", x, negative(b, x))


def square(b: LoopBuilder, x: int) -> int:
    """X * x."""
    return b.apply("multiply", x, x)


def sqrt(b: LoopBuilder, x: int) -> int:
    """The square root."""
    return b.apply("sqrt", x)


def rsqrt(b: LoopBuilder, x: int) -> int:
    """1 / sqrt(x)."""
    return reciprocal(b, sqrt(b, x))


def maximum(b: LoopBuilder, x: int, y: int) -> int:
    """The larger operand; NaN if either is."""
    return b.apply("maximum", x, y)


def minimum(b: LoopBuilder, x: int, y: int) -> int:
    """The smaller operand; NaN if either is."""
    return b.apply("minimum", x, y)


def equal(b: LoopBuilder, x: int, y: int) -> int:
    """X == y."""
    return b.apply("equal", x, y)


def not_equal(b: LoopBuilder, x: int, y: int) -> int:
    """X != y."""
    return b.apply("not_equal", x, y)


def less(b: LoopBuilder, x: int, y: int) -> int:
    """X < y."""
    return b.apply("less", x, y)


def less_equal(b: LoopBuilder, x: int, y: int) -> int:
    """X <= y."""
    return b.apply("less_equal", x, y)


def greater(b: LoopBuilder, x: int, y: int) -> int:
    """X > y."""
    return b.apply("less", y, x)


def greater_equal(b: LoopBuilder, x: int, y: int) -> int:
    """X >= y."""
    return b.apply("less_equal", y, x)


def logical_and(b: LoopBuilder, x: int, y: int) -> int:
    """Whether both operands are other than 0."""
    return b.apply("and", b.apply("convert", x, kind="bool"), b.apply("convert", y, kind="bool"))


def logical_or(b: LoopBuilder, x: int, y: int) -> int:
    """Whether either operand is other than 0."""
    return b.apply("or", b.apply("convert", x, kind="bool"), b.apply("convert", y, kind="bool"))


def logical_not(b: LoopBuilder, x: int) -> int:
    """Whether x is 0."""
    return b.apply("xor", b.apply("convert", x, kind="bool"), b.constant(1, "bool"))


def where(b: LoopBuilder, condition: int, x: int, y: int) -> int:
    """X where the condition holds, else y."""
    return b.apply("select", condition, x, y)


def cast(b: LoopBuilder, x: int, *, kind: Kind) -> int:
    """The value as another kind."""
    return b.apply("convert", x, kind=kind)


def round_to_even(b: LoopBuilder, x: int) -> int:
    """The nearest integer, ties to even."""
    return b.apply("round", x)


def floor(b: LoopBuilder, x: int) -> int:
    """The largest integer that is not larger than x."""
    return b.apply("floor", x)


def ceil(b: LoopBuilder, x: int) -> int:
    """The smallest integer that is not smaller than x."""
    return b.apply("ceil", x)


def trunc(b: LoopBuilder, x: int) -> int:
    """X rounded towards 0."""
    return b.apply("trunc", x)


def clip(b: LoopBuilder, x: int, low: int, high: int) -> int:
    """The smaller of ``high`` and the larger of x and ``low``."""
    return b.apply("minimum", b.apply("maximum", x, low), high)


def sign(b: LoopBuilder, x: int) -> int:
    """-1, 0 or 1; NaN of NaN."""
    zero, one = b.constant(0, x), b.constant(1, x)
    below = b.apply("select", b.apply("less", x, zero), b.constant(-1, x), zero)
    result = b.apply("select", b.apply("less", zero, x), one, below)
    return b.apply("select", b.apply("equal", x, x), result, x)


def copysign(b: LoopBuilder, x: int, y: int) -> int:
    """|x| with the sign of y."""
    return b.apply("copysign", x, y)


def logical_xor(b: LoopBuilder, x: int, y: int) -> int:
    """Whether exactly one operand is other than 0."""
    return b.apply("xor", b.apply("convert", x, kind="bool"), b.apply("convert", y, kind="bool"))


def isnan(b: LoopBuilder, x: int) -> int:
    """Whether x is NaN."""
    return b.apply("not_equal", x, x)


def isinf(b: LoopBuilder, x: int) -> int:
    """Whether x is infinite."""
    return b.apply("equal", b.apply("absolute", x), b.constant(float("inf"), x))


def isfinite(b: LoopBuilder, x: int) -> int:
    """Whether x is neither infinite nor NaN."""
    return b.apply("less", b.apply("absolute", x), b.constant(float("inf"), x))
