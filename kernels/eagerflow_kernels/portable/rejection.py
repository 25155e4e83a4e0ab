"""Kernels of draws by rejection: gamma and Poisson, from several streams of one key.

Element i of round r uses only its own words of 64 bits, so that a value depends neither on the
number of elements nor on the order in which they are made.
"""

from __future__ import annotations

import math
from typing import Any, Final

from eagerflow_kernels.portable.random import random_bits
from eagerflow_kernels.portable.special import lgamma
from eagerflow_kernels.table import Array, portable

Shape = tuple[int, ...]
#: rounds of rejection; fewer than one element in 10**60 is rejected in all, and takes the mode
_ROUNDS: Final = 64
#: the rate from which on Poisson draws are made by rejection
_LARGE: Final = 30.0


def _words(xp: Any, key: Array, shape: Shape, stream: int) -> Array:
    return random_bits(xp, key, shape=shape, dtype=xp.dtype("uint64"), stream=stream)


def _open_unit(xp: Any, key: Array, shape: Shape, stream: int) -> Array:
    """Numbers uniform on (0, 1]."""
    return (_words(xp, key, shape, stream).astype("float64") + 0.5) * 2.0**-64


def _normal(xp: Any, key: Array, shape: Shape, stream: int) -> Array:
    """Standard normal numbers, from the words of two streams."""
    radius = xp.sqrt(-2.0 * xp.log(_open_unit(xp, key, shape, stream)))
    angle = _words(xp, key, shape, stream + 1).astype("float64") * (2.0 * math.pi * 2.0**-64)
    return radius * xp.cos(angle)


@portable("random_gamma")
def random_gamma(xp: Any, key: Array, concentration: Array, *, shape: Shape, dtype: Any) -> Array:
    """Gamma draws of scale 1 (G. Marsaglia, W. Tsang, 2000); below 1 by a power of a uniform."""
    a = xp.broadcast_to(concentration.astype("float64"), shape)
    d = xp.where(a < 1.0, a + 1.0, a) - 1.0 / 3.0
    c = 1.0 / xp.sqrt(9.0 * d)
    values, still = d.copy(), xp.ones(shape, dtype=bool)
    for i in range(_ROUNDS):
        x = _normal(xp, key, shape, 1 + 3 * i)
        v = (1.0 + c * x) ** 3
        u = _open_unit(xp, key, shape, 3 + 3 * i)
        safe = xp.where(v > 0.0, v, 1.0)
        taken = (v > 0.0) & (xp.log(u) < 0.5 * x * x + d - d * safe + d * xp.log(safe))
        values = xp.where(still & taken, d * safe, values)
        still = still & ~taken
        if not bool(still.any()):
            break
    power = xp.where(a < 1.0, 1.0 / xp.where(a > 0.0, a, 1.0), 0.0)
    return (values * _open_unit(xp, key, shape, 0) ** power).astype(dtype.name)


@portable("random_poisson")
def random_poisson(xp: Any, key: Array, rate: Array, *, shape: Shape, dtype: Any) -> Array:
    """Poisson draws: by inversion for small rates, else by rejection (W. Hörmann, 1993)."""
    mean = xp.broadcast_to(rate.astype("float64"), shape)
    large = mean >= _LARGE
    values = _inverted(xp, key, xp.where(large, 0.0, mean), shape)
    if bool(large.any()):
        values = xp.where(large, _rejected(xp, key, xp.where(large, mean, _LARGE), shape), values)
    return values.astype(dtype.name)


def _inverted(xp: Any, key: Array, mean: Array, shape: Shape) -> Array:
    u = (_words(xp, key, shape, 0) >> 11).astype("float64") * 2.0**-53
    probability = xp.exp(-mean)
    total, values = probability.copy(), xp.zeros(shape)
    count = 0
    while bool((u >= total).any()) and count < 8 * _LARGE:
        count += 1
        values = values + (u >= total)
        probability = probability * mean / count
        total = total + probability
    return values


def _rejected(xp: Any, key: Array, mean: Array, shape: Shape) -> Array:
    b = 0.931 + 2.53 * xp.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    bound = 0.9277 - 3.6224 / (b - 2.0)
    values, still = xp.floor(mean), xp.ones(shape, dtype=bool)
    for i in range(_ROUNDS):
        u = _open_unit(xp, key, shape, 1 + 2 * i) - 0.5
        v = _open_unit(xp, key, shape, 2 + 2 * i)
        distance = xp.maximum(0.5 - xp.abs(u), 2.0**-64)
        k = xp.floor((2.0 * a / distance + b) * u + mean + 0.43)
        safe = xp.maximum(k, 0.0)
        below = xp.log(v * inverse_alpha / (a / (distance * distance) + b))
        exact = below <= safe * xp.log(mean) - mean - lgamma(xp, safe + 1.0)
        outside = (k < 0.0) | ((distance < 0.013) & (v > distance))
        taken = ((distance >= 0.07) & (v <= bound)) | (~outside & exact)
        values = xp.where(still & taken, k, values)
        still = still & ~taken
        if not bool(still.any()):
            break
    return values
