"""Kernels of quantiles. They compute in float64 and round once."""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.portable.special import in_float64, polynomial
from eagerflow_kernels.table import Array

# M. J. Wichura, Algorithm AS 241: The Percentage Points of the Normal Distribution (1988);
# numerators and denominators, highest powers first
_CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
_TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
     4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
     2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
     5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _quotient(polynomials: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    above, below = polynomials
    return polynomial(above, x) / polynomial(below, x)


@in_float64("ndtri")
def ndtri(xp: Any, x: Array) -> Array:
    """The quantile of the standard normal distribution."""
    inside = (x > 0) & (x < 1)
    p = xp.where(inside, x, 0.5)
    q = p - 0.5
    central = q * _quotient(_CENTRE, 0.180625 - xp.minimum(q * q, 0.180625))
    r = xp.sqrt(-xp.log(xp.minimum(p, 1 - p)))
    near = xp.minimum(r, 5.0)
    tail = xp.where(r <= 5, _quotient(_TAIL, near - 1.6), _quotient(_FAR_TAIL, r - 5.0))
    value = xp.where(xp.abs(q) <= 0.425, central, xp.copysign(tail, q))
    edge = xp.where(x == 0, -math.inf, xp.where(x == 1, math.inf, math.nan))
    return xp.where(inside, value, edge)
