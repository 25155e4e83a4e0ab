"""Kernels of special functions, most of which compute in float64 and round once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerflow_kernels.table import Array, portable


def in_float64(name: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Register a kernel that gets its array in float64."""

    def register(function: Callable[..., Array]) -> Callable[..., Array]:
        def kernel(xp: Any, x: Array, **attrs: Any) -> Array:
            y = function(xp, xp.asarray(x, dtype="float64"), **attrs)
            return xp.asarray(y, dtype=x.dtype)

        kernel.__doc__ = function.__doc__
        portable(name)(kernel)
        return function

    return register


# --- error functions ------------------------------------------------------------------------

#: log(erfc(x) / t) + x**2 with t = 2 / (2 + x), for x >= 0, as a Chebyshev series in 2 t - 1
_ERFC = (
    -1.3026537197817094342, 0.64196979235649026, 0.019476473204185836, -0.0095615147868086316,
    -9.4659534448203696e-4, 3.6683949785276146e-4, 4.2523324806907773e-5, -2.0278578112534242e-5,
    -1.6242900046470257e-6, 1.3036558355805233e-6, 1.5626441722066118e-8, -8.5238095914926524e-8,
    6.5290544390988518e-9, 5.0593434955514559e-9, -9.9136415649300740e-10, -2.2736512229322152e-10,
    9.6467911020204814e-11, 2.3940380829787796e-12, -6.8860275264274682e-12,
    8.9448792723043594e-13, 3.1309214002013799e-13, -1.1270822370525150e-13,
    3.8109062126776573e-16, 7.1060975153287738e-15, -1.5230281023265557e-15,
    -9.4575043997488342e-17, 1.2102381467947031e-16, -2.8166722468687966e-17,
)  # fmt: skip


def _erf_near(x: Array) -> Array:
    """The Taylor series of erf, for |x| < 1."""
    square, total = x * x, 0.0
    for n in range(19, -1, -1):
        total = total * square + (-1) ** n / (math.factorial(n) * (2 * n + 1))
    return x * total * (2 / math.sqrt(math.pi))


def _erfc_far(xp: Any, x: Array) -> Array:
    """erfc(x) for x >= 0."""
    t = 2 / (2 + x)
    u = 4 * t - 2
    d, dd = 0.0, 0.0
    for c in _ERFC[:0:-1]:
        d, dd = u * d - dd + c, d
    series = 0.5 * (_ERFC[0] + u * d) - dd
    # x**2 in two parts, the first one exact, as the rounding error of x**2 would be amplified
    head = xp.asarray(xp.asarray(x, dtype="float32"), dtype="float64")
    return t * xp.exp(-head * head) * xp.exp((head - x) * (head + x) + series)


@in_float64("erf")
def erf(xp: Any, x: Array) -> Array:
    """The error function."""
    size = xp.minimum(xp.abs(x), 6.0)
    near = size < 1
    far = xp.copysign(1 - _erfc_far(xp, size), x)
    return xp.where(near, _erf_near(xp.where(near, x, 0.0)), far)


@in_float64("erfc")
def erfc(xp: Any, x: Array) -> Array:
    """1 - erf(x)."""
    size = xp.minimum(xp.abs(x), 28.0)
    far = _erfc_far(xp, size)
    far = xp.where(x < 0, 2 - far, far)
    near = size < 0.5
    return xp.where(near, 1 - _erf_near(xp.where(near, x, 0.0)), far)


#: a first approximation of erfinv in the centre (M. Giles, 2012)
_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip


def polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """The value of a polynomial, with the coefficient of the highest power first."""
    total = coefficients[0] + 0.0 * x
    for c in coefficients[1:]:
        total = total * x + c
    return total


@in_float64("erfinv")
def erfinv(xp: Any, x: Array) -> Array:
    """The inverse of erf: an approximation, then Halley's method."""
    inside = xp.abs(x) < 1
    a = xp.where(inside, xp.abs(x), 0.0)
    w = -xp.log((1 - a) * (1 + a))
    q = xp.maximum(-xp.log(1 - a), 1.0)
    tail = xp.sqrt(q - 0.5 * xp.log(math.pi * q))  # where erfc(y) is exp(-y * y) / (y sqrt(pi))
    y = xp.where(w < 5, a * polynomial(_CENTRE, xp.minimum(w, 5.0) - 2.5), tail)
    for _ in range(3):
        near = y < 0.5
        error = xp.where(near, _erf_near(xp.where(near, y, 0.0)) - a, (1 - a) - _erfc_far(xp, y))
        step = error * (math.sqrt(math.pi) / 2) * xp.exp(y * y)
        y = y - step / (1 + y * step)
    edge = xp.where(xp.abs(x) == 1, math.inf, math.nan)
    return xp.copysign(xp.where(inside, y, edge), x)


