"""Rules of powers and roots of float32, computed in float64 and rounded once."""

from __future__ import annotations

import math

from eagerflow_kernels.native.functions.exponential import exp
from eagerflow_kernels.native.functions.float_writer import FloatWriter, in_float64, is_odd
from eagerflow_kernels.native.functions.logarithms import log
from eagerflow_kernels.native.loop_form import LoopBuilder, Term, bits_of


def power(b: LoopBuilder, x: int, y: int) -> int:
    """X to the y, with C's values where an operand is 0 or infinite; the square is a product."""
    if b.terms[y] == Term("constant", b.kind(x), False, (), bits_of(2.0, b.kind(x))):
        return b.apply("multiply", x, x)  # the same bits: both ways round once
    return _power(b, x, y)


@in_float64
def _power(b: LoopBuilder, x: int, y: int) -> int:
    w = FloatWriter(b, x)
    zero, one, infinite = w.number(0.0), w.number(1.0), w.number(math.inf)
    size = b.apply("absolute", x)
    result = exp(b, w.multiply(y, log(b, size)))
    whole = b.apply("equal", b.apply("floor", y), y)
    signed = w.select(is_odd(w, y), b.apply("copysign", result, x), result)
    result = w.select(whole, signed, result)
    outside = b.apply("and", b.apply("less", x, zero), b.apply("less", size, infinite))
    fraction = b.apply("xor", whole, b.constant(1, "bool"))
    result = w.select(b.apply("and", outside, fraction), w.number(math.nan), result)
    result = w.select(b.apply("equal", y, w.number(2.0)), w.multiply(x, x), result)
    alone = b.apply(
        "and", b.apply("equal", size, one), b.apply("equal", b.apply("absolute", y), infinite)
    )
    certain = b.apply(
        "or", b.apply("or", alone, b.apply("equal", y, zero)), b.apply("equal", x, one)
    )
    return w.select(certain, one, result)


@in_float64
def cbrt(b: LoopBuilder, x: int) -> int:
    """The cube root, with the sign of x."""
    w = FloatWriter(b, x)
    third = w.multiply(log(b, b.apply("absolute", x)), w.number(1 / 3))
    return b.apply("copysign", exp(b, third), x)


@in_float64
def hypot(b: LoopBuilder, x: int, y: int) -> int:
    """sqrt(x**2 + y**2), whose squares fit float64; infinite if an operand is, even beside NaN."""
    w = FloatWriter(b, x)
    result = b.apply("sqrt", w.fma(x, x, w.multiply(y, y)))
    infinite = w.number(math.inf)
    for side in (x, y):
        is_infinite = b.apply("equal", b.apply("absolute", side), infinite)
        result = w.select(is_infinite, infinite, result)
    return result
