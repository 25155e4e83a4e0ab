"""Elementwise ops: error functions, gamma functions, the logistic function, sinc."""

from __future__ import annotations

import math

from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import aligned
from eagerflow.core.op_records.cost_formulas import per_output
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.errors import TensorValueError
from eagerflow.ops.elementwise.logic import logical_and, logical_not
from eagerflow.ops.elementwise.powers_and_logarithms import exp, log, log1p, square
from eagerflow.ops.elementwise.signs_and_rounding import abs
from eagerflow.ops.elementwise.trigonometric import cos
from eagerflow.ops.rules.arguments import as_index
from eagerflow.ops.rules.gradients import times, where
from eagerflow.ops.rules.promotion import floating, promote_floating
from eagerflow.ops.rules.type_rules import FLOATING, check_kind, unary
from eagerflow.types import TensorType

__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "logit",
    "polygamma",
    "sigmoid",
    "sinc",
    "xlogy",
]

# --- error functions ------------------------------------------------------------------------

_erf = unary("erf", FLOATING, times(lambda out, x: _bell(x)), saved="inputs", flops=100)


def _bell(x: Tensor) -> Tensor:
    """The derivative of erf."""
    return exp(-square(x)) * (2 / math.sqrt(math.pi))


def erf(x: TensorLike, /) -> Tensor:
    """The error function of each element.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.erf(ef.tensor([0.0, 0.5])), 3)
    Tensor([0.  , 0.52], f32[2]@cpu:0)
    """
    return bind(_erf, floating(x))


_erfc = unary("erfc", FLOATING, lambda g, out, x: -(g * _bell(x)), saved="inputs", flops=100)


def erfc(x: TensorLike, /) -> Tensor:
    """1 - erf(x), precise for large x.

    Args:
        x: floating; integers count as float32.

    >>> ef.erfc(ef.tensor([0.0, float("-inf")]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    return bind(_erfc, floating(x))


_erfinv = unary(
    "erfinv",
    FLOATING,
    times(lambda out, x: exp(square(out)) * (math.sqrt(math.pi) / 2)),
    saved="outputs",
    flops=100,
)


def erfinv(x: TensorLike, /) -> Tensor:
    """The inverse of erf; infinite at -1 and 1, NaN beyond.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.erfinv(ef.tensor([0.0, 0.5])), 3)
    Tensor([0.   , 0.477], f32[2]@cpu:0)
    """
    return bind(_erfinv, floating(x))


# --- the gamma function ---------------------------------------------------------------------

_lgamma = unary("lgamma", FLOATING, times(lambda out, x: digamma(x)), saved="inputs", flops=100)


def lgamma(x: TensorLike, /) -> Tensor:
    """The natural logarithm of the magnitude of the gamma function.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.lgamma(ef.tensor([5.0, 0.5])), 3)
    Tensor([3.178, 0.572], f32[2]@cpu:0)
    """
    return bind(_lgamma, floating(x))


def _polygamma_type(x: TensorType, *, n: int) -> TensorType:
    check_kind(x, FLOATING)
    return x


_polygamma = define(
    "polygamma",
    infer=_polygamma_type,
    vjp=(lambda g, out, x, *, n: g * polygamma(n + 1, x),),
    saved="inputs",
    cost=per_output(100),
    batch=aligned,
)


def polygamma(n: int, x: TensorLike, /) -> Tensor:
    """The derivative of order ``n`` of the digamma function.

    Args:
        n: the order, at least 0.
        x: floating; integers count as float32.

    Raises:
        TensorValueError: ``n`` is negative.

    >>> ef.round(ef.polygamma(1, ef.tensor([1.0])), 3)
    Tensor([1.645], f32[1]@cpu:0)
    """
    order = as_index("polygamma", "n", n)
    if order < 0:
        raise TensorValueError("polygamma: the order is negative", given=f"n={n}")
    return bind(_polygamma, floating(x), n=order)


def digamma(x: TensorLike, /) -> Tensor:
    """The derivative of the logarithm of the gamma function.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.digamma(ef.tensor([1.0, 2.0])), 3)
    Tensor([-0.577,  0.423], f32[2]@cpu:0)
    """
    return polygamma(0, x)


# --- logistic and others --------------------------------------------------------------------

_sigmoid = unary(
    "sigmoid",
    FLOATING,
    times(lambda out, x: out * (1 - out)),
    saved="outputs",
    flops=40,
)


def sigmoid(x: TensorLike, /) -> Tensor:
    """The logistic function 1 / (1 + exp(-x)).

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.sigmoid(ef.tensor([0.0, 2.0])), 3)
    Tensor([0.5  , 0.881], f32[2]@cpu:0)
    """
    return bind(_sigmoid, floating(x))


def logit(x: TensorLike, /) -> Tensor:
    """The inverse of the logistic function, log(x / (1 - x)).

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.logit(ef.tensor([0.5, 0.75])), 3)
    Tensor([0.   , 1.099], f32[2]@cpu:0)
    """
    tensor = floating(x)
    return log(tensor) - log1p(-tensor)


def xlogy(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """x1 * log(x2), 0 where ``x1`` is 0 unless ``x2`` is NaN.

    Args:
        x1: floating, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.xlogy(ef.tensor([0.0, 2.0]), ef.tensor([0.0, 1.0]))
    Tensor([0., 0.], f32[2]@cpu:0)
    """
    x, y = promote_floating(x1, x2)
    # within (0, inf) there is no special case, and the derivative by x1 is log(x2) at 0 as well
    ordinary = logical_and(y > 0, y < math.inf)
    special = logical_and(x == 0, logical_and(logical_not(ordinary), y == y))
    return x * log(where(special, 1.0, y))


def _sinc_slope(x: Tensor, out: Tensor) -> Tensor:
    """The derivative of sinc; near 0 by its series, so that higher derivatives are right too."""
    square_x = square(x * math.pi)
    series: Tensor | float = 0.0
    for k in range(9, 0, -1):
        series = series * square_x + (-1) ** k * 2 * k / math.factorial(2 * k + 1)
    near = abs(x) < 0.3
    safe = where(near, 1.0, x)
    far = (cos(safe * math.pi) - where(near, 0.0, out)) / safe
    return where(near, x * math.pi**2 * series, far)


_sinc = unary("sinc", FLOATING, lambda g, out, x: g * _sinc_slope(x, out), flops=40)


def sinc(x: TensorLike, /) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0.

    Args:
        x: floating; integers count as float32.

    >>> ef.round(ef.sinc(ef.tensor([0.0, 0.5])), 3)
    Tensor([1.   , 0.637], f32[2]@cpu:0)
    """
    return bind(_sinc, floating(x))
