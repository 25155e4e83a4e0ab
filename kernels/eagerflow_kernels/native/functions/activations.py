"""Rules of activation functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

from eagerflow_kernels.native.functions.arithmetic import nearest
from eagerflow_kernels.native.functions.float_writer import FloatWriter, Pair
from eagerflow_kernels.native.functions.hyperbolic import tanh
from eagerflow_kernels.native.functions.special import gelu_by_erf
from eagerflow_kernels.native.loop_form import Kind, LoopBuilder

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715
_TANH_END = 10.0  # beyond, the tanh is 1, while squares could overflow
#: as far below 0 the product of x and its logistic function is 0
_SILU_END: Final[dict[Kind, float]] = {"f32": 112.0, "f64": 756.0}


@final
@dataclass(frozen=True, slots=True)
class _Logistic:
    """The parts of 1 / (1 + e**-x): with z = e**-abs(x), 1 / (1 + z), and z / (1 + z) below 0.

    Attributes:
        w: the writer.
        negative: whether x is below 0.
        scaled: z as a pair, without its last factor.
        last: that factor; the product may be subnormal.
        below: 1 + z.
    """

    w: FloatWriter
    negative: int
    scaled: Pair
    last: int
    below: Pair

    @staticmethod
    def of(b: LoopBuilder, x: int, lowest: float | None = None) -> _Logistic:
        """The parts for x; z is that of ``lowest`` where x lies further from 0."""
        w = FloatWriter(b, x)
        size, end = w.negative(b.apply("absolute", x)), w.number(lowest or w.format.underflow)
        k, r = w.reduced_to_float(w.select(b.apply("less", size, end), end, size))
        first, last = w.power_of_shifted(k)
        e = w.sum_of(*w.exponential_of_float(r))
        scaled = Pair(w.multiply(e.high, first), w.multiply(e.low, first))
        z = Pair(w.multiply(scaled.high, last), w.multiply(scaled.low, last))
        below = w.sum_of(w.number(1.0), z.high)
        below = Pair(below.high, w.add(below.low, z.low))
        return _Logistic(w, b.apply("less", x, w.number(0.0)), scaled, last, below)

    def share(self, times: int | None = None) -> int:
        """The function, times a factor that keeps digits where the function alone has few."""
        w, (high, low) = self.w, self.scaled
        one = w.number(1.0) if times is None else times
        if times is not None:
            high, low = w.multiply(high, times), w.multiply(low, times)
        above = w.select(self.negative, w.multiply(high, self.last), one)
        rest = w.select(self.negative, w.multiply(low, self.last), w.number(0.0))
        return w.quotient(Pair(above, rest), self.below)

    def slope_of_product(self, x: int) -> int:
        """The derivative of x times the function.

        That is ``(1 + z + x * z) / (1 + z)**2``, and ``z * (1 + z + x) / (1 + z)**2`` below 0. The
        sum cancels there, so it is a pair.
        """
        w, zero = self.w, self.w.number(0.0)
        z = Pair(*(w.multiply(part, self.last) for part in self.scaled))
        product = w.multiple(x, z)
        added = Pair(
            w.select(self.negative, x, product.high), w.select(self.negative, zero, product.low)
        )
        total = w.sum_of_any(self.below.high, added.high)
        total = Pair(total.high, w.add(total.low, w.add(self.below.low, added.low)))
        high, low = w.multiple(self.scaled.high, total)
        low = w.fma(self.scaled.low, total.high, low)
        above = Pair(
            w.select(self.negative, w.multiply(high, self.last), total.high),
            w.select(self.negative, w.multiply(low, self.last), total.low),
        )
        return w.quotient(Pair(w.quotient(above, self.below), zero), self.below)


def sigmoid(b: LoopBuilder, x: int) -> int:
    """The logistic function."""
    return _Logistic.of(b, x).share()


def relu(b: LoopBuilder, x: int) -> int:
    """The larger of x and 0."""
    return b.apply("maximum", x, b.constant(0, x))


def leaky_relu(b: LoopBuilder, x: int, *, slope: int) -> int:
    """X above 0, ``slope * x`` below."""
    below = b.apply("multiply", x, slope)
    return b.apply("select", b.apply("less", b.constant(0, x), x), x, below)


def silu(b: LoopBuilder, x: int, *, order: int) -> int:
    """``x * sigmoid(x)``, or its derivative.

    X is multiplied before the quotient, as the logistic function is subnormal before the product
    is; where that would overflow, or is 0, after it.
    """
    w = FloatWriter(b, x)
    end = _SILU_END[w.kind]
    logistic = _Logistic.of(b, x, -end)
    is_near = b.apply("less", b.apply("absolute", x), w.number(end))
    zero, one = w.number(0.0), w.number(1.0)
    inside = w.select(is_near, x, one)
    if order == 0:
        return w.multiply(logistic.share(inside), w.select(is_near, one, x))
    far = w.fma(x, zero, w.select(logistic.negative, zero, one))  # NaN for infinities
    return w.select(is_near, logistic.slope_of_product(inside), far)


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
    rest = b.apply("fma", b.apply("negative", t), t, one)
    return b.apply("fma", b.apply("multiply", slope, near), rest, above)
