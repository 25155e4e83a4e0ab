"""Elementwise ops: modified Bessel functions of the first kind."""

from __future__ import annotations

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.ops.elementwise.signs_and_rounding import sign
from eagerflow.ops.rules.gradients import times, where
from eagerflow.ops.rules.promotion import floating
from eagerflow.ops.rules.type_rules import FLOATING, unary

__all__ = ["i0", "i0e", "i1", "i1e"]


def _by_argument(y: Tensor, x: Tensor) -> Tensor:
    """The quotient ``y / x`` for a function ``y`` of order 1, which is about x / 2 near 0."""
    zero = x == 0
    return where(zero, 0.5, y / where(zero, 1.0, x))


_i0 = unary("i0", FLOATING, times(lambda out, x: i1(x)), saved="inputs", flops=60)


def i0(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.i0(ef.tensor([0.0, 2.0])), 3)
    Tensor([1.  , 2.28], f32[2]@cpu:0)
    """
    return bind(_i0, floating(x))


_i1 = unary(
    "i1", FLOATING, times(lambda out, x: i0(x) - _by_argument(i1(x), x)), saved="inputs", flops=60
)


def i1(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.i1(ef.tensor([0.0, 2.0])), 3)
    Tensor([0.   , 1.591], f32[2]@cpu:0)
    """
    return bind(_i1, floating(x))


_i0e = unary(
    "i0e", FLOATING, times(lambda out, x: i1e(x) - sign(x) * i0e(x)), saved="inputs", flops=60
)


def i0e(x: TensorLike, /) -> Tensor:
    """``exp(-abs(x)) * i0(x)``, which does not overflow.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.i0e(ef.tensor([0.0, 1000.0])), 4)
    Tensor([1.    , 0.0126], f32[2]@cpu:0)
    """
    return bind(_i0e, floating(x))


_i1e = unary(
    "i1e",
    FLOATING,
    times(lambda out, x: i0e(x) - sign(x) * i1e(x) - _by_argument(i1e(x), x)),
    saved="inputs",
    flops=60,
)


def i1e(x: TensorLike, /) -> Tensor:
    """``exp(-abs(x)) * i1(x)``, which does not overflow.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.i1e(ef.tensor([0.0, 1000.0])), 4)
    Tensor([0.    , 0.0126], f32[2]@cpu:0)
    """
    return bind(_i1e, floating(x))
