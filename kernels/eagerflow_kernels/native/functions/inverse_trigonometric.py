"""Rules of inverse trigonometric functions of float32, computed in float64 and rounded once.

The polynomial is computed by ``tools/minimax.py``.
"""

from __future__ import annotations

import math
from typing import Final

from eagerflow_kernels.native.functions.float_writer import FloatWriter, in_float64
from eagerflow_kernels.native.loop_form import LoopBuilder

#: the polynomial p with atan(x) = x * p(x**2), for x from 0 to 1
_ATAN: Final = tuple(map(float.fromhex, (
    "0x1.ffffffffff69ap-1", "-0x1.55555553598d3p-2", "0x1.9999986b08c40p-3",
    "-0x1.249225150b813p-3", "0x1.c717e67077d8ep-4", "-0x1.74307dafeb9f8p-4",
    "0x1.39f23619cbf84p-4", "-0x1.0bf13e20f9879p-4", "0x1.c03443aca69ccp-5",
    "-0x1.5c8d6f070a0eep-5", "0x1.d5e3388c6a6c6p-6", "-0x1.fa6efb617c770p-7",
    "0x1.8cf146e2418a6p-8", "-0x1.8a8b86027a797p-10", "0x1.70f154b01e76cp-13",
)))  # fmt: skip


def _angle_of(w: FloatWriter, y: int, x: int) -> int:
    """The angle of the point (x, y): atan of smaller over larger, moved to the point's octant."""
    b = w.b
    height, width = b.apply("absolute", y), b.apply("absolute", x)
    small, large = b.apply("minimum", height, width), b.apply("maximum", height, width)
    ratio = b.apply("divide", small, large)
    ratio = w.select(b.apply("equal", large, w.number(0.0)), w.number(0.0), ratio)
    ratio = w.select(b.apply("equal", small, w.number(math.inf)), w.number(1.0), ratio)
    angle = w.multiply(ratio, w.polynomial(_ATAN, w.multiply(ratio, ratio)))
    steep = b.apply("less", width, height)
    angle = w.select(steep, w.subtract(w.number(math.pi / 2), angle), angle)
    behind = b.apply("less", b.apply("copysign", w.number(1.0), x), w.number(0.0))
    angle = w.select(behind, w.subtract(w.number(math.pi), angle), angle)
    return b.apply("copysign", angle, y)


def _other_leg(w: FloatWriter, x: int) -> int:
    """sqrt(1 - x**2); NaN beyond 1."""
    one = w.number(1.0)
    return w.b.apply("sqrt", w.multiply(w.subtract(one, x), w.add(one, x)))


@in_float64
def atan2(b: LoopBuilder, y: int, x: int) -> int:
    """The angle of the point (x, y), from -pi to pi; signs of zeros count, as in C."""
    return _angle_of(FloatWriter(b, x), y, x)


@in_float64
def atan(b: LoopBuilder, x: int) -> int:
    """The angle whose tangent is x."""
    w = FloatWriter(b, x)
    return _angle_of(w, x, w.number(1.0))


@in_float64
def asin(b: LoopBuilder, x: int) -> int:
    """The angle whose sine is x; NaN beyond 1."""
    w = FloatWriter(b, x)
    return _angle_of(w, x, _other_leg(w, x))


@in_float64
def acos(b: LoopBuilder, x: int) -> int:
    """The angle whose cosine is x; NaN beyond 1."""
    w = FloatWriter(b, x)
    return _angle_of(w, _other_leg(w, x), x)
