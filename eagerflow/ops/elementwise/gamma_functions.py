"""Elementwise ops: incomplete gamma functions, the beta function, the zeta function."""

from __future__ import annotations

from typing import NoReturn

from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.errors import GradientError
from eagerflow.ops.elementwise.arithmetic import maximum, minimum, reciprocal
from eagerflow.ops.elementwise.powers_and_logarithms import exp, log, log1p, square
from eagerflow.ops.elementwise.special import lgamma, xlogy
from eagerflow.ops.rules.gradients import sum_to_like, where
from eagerflow.ops.rules.promotion import at_least_float32, cast, promote_floating
from eagerflow.ops.rules.type_rules import FLOATING, binary

__all__ = ["betaln", "gammainc", "gammaincc", "zeta"]

#: B(2k) / (2k (2k - 1)), the coefficients of Stirling's series of lgamma
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)


def _stirling(x: Tensor) -> Tensor:
    """The error of Stirling's formula for lgamma, for x >= 10."""
    inverse = reciprocal(x)
    step = square(inverse)
    total: Tensor | float = 0.0
    for c in _STIRLING[::-1]:
        total = total * step + c
    return total * inverse


def betaln(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The logarithm of the beta function of positive numbers.

    ``lgamma(a) + lgamma(b) - lgamma(a + b)``, but precise for large arguments, too, where these
    cancel (A. R. DiDonato and A. H. Morris, 1992).

    Args:
        x1: floating and positive, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.round(ef.betaln(ef.tensor([1.0, 2.0]), 3), 3)
    Tensor([-1.099, -2.485], f32[2]@cpu:0)
    """
    x, y = promote_floating(x1, x2)
    dtype = x.dtype
    x, y = at_least_float32(x), at_least_float32(y)
    a, b = minimum(x, y), maximum(x, y)
    large = b >= 10
    small_b = where(large, 1.0, b)
    plain = lgamma(a) + lgamma(small_b) - lgamma(a + small_b)
    large_b = where(large, b, 10.0)
    whole = large_b + a
    shift = (whole - 0.5) * log1p(a / large_b) + a * (log(large_b) - 1.0)
    apart = lgamma(a) - shift + _stirling(large_b) - _stirling(whole)
    return cast(where(large, apart, plain), dtype)


def _density(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of `gammainc` by ``x``."""
    return exp(xlogy(a - 1, x) - x - lgamma(a))


def _no_derivative(function: str, argument: str, remedy: str) -> NoReturn:
    raise GradientError(
        f"{function}: there is no derivative by its first argument, {argument}", hint=remedy
    )


_CONSTANT = "make it a constant: ef.stop_gradient(a)"


_gammainc = binary(
    "gammainc",
    FLOATING,
    lambda g, out, a, x: _no_derivative("gammainc", "a", _CONSTANT),
    lambda g, out, a, x: sum_to_like(g * _density(a, x), x),
    saved="inputs",
    flops=400,
)


def gammainc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularised lower incomplete gamma function, from 0 to 1.

    The distribution function of the gamma distribution of shape ``a`` at ``x``.

    Args:
        a: floating and positive, integers count as float32; broadcasts against ``x``.
        x: likewise, at least 0; both promote to one dtype. NaN where either is negative.

    Raises:
        GradientError: a derivative by ``a`` is requested.

    >>> ef.round(ef.gammainc(1.0, ef.tensor([0.0, 1.0])), 3)
    Tensor([0.   , 0.632], f32[2]@cpu:0)
    """
    return bind(_gammainc, *promote_floating(a, x))


_gammaincc = binary(
    "gammaincc",
    FLOATING,
    lambda g, out, a, x: _no_derivative("gammaincc", "a", _CONSTANT),
    lambda g, out, a, x: -sum_to_like(g * _density(a, x), x),
    saved="inputs",
    flops=400,
)


def gammaincc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """The regularised upper incomplete gamma function, 1 - `gammainc`, precise where that is 1.

    Args:
        a: floating and positive, integers count as float32; broadcasts against ``x``.
        x: likewise, at least 0; both promote to one dtype. NaN where either is negative.

    Raises:
        GradientError: a derivative by ``a`` is requested.

    >>> ef.round(ef.gammaincc(1.0, ef.tensor([0.0, 1.0])), 3)
    Tensor([1.   , 0.368], f32[2]@cpu:0)
    """
    return bind(_gammaincc, *promote_floating(a, x))


_zeta = binary(
    "zeta",
    FLOATING,
    lambda g, out, s, q: _no_derivative("zeta", "s", "make it a constant: ef.stop_gradient(s)"),
    lambda g, out, s, q: sum_to_like(g * -s * zeta(s + 1, q), q),
    saved="inputs",
    flops=300,
)


def zeta(s: TensorLike, q: TensorLike = 1.0, /) -> Tensor:
    """The Hurwitz zeta function: the sum of ``(q + k)**-s`` over all k >= 0.

    Args:
        s: floating, integers count as float32; broadcasts against ``q``. Infinite at 1, NaN below.
        q: likewise; both promote to one dtype. For 1 it is the Riemann zeta function. Infinite at
            0, NaN below.

    Raises:
        GradientError: a derivative by ``s`` is requested.

    >>> ef.round(ef.zeta(ef.tensor([2.0, 4.0])), 3)
    Tensor([1.645, 1.082], f32[2]@cpu:0)
    """
    return bind(_zeta, *promote_floating(s, q))
