"""Elementwise ops: powers, exponentials and logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from eagerflow.core.op import bind
from eagerflow.core.op_records.op_facts import neutral
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.ops.elementwise.arithmetic import positive
from eagerflow.ops.rules.gradients import conjugate, over, sum_to_like, times, where
from eagerflow.ops.rules.promotion import floating, known_number, pair, promote_floating
from eagerflow.ops.rules.remedies import EXP, LOG, POWER, ROOT, SLOPE_OF_ROOT, SQUARES
from eagerflow.ops.rules.type_rules import FLOATING, INEXACT, NUMERIC, binary, unary

__all__ = [
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "pow",
    "power",
    "rsqrt",
    "sqrt",
    "square",
]

# --- powers ---------------------------------------------------------------------------------

_square = unary(
    "square", NUMERIC, times(lambda out, x: x * 2), saved="inputs", ieee=True, remedy=SQUARES
)


def square(x: TensorLike, /) -> Tensor:
    """The square of each element.

    Args:
        x: numeric.

    >>> ef.square(ef.tensor([1.0, -2.0]))
    Tensor([1., 4.], f32[2]@cpu:0)
    """
    return bind(_square, tensor_of(x))


_sqrt = unary(
    "sqrt",
    INEXACT,
    lambda g, out, x: g * 0.5 / conjugate(out),
    saved="outputs",
    ieee=True,
    remedy=ROOT,
    gradient_remedy=SLOPE_OF_ROOT,
)


def sqrt(x: TensorLike, /) -> Tensor:
    """The square root of each element; NaN for negative numbers.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.sqrt(ef.tensor([4.0, 9.0]))
    Tensor([2., 3.], f32[2]@cpu:0)
    """
    return bind(_sqrt, floating(x))


_rsqrt = unary(
    "rsqrt",
    INEXACT,
    times(lambda out, x: out * square(out) * -0.5),
    saved="outputs",
    remedy=ROOT,
    gradient_remedy=SLOPE_OF_ROOT,
)


def rsqrt(x: TensorLike, /) -> Tensor:
    """The reciprocal square root of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.rsqrt(ef.tensor([4.0, 16.0]))
    Tensor([0.5 , 0.25], f32[2]@cpu:0)
    """
    return bind(_rsqrt, floating(x))


_cbrt = unary("cbrt", FLOATING, over(lambda out, x: square(out) * 3.0), saved="outputs", flops=40)


def cbrt(x: TensorLike, /) -> Tensor:
    """The cube root of each element.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.cbrt(ef.tensor([8.0, -27.0])), 3)
    Tensor([ 2., -3.], f32[2]@cpu:0)
    """
    return bind(_cbrt, floating(x))


def _slope(x1: Tensor, x2: Tensor) -> Tensor:
    """The derivative of ``x1 ** x2`` by ``x1``; 0 for ``x2 == 0``, also where ``x1`` is 0."""
    return x2 * x1 ** (where(x2 == 0, 1, x2) - 1)


_pow = binary(
    "pow",
    NUMERIC,
    lambda g, out, x1, x2: sum_to_like(g * conjugate(_slope(x1, x2)), x1),
    # by x2; for x1 == 0 the power is 0 (or 1, or infinite) and stays so
    lambda g, out, x1, x2: sum_to_like(g * conjugate(out * log(where(x1 == 0, 1, x1))), x2),
    flops=40,
    neutral=neutral(None, 1, None),
    fails_on="values",
    remedy=POWER,
)


def pow(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Elements of ``x1`` raised to the powers ``x2``.

    Args:
        x1: numeric; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    Raises:
        TensorValueError: an integer is raised to a negative integer power.

    >>> ef.pow(ef.tensor([1.0, 2.0, 3.0]), 2)
    Tensor([1., 4., 9.], f32[3]@cpu:0)
    """
    kind = type(x2)
    if kind is not Tensor and kind is not int and kind is not float:
        x2 = known_number(x2)
    if type(x1) is Tensor and (type(x2) is int or type(x2) is float):
        dtype = x1._lane.dtype
        if dtype.is_inexact or (dtype.is_integer and type(x2) is int):
            simpler = _SIMPLER.get(x2)
            if simpler is not None:
                return simpler(x1)
    return bind(_pow, *pair(x1, x2))


