"""Elementwise ops: functions of the normal distribution, and entropies."""

from __future__ import annotations

import math

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.ops.elementwise.arithmetic import reciprocal
from eagerflow.ops.elementwise.logic import logical_and, logical_not
from eagerflow.ops.elementwise.powers_and_logarithms import exp, log, log1p, square
from eagerflow.ops.elementwise.special import erfc, xlogy
from eagerflow.ops.rules.gradients import times, where
from eagerflow.ops.rules.promotion import at_least_float32, cast, floating, promote_floating
from eagerflow.ops.rules.type_rules import FLOATING, unary

__all__ = ["entr", "log_ndtr", "ndtr", "ndtri", "xlog1py"]

_ROOT = math.sqrt(0.5)


def ndtr(x: TensorLike, /) -> Tensor:
    """The probability that a standard normal variable is at most ``x``; precise in both tails.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.ndtr(ef.tensor([0.0, 1.96])), 3)
    Tensor([0.5  , 0.975], f32[2]@cpu:0)
    """
    return erfc(floating(x) * -_ROOT) * 0.5


def log_ndtr(x: TensorLike, /) -> Tensor:
    """The logarithm of `ndtr`, finite where that is 0 and precise where it is nearly 1.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.log_ndtr(ef.tensor([0.0, -40.0])), 3)
    Tensor([  -0.693, -804.608], f32[2]@cpu:0)
    """
    x = floating(x)
    dtype = x.dtype
    x = at_least_float32(x)
    wide = x.dtype.name == "float64"
    low = -20.0 if wide else -8.0
    far, positive = x < low, x > 0
    upper = log1p(erfc(where(positive, x, 0.0) * _ROOT) * -0.5)
    middle = log(ndtr(where(far, low, where(positive, 0.0, x))))
    # Abramowitz and Stegun 26.2.12: each term is the previous one times about k / x**2
    safe = where(far, x, low)
    inverse = reciprocal(square(safe))
    series: Tensor | float = 0.0
    for k in range(12 if wide else 7, 0, -1):
        series = (series + 1.0) * inverse * -(2 * k - 1)
    tail = log1p(series) - square(safe) * 0.5 - log(-safe) - 0.5 * math.log(2 * math.pi)
    return cast(where(far, tail, where(positive, upper, middle)), dtype)


_ndtri = unary(
    "ndtri",
    FLOATING,
    times(lambda out, x: exp(square(out) * 0.5) * math.sqrt(2 * math.pi)),
    saved="outputs",
    flops=60,
)


def ndtri(x: TensorLike, /) -> Tensor:
    """The quantile function of the standard normal distribution, the inverse of `ndtr`.

    Args:
        x: probabilities, floating; integers count as float32. At 0 and 1 the result is infinite,
            beyond them NaN.

    >>> ef.round(ef.ndtri(ef.tensor([0.5, 0.975])), 3)
    Tensor([0.  , 1.96], f32[2]@cpu:0)
    """
    return bind(_ndtri, floating(x))


def entr(x: TensorLike, /) -> Tensor:
    """The contribution of each element to an entropy: -x log(x), 0 at 0, -inf below.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.entr(ef.tensor([0.0, 0.5, -1.0])), 3)
    Tensor([0.   , 0.347,  -inf], f32[3]@cpu:0)
    """
    x = floating(x)
    below = x < 0
    safe = where(below, 1.0, x)
    return where(below, -math.inf, -xlogy(safe, safe))


def xlog1py(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """x1 * log(1 + x2), 0 where ``x1`` is 0 unless ``x2`` is NaN.

    Args:
        x1: floating, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.xlog1py(ef.tensor([0.0, 2.0]), ef.tensor([-1.0, 0.0]))
    Tensor([0., 0.], f32[2]@cpu:0)
    """
    x, y = promote_floating(x1, x2)
    ordinary = logical_and(y > -1, y < math.inf)  # as in `xlogy`
    special = logical_and(x == 0, logical_and(logical_not(ordinary), y == y))
    return x * log1p(where(special, 0.0, y))
