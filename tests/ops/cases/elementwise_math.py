"""Cases of powers, exponentials, logarithms, trigonometric and special functions."""

from __future__ import annotations

import cmath
import math
from typing import Any

import mpmath
import numpy as np

from tests.ops.case import COMPLEX, FLOATING, INEXACT, INTEGER, NUMERIC, OpCase, Sample
from tests.ops.cases.elementwise import REALS, binary, one, two
from tests.ops.loops import divided, loop, total


def _complex_to_infinity(function: Any, poles: dict[float, float]) -> Any:
    """``function`` with the given values at its poles."""
    return lambda x: poles[x] if x in poles else total(function)(x)


def both(name: str, real: Any, complex_: Any, make: Any = None, **options: Any) -> list[OpCase]:
    """A row for real dtypes, with special values, and one for complex dtypes."""
    make = make or one()
    return [
        OpCase(name, make, loop(real), dtypes=(*REALS, "int32"), grad=(0,), specials=True,
               **options),
        OpCase(name, one(), loop(complex_), dtypes=COMPLEX, grad=(0,), label="complex", **options),
    ]  # fmt: skip


def real(name: str, function: Any, make: Any = None, **options: Any) -> OpCase:
    """A row for real dtypes, with special values."""
    options = {"dtypes": REALS, "specials": True, "grad": (0,), **options}
    return OpCase(name, make or one(), loop(function), **options)


def _log(function: Any, shift: float = 0.0) -> Any:
    return lambda x: -math.inf if x == -shift else total(function)(x)


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, (int, complex)):
        return a**b
    try:
        return math.pow(a, b)
    except ValueError:  # a root of a negative number, or a negative power of 0
        return math.nan if a != 0 else math.inf * (math.copysign(1, a) if b % 2 == 1 else 1)


