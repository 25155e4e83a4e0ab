"""Rules of activation functions."""

from __future__ import annotations

import math

from eagerflow_kernels.native.functions.arithmetic import nearest
from eagerflow_kernels.native.functions.float_writer import FloatWriter, Pair
from eagerflow_kernels.native.functions.hyperbolic import tanh
from eagerflow_kernels.native.functions.special import gelu_by_erf
from eagerflow_kernels.native.loop_form import LoopBuilder

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715
_TANH_END = 10.0  # beyond, the tanh is 1, while squares could overflow


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


def relu(b: LoopBuilder, x: int) -> int:
    """The larger of x and 0."""
    return b.apply("maximum", x, b.constant(0, x))


def leaky_relu(b: LoopBuilder, x: int, *, slope: int) -> int:
    """X above 0, ``slope * x`` below."""
    below = b.apply("multiply", x, slope)
    return b.apply("select", b.apply("less", b.constant(0, x), x), x, below)


def silu(b: LoopBuilder, x: int, *, order: int) -> int:
    """``x * sigmoid(x)``, or its derivative."""
    s, one = sigmoid(b, x), b.constant(1, x)
    if order == 0:
        return b.apply("multiply", x, s)
    bend = b.apply("multiply", x, b.apply("subtract", one, s))
    return b.apply("multiply", s, b.apply("add", one, bend))


def gelu(b: LoopBuilder, x: int, *, approximate: str, order: int) -> int:
    """X times the normal distribution function, or an approximation by tanh; or the derivative."""
    if approximate == "none":
        return gelu_by_erf(b, x, order=order)
    end, low = b.constant(_TANH_END, x), b.constant(-_TANH_END, x)
    near = b.apply("minimum", b.apply("maximum", x, low), end)
    square = b.apply("multiply", near, near)
    scale, cubic = nearest(b, _TANH_SCALE, x), nearest(b, _TANH_SCALE * _TANH_CUBIC, x)
    t = tanh(b, b.apply("multiply", near, b.apply("fma", square, cubic, scale)))
    one, half = b.constant(1, x), b.constant(0.5, x)
    above = b.apply("multiply", half, b.apply("add", one, t))
    if order == 0:
        return b.apply("multiply", x, above)
    steep = nearest(b, 1.5 * _TANH_SCALE * _TANH_CUBIC, x)
    slope = b.apply("fma", square, steep, nearest(b, 0.5 * _TANH_SCALE, x))
    rest = b.apply("subtract", one, b.apply("multiply", t, t))
    return b.apply("fma", b.apply("multiply", slope, near), rest, above)
