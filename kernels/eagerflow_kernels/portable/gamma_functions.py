"""Kernels of incomplete gamma functions and of the zeta function, in float64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerflow_kernels.portable.special import BERNOULLI, lgamma
from eagerflow_kernels.table import Array, portable

#: the most terms of a series: about ten times the root of the largest argument
_MOST_TERMS = 20_000
#: terms between checks for convergence, which wait for a device
_BLOCK = 32
_TINY = 1e-300


def _pair(name: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Register a kernel that gets two arrays in float64."""

    def register(function: Callable[..., Array]) -> Callable[..., Array]:
        def kernel(xp: Any, x1: Array, x2: Array) -> Array:
            a, b = (xp.asarray(x, dtype="float64") for x in (x1, x2))
            return xp.asarray(function(xp, *xp.broadcast_arrays(a, b)), dtype=x1.dtype)

        kernel.__doc__ = function.__doc__
        portable(name)(kernel)
        return function

    return register


def _lower_series(xp: Any, a: Array, x: Array) -> Array:
    """The sum of x**n / (a (a + 1) … (a + n)), for x <= a + 1 (Abramowitz and Stegun 6.5.29)."""
    term = 1 / a
    total = term
    for n in range(1, _MOST_TERMS):
        term = term * x / (a + n)
        total = total + term
        if n % _BLOCK == 0 and not bool(xp.any(term > total * 1e-17)):
            break
    return total


def _upper_fraction(xp: Any, a: Array, x: Array) -> Array:
    """The continued fraction 6.5.31 by the method of Lentz, for x > a + 1."""
    b = x + 1 - a
    c, d = xp.full_like(x, 1 / _TINY), 1 / b
    total = d
    for n in range(1, _MOST_TERMS):
        factor = -n * (n - a)
        b = b + 2
        d = factor * d + b
        d = 1 / xp.where(xp.abs(d) < _TINY, _TINY, d)
        c = b + factor / c
        c = xp.where(xp.abs(c) < _TINY, _TINY, c)
        step = c * d
        total = total * step
        if n % _BLOCK == 0 and not bool(xp.any(xp.abs(step - 1) > 1e-15)):
            break
    return total


def _incomplete(xp: Any, a: Array, x: Array, *, upper: bool) -> Array:
    """The upper or the lower function, whose sum is 1; the smaller one is computed."""
    inside = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    a_in, x_in = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    weight = xp.exp(a_in * xp.log(x_in) - x_in - lgamma(xp, a_in))
    low = x_in <= a_in + 1
    below = weight * _lower_series(xp, a_in, xp.where(low, x_in, a_in))
    above = weight * _upper_fraction(xp, xp.where(low, 1.0, a_in), xp.where(low, 3.0, x_in))
    lower = xp.where(low, below, 1 - above)
    value = xp.where(low, 1 - below, above) if upper else lower
    zero, one = (1.0, 0.0) if upper else (0.0, 1.0)
    edge = xp.where((x == 0) | (a == math.inf), zero, one)
    refused = (a < 0) | (x < 0) | (xp.isinf(a) & xp.isinf(x)) | ((a == 0) & (x == 0))
    return xp.where(refused | xp.isnan(a) | xp.isnan(x), math.nan, xp.where(inside, value, edge))


@_pair("gammainc")
def gammainc(xp: Any, a: Array, x: Array) -> Array:
    """The lower incomplete gamma function, regularised."""
    return _incomplete(xp, a, x, upper=False)


@_pair("gammaincc")
def gammaincc(xp: Any, a: Array, x: Array) -> Array:
    """The upper incomplete gamma function, regularised."""
    return _incomplete(xp, a, x, upper=True)


@_pair("zeta")
def zeta(xp: Any, s: Array, q: Array) -> Array:
    """The Hurwitz zeta function: ten terms, and the formula of Euler and Maclaurin for the rest."""
    inside = (s > 1) & (q > 0) & (q < math.inf)
    s_in, q_in = xp.where(inside, s, 2.0), xp.where(inside, q, 1.0)
    total = xp.zeros_like(q_in)
    for k in range(10):
        total = total + (q_in + k) ** -s_in
    far = q_in + 10
    finite = xp.minimum(s_in, 1e3)  # beyond, later terms are 0 beside the first
    power = far**-finite
    total = total + power * far / (finite - 1) + power / 2
    factor = finite / far
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b / math.factorial(2 * k) * factor * power
        factor = factor * (finite + 2 * k - 1) * (finite + 2 * k) / (far * far)
    pole = (s == 1) & (q >= 0) | (q == 0) & (s > 1)
    nan = xp.isnan(s) | xp.isnan(q)
    edge = xp.where(pole & ~nan, math.inf, xp.where((s > 1) & (q == math.inf), 0.0, math.nan))
    return xp.where(inside, total, edge)
