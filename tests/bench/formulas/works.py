"""The formulas, over the functions of any library, and their data.

They are written as for NumPy: no library gets a form that suits it better than the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

__all__ = ["WORKS", "Library", "Work"]

_RATE, _VOLATILITY = 0.05, 0.2
_DIFFUSION, _HEAT_STEPS = 0.1, 10
_SOFTENING, _TIME_STEP = 0.01, 1e-3
_CLUSTERS = 16


@final
@dataclass(frozen=True)
class Library:
    """The functions of a library that the formulas need.

    Attributes:
        xp: its functions under the names of NumPy's.
        erf: the error function.
        segment_sum: ``segment_sum(values, ids, count)``.
        repeat: ``repeat(count, f, x)`` applies f to x, count times over.
    """

    xp: Any
    erf: Callable[[Any], Any]
    segment_sum: Callable[[Any, Any, int], Any]
    repeat: Callable[[int, Callable[[Any], Any], Any], Any]


@final
@dataclass(frozen=True)
class Work:
    """A formula with its data and sizes.

    Attributes:
        data: ``data(rng, size)`` makes its arrays, float32.
        of: ``of(library)`` is the function of these arrays; it gives a tuple of arrays.
        sizes: the sizes that are measured, and the smallest one.
    """

    data: Callable[[np.random.Generator, int], tuple[np.ndarray[Any, Any], ...]]
    of: Callable[[Library], Callable[..., tuple[Any, ...]]]
    sizes: tuple[int, ...]


def _options(rng: np.random.Generator, size: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Price, strike and years of options."""
    bounds = (10.0, 200.0), (10.0, 200.0), (0.1, 2.0)
    return tuple(rng.uniform(low, high, size).astype("f4") for low, high in bounds)


def _black_scholes(library: Library) -> Callable[..., tuple[Any, ...]]:
    """The values of calls and puts by Black and Scholes."""
    xp, erf = library.xp, library.erf

    def normal(x: Any) -> Any:
        return 0.5 + 0.5 * erf(x * 0.5**0.5)

    def work(price: Any, strike: Any, years: Any) -> tuple[Any, ...]:
        spread = _VOLATILITY * xp.sqrt(years)
        first = (xp.log(price / strike) + (_RATE + _VOLATILITY**2 / 2) * years) / spread
        paid = strike * xp.exp(-_RATE * years)
        call = price * normal(first) - paid * normal(first - spread)
        return call, call - price + paid

    return work


def _plate(rng: np.random.Generator, size: int) -> tuple[np.ndarray[Any, Any], ...]:
    return (rng.uniform(0, 1, (size, size)).astype("f4"),)


def _heat(library: Library) -> Callable[..., tuple[Any, ...]]:
    """Steps of the heat equation on a square whose border is cold."""
    xp = library.xp

    def step(u: Any) -> Any:
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        inside = u[1:-1, 1:-1] + _DIFFUSION * (around - 4 * u[1:-1, 1:-1])
        return xp.pad(inside, 1)

    return lambda u: (library.repeat(_HEAT_STEPS, step, u),)


def _bodies(rng: np.random.Generator, size: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Positions, velocities and masses of bodies."""
    places, speeds = (rng.normal(size=(3, size)).astype("f4") for _ in range(2))
    return places, speeds, rng.uniform(0.1, 1, size).astype("f4")


def _n_body(library: Library) -> Callable[..., tuple[Any, ...]]:
    """A time step of bodies that attract each other."""
    xp = library.xp

    def work(places: Any, speeds: Any, masses: Any) -> tuple[Any, ...]:
        x, y, z = (places[i][None, :] - places[i][:, None] for i in range(3))
        squared = x * x + y * y + z * z + _SOFTENING
        pull = masses[None, :] / (squared * xp.sqrt(squared))
        forces = [xp.sum(pull * d, axis=1) for d in (x, y, z)]
        speeds = speeds + _TIME_STEP * xp.stack(forces)
        return places + _TIME_STEP * speeds, speeds

    return work


def _points(rng: np.random.Generator, size: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Points in eight dimensions, and initial centres."""
    points = rng.normal(size=(size, 8)).astype("f4")
    return points, points[:_CLUSTERS].copy()


def _k_means(library: Library) -> Callable[..., tuple[Any, ...]]:
    """One iteration of Lloyd's algorithm."""
    xp = library.xp

    def work(points: Any, centres: Any) -> tuple[Any, ...]:
        distances = xp.sum(centres * centres, axis=1) - 2 * (points @ centres.T)
        nearest = xp.argmin(distances, axis=1)
        totals = library.segment_sum(points, nearest, _CLUSTERS)
        counts = library.segment_sum(xp.ones_like(points[:, 0]), nearest, _CLUSTERS)
        return (totals / xp.maximum(counts, 1.0)[:, None],)

    return work


WORKS = {
    "Black-Scholes": Work(_options, _black_scholes, (1_000_000, 100)),
    "heat equation": Work(_plate, _heat, (512, 16)),
    "n-body": Work(_bodies, _n_body, (1024, 16)),
    "k-means": Work(_points, _k_means, (100_000, 64)),
}