# --- the gamma function ---------------------------------------------------------------------

#: Lanczos' approximation with g = 7
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
            -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
            1.5056327351493116e-7)  # fmt: skip
#: Bernoulli numbers B2, B4, …
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
              43867 / 798, -174611 / 330)  # fmt: skip


@in_float64("lgamma")
def lgamma(xp: Any, x: Array) -> Array:
    """The logarithm of |gamma(x)|; below 1/2 by reflection."""
    low = x < 0.5
    z = xp.where(low, 1 - x, x) - 1
    z = xp.where(xp.isfinite(z), z, 1.0)
    series = _LANCZOS[0] + 0.0 * z
    for k, c in enumerate(_LANCZOS[1:], 1):
        series = series + c / (z + k)
    t = z + 7.5
    value = 0.5 * math.log(2 * math.pi) + (z + 0.5) * xp.log(t) - t + xp.log(series)
    remainder = xp.abs(xp.where(low & xp.isfinite(x), x - xp.round(x), 0.5))
    pole = remainder == 0
    sine = xp.where(pole, 1.0, xp.sin(math.pi * remainder))
    value = xp.where(low, math.log(math.pi) - xp.log(sine) - value, value)
    return xp.where(xp.isnan(x), x, xp.where(pole | xp.isinf(x), math.inf, value))


def _cotangent_derivative(xp: Any, n: int, x: Array) -> Array:
    """The derivative of order ``n`` of pi cot(pi x), a polynomial in cot(pi x)."""
    coefficients = [0.0, math.pi]  # of powers 0, 1, …
    for _ in range(n):  # d cot(pi x) = -pi (1 + cot(pi x)**2) dx
        slope = [k * c * -math.pi for k, c in enumerate(coefficients)][1:]
        coefficients = [0.0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            coefficients[k] += c
            coefficients[k + 2] += c
    cotangent = 1 / xp.tan(math.pi * (x - xp.round(x)))
    return polynomial(tuple(reversed(coefficients)), cotangent)


def _polygamma_asymptotic(xp: Any, n: int, x: Array) -> Array:
    """The asymptotic series of polygamma for x >= 10, without the sign for n > 0."""
    sums = -xp.log(x) if n == 0 else math.factorial(n - 1) / x**n
    total = sums + math.factorial(n) / (2 * x ** (n + 1))
    for k, b in enumerate(BERNOULLI, 1):
        factor = b * math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        total = total + factor / x ** (2 * k + n)
    return total


@in_float64("polygamma")
def polygamma(xp: Any, x: Array, *, n: int) -> Array:
    """Polygamma: x is shifted to the range of the asymptotic series; below 0 by reflection."""
    low = (x <= 0) & xp.isfinite(x)
    z = xp.where(low, 1 - x, x)
    start = 10 + n
    total = xp.zeros_like(z)
    for _ in range(start):
        small = z < start
        safe = xp.where(small, z, 1.0)
        total = total + xp.where(small, math.factorial(n) / safe ** (n + 1), 0.0)
        z = xp.where(small, z + 1, z)
    # psi_n(x) = (-1)**(n + 1) * (n! * sum over k of 1 / (x + k)**(n + 1))
    value = (-1) ** (n + 1) * (_polygamma_asymptotic(xp, n, z) + total)
    regular = xp.where(low & (x != xp.round(x)), x, 0.25)
    reflected = -_cotangent_derivative(xp, n, regular) + (-1) ** n * value
    value = xp.where(low, reflected, value)
    pole = low & (x == xp.round(x))
    at_pole = math.inf if n % 2 else xp.where(x == 0, xp.copysign(math.inf, -x), math.nan)
    return xp.where(pole, at_pole, xp.where(x == -math.inf, math.nan, value))


# --- logistic and others --------------------------------------------------------------------


@portable("sigmoid")
def sigmoid(xp: Any, x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    small = xp.exp(-xp.abs(x))
    return xp.where(x < 0, small, 1) / (1 + small)


@portable("sinc")
def sinc(xp: Any, x: Array) -> Array:
    """sin(pi x) / (pi x); 1 at 0."""
    y = x * math.pi
    zero = y == 0
    safe = xp.where(zero, 1, y).astype(y.dtype)
    return xp.where(zero, 1, xp.sin(safe) / safe).astype(y.dtype)
