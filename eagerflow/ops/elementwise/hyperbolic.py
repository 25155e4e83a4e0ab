"""Elementwise ops: hyperbolic functions and their inverses."""

from __future__ import annotations

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.ops.elementwise.powers_and_logarithms import sqrt, square
from eagerflow.ops.rules.gradients import over, times
from eagerflow.ops.rules.promotion import floating
from eagerflow.ops.rules.remedies import EXP, SLOPE_AT_END
from eagerflow.ops.rules.type_rules import INEXACT, unary

__all__ = [
    "acosh",
    "arccosh",
    "arcsinh",
    "arctanh",
    "asinh",
    "atanh",
    "cosh",
    "sinh",
    "tanh",
]

_sinh = unary("sinh", INEXACT, times(lambda out, x: cosh(x)), saved="inputs", flops=40, remedy=EXP)


def sinh(x: TensorLike, /) -> Tensor:
    """The hyperbolic sine of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.sinh(ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 1.175], f32[2]@cpu:0)
    """
    return bind(_sinh, floating(x))


_cosh = unary("cosh", INEXACT, times(lambda out, x: sinh(x)), saved="inputs", flops=40, remedy=EXP)


def cosh(x: TensorLike, /) -> Tensor:
    """The hyperbolic cosine of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.cosh(ef.tensor([0.0, 1.0])), 3)
    Tensor([1.   , 1.543], f32[2]@cpu:0)
    """
    return bind(_cosh, floating(x))


_tanh = unary("tanh", INEXACT, times(lambda out, x: 1 - square(out)), saved="outputs", flops=32)


def tanh(x: TensorLike, /) -> Tensor:
    """The hyperbolic tangent of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.tanh(ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 0.762], f32[2]@cpu:0)
    """
    return bind(_tanh, floating(x))


_asinh = unary("asinh", INEXACT, over(lambda out, x: sqrt(square(x) + 1)), saved="inputs", flops=80)


def asinh(x: TensorLike, /) -> Tensor:
    """The inverse hyperbolic sine of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.asinh(ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 0.881], f32[2]@cpu:0)
    """
    return bind(_asinh, floating(x))


# two roots: one of the product would be on the wrong branch for complex numbers
_acosh = unary(
    "acosh",
    INEXACT,
    over(lambda out, x: sqrt(x - 1) * sqrt(x + 1)),
    saved="inputs",
    flops=80,
    gradient_remedy=SLOPE_AT_END,
)


def acosh(x: TensorLike, /) -> Tensor:
    """The inverse hyperbolic cosine of each element; NaN below 1.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.acosh(ef.tensor([1.0, 2.0])), 3)
    Tensor([0.   , 1.317], f32[2]@cpu:0)
    """
    return bind(_acosh, floating(x))


_atanh = unary(
    "atanh",
    INEXACT,
    over(lambda out, x: (1 - x) * (x + 1)),
    saved="inputs",
    flops=80,
    gradient_remedy=SLOPE_AT_END,
)


def atanh(x: TensorLike, /) -> Tensor:
    """The inverse hyperbolic tangent of each element; NaN outside of [-1, 1].

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.atanh(ef.tensor([0.0, 0.5])), 3)
    Tensor([0.   , 0.549], f32[2]@cpu:0)
    """
    return bind(_atanh, floating(x))


arccosh, arcsinh, arctanh = acosh, asinh, atanh
