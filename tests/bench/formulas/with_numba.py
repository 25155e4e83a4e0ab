"""The formulas by Numba as its users write them, loops over elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from tests.bench.formulas.works import WORKS

__all__ = ["step_of"]

_parallel = numba.njit(parallel=True, error_model="numpy")


@_parallel
def _black_scholes(price: Any, strike: Any, years: Any) -> Any:
    calls, puts = np.empty_like(price), np.empty_like(price)
    half, one, root = np.float32(0.5), np.float32(0.2), np.float32(0.5**0.5)
    for i in numba.prange(price.size):
        spread = one * math.sqrt(years[i])
        first = (math.log(price[i] / strike[i]) + np.float32(0.07) * years[i]) / spread
        paid = strike[i] * math.exp(np.float32(-0.05) * years[i])
        up = half + half * math.erf(first * root)
        down = half + half * math.erf((first - spread) * root)
        calls[i] = price[i] * up - paid * down
        puts[i] = calls[i] - price[i] + paid
    return calls, puts


@_parallel
def _heat_step(u: Any) -> Any:
    rows, columns = u.shape
    share, four = np.float32(0.1), np.float32(4)
    made = np.zeros((rows, columns), np.float32)
    for i in numba.prange(1, rows - 1):
        for j in range(1, columns - 1):
            around = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]
            made[i, j] = u[i, j] + share * (around - four * u[i, j])
    return made


def _heat(u: Any) -> Any:
    for _ in range(10):
        u = _heat_step(u)
    return (u,)


@_parallel
def _n_body(places: Any, speeds: Any, masses: Any) -> Any:
    count = masses.size
    moved, faster = np.empty_like(places), np.empty_like(speeds)
    soft, time = np.float32(0.01), np.float32(1e-3)
    for i in numba.prange(count):
        fx = fy = fz = np.float32(0)
        for j in range(count):
            x = places[0, j] - places[0, i]
            y = places[1, j] - places[1, i]
            z = places[2, j] - places[2, i]
            squared = x * x + y * y + z * z + soft
            pull = masses[j] / (squared * math.sqrt(squared))
            fx, fy, fz = fx + pull * x, fy + pull * y, fz + pull * z
        faster[0, i] = speeds[0, i] + time * fx
        faster[1, i] = speeds[1, i] + time * fy
        faster[2, i] = speeds[2, i] + time * fz
        for k in range(3):
            moved[k, i] = places[k, i] + time * faster[k, i]
    return moved, faster


@_parallel
def _k_means(points: Any, centres: Any) -> Any:
    clusters, size = centres.shape
    nearest = np.empty(len(points), np.int64)
    for i in numba.prange(len(points)):
        best = np.float32(np.inf)
        for k in range(clusters):
            distance = np.float32(0)
            for d in range(size):
                distance += (points[i, d] - centres[k, d]) ** 2
            if distance < best:
                best, nearest[i] = distance, k
    totals, counts = np.zeros_like(centres), np.zeros(clusters, np.float32)
    for i in range(len(points)):
        k = nearest[i]
        counts[k] += np.float32(1)
        for d in range(size):
            totals[k, d] += points[i, d]
    for k in range(clusters):
        for d in range(size):
            totals[k, d] /= max(counts[k], np.float32(1))
    return (totals,)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Black-Scholes": _black_scholes, "heat equation": _heat, "n-body": _n_body, "k-means": _k_means,
}  # fmt: skip


def step_of(name: str, size: int) -> Callable[[], Any]:
    """A call of a formula on data of its own."""
    given = WORKS[name].data(np.random.default_rng(0), size)
    run = _FUNCTIONS[name]
    return lambda: run(*given)