power = pow

#: powers that are simpler ops, equal to the last bit
_SIMPLER: Final[dict[float, Callable[[Tensor], Tensor]]] = {1: positive, 2: square}

# --- exponentials ---------------------------------------------------------------------------

_exp = unary("exp", INEXACT, times(lambda out, x: out), saved="outputs", flops=32, remedy=EXP)


def exp(x: TensorLike, /) -> Tensor:
    """The exponential function of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.exp(ef.tensor([0.0, 1.0])), 3)
    Tensor([1.   , 2.718], f32[2]@cpu:0)
    """
    return bind(_exp, floating(x))


_exp2 = unary(
    "exp2", INEXACT, times(lambda out, x: out * math.log(2)), saved="outputs", flops=32, remedy=EXP
)


def exp2(x: TensorLike, /) -> Tensor:
    """Two to the power of each element.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.exp2(ef.tensor([3.0, -1.0]))
    Tensor([8. , 0.5], f32[2]@cpu:0)
    """
    return bind(_exp2, floating(x))


# the exponential itself: for very negative x, `out + 1` would be nothing but rounding errors
_expm1 = unary("expm1", INEXACT, times(lambda out, x: exp(x)), saved="inputs", flops=32, remedy=EXP)


def expm1(x: TensorLike, /) -> Tensor:
    """The exponential of each element, minus 1; precise near 0.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.expm1(ef.tensor([0.0, 1e-10]))
    Tensor([0.e+00, 1.e-10], f32[2]@cpu:0)
    """
    return bind(_expm1, floating(x))


# --- logarithms -----------------------------------------------------------------------------

_log = unary("log", INEXACT, over(lambda out, x: x), saved="inputs", flops=32, remedy=LOG)


def log(x: TensorLike, /) -> Tensor:
    """The natural logarithm of each element; NaN for negative numbers.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.log(ef.tensor([1.0, 10.0])), 3)
    Tensor([0.   , 2.303], f32[2]@cpu:0)
    """
    return bind(_log, floating(x))


_log1p = unary("log1p", INEXACT, over(lambda out, x: x + 1), saved="inputs", flops=32, remedy=LOG)


def log1p(x: TensorLike, /) -> Tensor:
    """The natural logarithm of 1 + x; precise near 0.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.log1p(ef.tensor([0.0, 1e-10]))
    Tensor([0.e+00, 1.e-10], f32[2]@cpu:0)
    """
    return bind(_log1p, floating(x))


_log2 = unary(
    "log2", INEXACT, over(lambda out, x: x * math.log(2)), saved="inputs", flops=32, remedy=LOG
)


def log2(x: TensorLike, /) -> Tensor:
    """The logarithm of each element to base 2.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.log2(ef.tensor([8.0, 0.5]))
    Tensor([ 3., -1.], f32[2]@cpu:0)
    """
    return bind(_log2, floating(x))


_log10 = unary(
    "log10", INEXACT, over(lambda out, x: x * math.log(10)), saved="inputs", flops=32, remedy=LOG
)


def log10(x: TensorLike, /) -> Tensor:
    """The logarithm of each element to base 10.

    Args:
        x: floating or complex; integers count as float32.

    >>> ef.round(ef.log10(ef.tensor([100.0, 0.1])), 3)
    Tensor([ 2., -1.], f32[2]@cpu:0)
    """
    return bind(_log10, floating(x))


def _weight(out: Tensor, x: Tensor) -> Tensor:
    """``exp(x - out)``, 1 where both are equal, even if infinite."""
    same = x == out
    return exp(where(same, 0.0, x) - where(same, 0.0, out))


_logaddexp = binary(
    "logaddexp",
    FLOATING,
    lambda g, out, x1, x2: sum_to_like(g * _weight(out, x1), x1),
    lambda g, out, x1, x2: sum_to_like(g * _weight(out, x2), x2),
    flops=80,
)


def logaddexp(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow.

    Where one operand is -inf, the result is the other, with derivative 1, even where both are.

    Args:
        x1: floating, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.round(ef.logaddexp(ef.tensor([0.0, 100.0]), 0), 3)
    Tensor([  0.693, 100.   ], f32[2]@cpu:0)
    """
    return bind(_logaddexp, *promote_floating(x1, x2))
