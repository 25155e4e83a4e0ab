"""Elementwise ops: trigonometric functions and their inverses, angles."""

from __future__ import annotations

import math

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.ops.elementwise.powers_and_logarithms import sqrt, square
from eagerflow.ops.elementwise.signs_and_rounding import imag, real
from eagerflow.ops.rules.gradients import conjugate, over, sum_to_like, times, where
from eagerflow.ops.rules.promotion import floating, promote_floating
from eagerflow.ops.rules.remedies import SLOPE_AT_END
from eagerflow.ops.rules.type_rules import FLOATING, INEXACT, binary, unary

__all__ = [
    "acos",
    "angle",
    "arccos",
    "arcsin",
    "arctan",
    "arctan2",
    "asin",
    "atan",
    "atan2",
    "cos",
    "deg2rad",
    "degrees",
    "rad2deg",
    "radians",
    "sin",
    "tan",
]

# --- trigonometric functions ----------------------------------------------------------------

_sin = unary("sin", INEXACT, times(lambda out, x: cos(x)), saved="inputs", flops=40)


def sin(x: TensorLike, /) -> Tensor:
    """The sine of each element, in radians.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.sin(ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 0.841], f32[2]@cpu:0)
    """
    return bind(_sin, floating(x))


_cos = unary("cos", INEXACT, lambda g, out, x: -(g * conjugate(sin(x))), saved="inputs", flops=40)


def cos(x: TensorLike, /) -> Tensor:
    """The cosine of each element, in radians.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.cos(ef.tensor([0.0, 1.0])), 3)
    Tensor([1.  , 0.54], f32[2]@cpu:0)
    """
    return bind(_cos, floating(x))


_tan = unary("tan", INEXACT, times(lambda out, x: square(out) + 1), saved="outputs", flops=40)


def tan(x: TensorLike, /) -> Tensor:
    """The tangent of each element, in radians.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.tan(ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 1.557], f32[2]@cpu:0)
    """
    return bind(_tan, floating(x))


def _one_minus_square(x: Tensor) -> Tensor:
    """(1 - x) (1 + x), precise near 1 and -1."""
    return (1 - x) * (x + 1)


_asin = unary(
    "asin",
    INEXACT,
    over(lambda out, x: sqrt(_one_minus_square(x))),
    saved="inputs",
    flops=80,
    gradient_remedy=SLOPE_AT_END,
)


def asin(x: TensorLike, /) -> Tensor:
    """The inverse sine of each element, from -pi/2 to pi/2; NaN outside of [-1, 1].

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.asin(ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 1.571], f32[2]@cpu:0)
    """
    return bind(_asin, floating(x))


_acos = unary(
    "acos",
    INEXACT,
    lambda g, out, x: -(g / conjugate(sqrt(_one_minus_square(x)))),
    saved="inputs",
    flops=80,
    gradient_remedy=SLOPE_AT_END,
)


def acos(x: TensorLike, /) -> Tensor:
    """The inverse cosine of each element, from 0 to pi; NaN outside of [-1, 1].

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.acos(ef.tensor([0.0, 1.0])), 3)
    Tensor([1.571, 0.   ], f32[2]@cpu:0)
    """
    return bind(_acos, floating(x))


_atan = unary("atan", INEXACT, over(lambda out, x: square(x) + 1), saved="inputs", flops=80)


def atan(x: TensorLike, /) -> Tensor:
    """The inverse tangent of each element, from -pi/2 to pi/2.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.atan(ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 0.785], f32[2]@cpu:0)
    """
    return bind(_atan, floating(x))


def _over_square(x: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    """The quotient x / (x1**2 + x2**2), 0 at the origin."""
    size = square(x1) + square(x2)
    return x / where(size == 0, 1.0, size)


_atan2 = binary(
    "atan2",
    FLOATING,
    lambda g, out, x1, x2: sum_to_like(g * _over_square(x2, x1, x2), x1),
    lambda g, out, x1, x2: -sum_to_like(g * _over_square(x1, x1, x2), x2),
    saved="inputs",
    flops=80,
)


def atan2(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The angle of the point with ordinate ``x1`` and abscissa ``x2``, from -pi to pi.

    Args:
        x1: floating, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.round(ef.atan2(ef.tensor([1.0, 1.0]), ef.tensor([1.0, -1.0])), 3)
    Tensor([0.785, 2.356], f32[2]@cpu:0)
    """
    return bind(_atan2, *promote_floating(x1, x2))


arccos, arcsin = acos, asin
arctan, arctan2 = atan, atan2

# --- angles ---------------------------------------------------------------------------------


def angle(x: TensorLike, /) -> Tensor:
    """The angle of each complex number, from -pi to pi; its derivative is 0 at 0.

    Args:
        x: numeric; for a real ``x``, the result is 0 or pi.

    >>> ef.round(ef.angle(ef.tensor([1j, -1.0])), 3)
    Tensor([1.571, 3.142], f32[2]@cpu:0)
    """
    tensor = floating(x)
    return atan2(imag(tensor), real(tensor))


def deg2rad(x: TensorLike, /) -> Tensor:
    """Convert degrees to radians.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.deg2rad(ef.tensor([180.0, 90.0])), 3)
    Tensor([3.142, 1.571], f32[2]@cpu:0)
    """
    return floating(x) * (math.pi / 180)


def rad2deg(x: TensorLike, /) -> Tensor:
    """Convert radians to degrees.

    Args:
        x: floating; integers count as float32.

    >>> ef.rad2deg(ef.tensor([0.0, 3.1415927]))
    Tensor([  0., 180.], f32[2]@cpu:0)
    """
    return floating(x) * (180 / math.pi)


radians, degrees = deg2rad, rad2deg