def _logaddexp(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return high if math.isinf(high) else high + math.log1p(math.exp(low - high))


def _log_beta(a: float, b: float) -> float:
    return float(mpmath.log(mpmath.beta(a, b)))


def _xlogy(x: float, y: float) -> float:
    if x == 0 and y == y:
        return 0.0
    return x * _log(math.log)(y)


def _mp(function: Any) -> Any:
    """A function of mpmath, taking and giving floats."""
    return lambda *xs: float(function(*xs)) if all(map(math.isfinite, xs)) else math.nan


def _sinc(x: float) -> float:
    return float(mpmath.sincpi(x))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def _angle(s: Sample) -> tuple[Any, ...]:
    x = s.array()
    return (np.where(x == 0, 1, x).astype(x.dtype),)


_BELOW_ONE = (-0.9, 0.9)

POWERS = [
    OpCase("square", one(), loop(lambda a: a * a), dtypes=(*NUMERIC, "float8_e5m2"), grad=(0,),
           specials=True),
    *both("sqrt", total(math.sqrt), cmath.sqrt, one(0.1, 3)),
    real("rsqrt", lambda x: math.inf if x == 0 else divided(1.0, total(math.sqrt)(x)),
         one(0.5, 3)),
    OpCase("rsqrt", one(0.5, 3), loop(lambda z: 1 / cmath.sqrt(z)), dtypes=COMPLEX, grad=(0,),
           label="complex"),
    real("cbrt", math.cbrt, one(0.5, 3)),
    *binary("pow", loop(_power), two(0.2, 3, (-2, 2)), dtypes=REALS + COMPLEX, grad=(0, 1)),
    OpCase("pow", two(-3, 3, (0, 4)), loop(_power), dtypes=INTEGER, no_grad="integers",
           label="integer"),
    *(OpCase("pow", lambda s, n=n: (s.array(), n), loop(_power), dtypes=NUMERIC, grad=(0,),
             ops=(op,), label=str(n)) for n, op in ((1, "positive"), (2, "square"))),
    *(OpCase("pow", lambda s, n=n: (s.array(), n), loop(_power), dtypes=FLOATING, grad=(0,),
             label=str(n), tolerance=2) for n in (2.0, 3, 4, -1, -3, 0, 3.0)),
    *(OpCase("pow", lambda s, n=n: (s.array(0.2, 3), n), loop(_power), dtypes=INEXACT, grad=(0,),
             label=str(n)) for n in (0.5, -0.5)),
    OpCase("pow", lambda s: (2, s.array()), loop(_power), dtypes=FLOATING, grad=(1,),
           label="of 2"),
]  # fmt: skip

EXPONENTIALS = [
    *both("exp", total(math.exp), cmath.exp),
    *both("exp2", total(math.exp2), lambda z: cmath.exp(z * math.log(2))),
    *both("expm1", total(math.expm1), lambda z: cmath.exp(z) - 1),
    *both("log", _log(math.log), cmath.log, one(0.1, 3)),
    *both("log1p", _log(math.log1p, 1), lambda z: cmath.log(1 + z), one(-0.5, 3)),
    *both("log2", _log(math.log2), lambda z: cmath.log(z) / math.log(2), one(0.1, 3)),
    *both("log10", _log(math.log10), cmath.log10, one(0.1, 3)),
    *binary("logaddexp", loop(_logaddexp), dtypes=REALS, grad=(0, 1), specials=True),
]

TRIGONOMETRY = [
    *both("sin", total(math.sin), cmath.sin),
    *both("cos", total(math.cos), cmath.cos),
    *both("tan", total(math.tan), cmath.tan, one(-1, 1)),
    *both("asin", total(math.asin), cmath.asin, one(*_BELOW_ONE)),
    *both("acos", total(math.acos), cmath.acos, one(*_BELOW_ONE)),
    *both("atan", total(math.atan), cmath.atan),
    *both("sinh", total(math.sinh), cmath.sinh),
    *both("cosh", total(math.cosh), cmath.cosh),
    *both("tanh", total(math.tanh), cmath.tanh),
    *both("asinh", total(math.asinh), cmath.asinh),
    *both("acosh", total(math.acosh), cmath.acosh, one(1.1, 3)),
    *both("atanh", _complex_to_infinity(math.atanh, {1: math.inf, -1: -math.inf}), cmath.atanh,
          one(*_BELOW_ONE)),
    *binary("atan2", loop(math.atan2), dtypes=REALS, grad=(0, 1), specials=True),
    OpCase("angle", one(), loop(lambda x: math.atan2(0, x), complex_=cmath.phase),
           dtypes=(*REALS, *COMPLEX, "int32"), grad=(0,), ops=("atan2",)),
    real("deg2rad", math.radians, one(-180, 180)),
    real("rad2deg", math.degrees),
]  # fmt: skip

SPECIAL = [
    real("erf", math.erf),
    real("erfc", math.erfc),
    real("erfinv", _mp(mpmath.erfinv), one(*_BELOW_ONE), specials=False),
    real("lgamma", _complex_to_infinity(math.lgamma, {0: math.inf, -1: math.inf}), one(0.2, 6)),
    real("lgamma", total(math.lgamma), one(-2.9, -2.1), specials=False, label="negative",
         dtypes=FLOATING),
    real("digamma", _mp(mpmath.digamma),
         one(0.2, 6), specials=False, ops=("polygamma",)),
    real("digamma", _mp(mpmath.digamma), one(-2.9, -2.1), specials=False, ops=("polygamma",),
         label="negative", tolerance=4, dtypes=FLOATING),
    OpCase("polygamma", lambda s: (2, s.array(0.5, 6)),
           lambda n, x: loop(_mp(lambda v: mpmath.polygamma(n, v)))(x), grad=(1,), dtypes=REALS),
    real("sigmoid", total(_sigmoid)),
    real("logit", lambda x: math.log(x / (1 - x)), one(0.1, 0.9), specials=False, ops=("log",)),
    *binary("xlogy", loop(_xlogy), two(-3, 3, (0.2, 3)), dtypes=REALS, grad=(0, 1), specials=True,
            ops=("log",)),
    *binary("xlog1py", loop(lambda x, y: _xlogy(x, 1 + y)), two(-3, 3, (-0.8, 2)), dtypes=REALS,
            grad=(0, 1), ops=("log1p",)),
    real("entr", lambda x: -_xlogy(x, x) if x >= 0 else -math.inf, one(0.1, 3), specials=False,
         ops=("log",)),
    real("sinc", _sinc, specials=False),
    real("sinc", _sinc, one(-0.4, 0.4), specials=False, label="near 0"),
]  # fmt: skip

PROBABILITY = [
    real("ndtr", _mp(mpmath.ncdf), specials=False, ops=("erfc",)),
    real("log_ndtr", _mp(lambda x: mpmath.log(mpmath.ncdf(x))), one(-30, 6), specials=False,
         ops=("erfc",)),
    real("ndtri", _mp(lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)), one(0.02, 0.98),
         specials=False),
    *binary("betaln", loop(_log_beta), two(0.3, 30), dtypes=REALS, grad=(0, 1), ops=("lgamma",)),
    *binary("gammainc", loop(_mp(lambda a, x: mpmath.gammainc(a, 0, x, regularized=True))),
            two(0.5, 6, (0.2, 9)), dtypes=REALS, grad=(1,)),
    *binary("gammaincc", loop(_mp(lambda a, x: mpmath.gammainc(a, x, regularized=True))),
            two(0.5, 6, (0.2, 9)), dtypes=REALS, grad=(1,)),
    *binary("zeta", loop(_mp(mpmath.zeta)), two(1.5, 5, (0.5, 4)), dtypes=REALS, grad=(1,)),
    *(real(f"i{n}", _mp(lambda x, n=n: mpmath.besseli(n, x)), one(-6, 6), specials=False)
      for n in (0, 1)),
    *(real(f"i{n}e", _mp(lambda x, n=n: mpmath.besseli(n, x) * mpmath.exp(-abs(x))), one(0.5, 40),
           specials=False) for n in (0, 1)),
]  # fmt: skip

CASES = POWERS + EXPONENTIALS + TRIGONOMETRY + SPECIAL + PROBABILITY
