"""Finds the polynomials of the native kernels, by the exchange of Remez.

    python tools/minimax.py

prints the coefficients that `eagerflow_kernels.native.functions` has, each rounded to its dtype,
with the largest error of the rounded polynomial, relative to the function that it approximates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import mpmath as mp

Function = Callable[[mp.mpf], mp.mpf]
mp.mp.dps = 60


def minimax(f: Function, weight: Function, low: float, high: float, degree: int) -> list[mp.mpf]:
    """The polynomial p of a degree for which the largest |weight * (p - f)| is least."""
    count = degree + 2
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    points = [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]
    points = [x if abs(x) > half / 100 else x + half / 50 for x in points]  # weights may be 0 at 0
    coefficients: list[mp.mpf] = []
    for _ in range(30):
        rows = [
            [*(x**k for k in range(degree + 1)), (-1) ** i / weight(x)]
            for i, x in enumerate(points)
        ]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in points]))
        coefficients = list(solution)[:-1]
        error = partial(_error, coefficients, f, weight)
        extremes = _extremes(error, low, high, count)
        if (
            extremes is None
            or max(abs(a - b) for a, b in zip(extremes, points, strict=True)) < 1e-12
        ):
            break
        points = extremes
    return coefficients


def _value(coefficients: list[mp.mpf], x: mp.mpf) -> mp.mpf:
    return mp.polyval(coefficients[::-1], x)


def _error(coefficients: list[mp.mpf], f: Function, weight: Function, x: mp.mpf) -> mp.mpf:
    return weight(x) * (_value(coefficients, x) - f(x))


def _extremes(error: Function, low: float, high: float, count: int) -> list[mp.mpf] | None:
    """The points of largest error between its changes of sign; None if there are too few."""
    grid = [mp.mpf(low) + (mp.mpf(high) - low) * i / 4000 for i in range(4001)]
    grid = [x for x in grid if abs(x) > 1e-6]
    values = [error(x) for x in grid]
    runs: list[int] = []
    for i, v in enumerate(values):
        if runs and (values[runs[-1]] > 0) == (v > 0):
            runs[-1] = i if abs(v) > abs(values[runs[-1]]) else runs[-1]
        else:
            runs.append(i)
    while len(runs) > count:  # the smaller of the two ends goes
        runs.pop(0 if abs(values[runs[0]]) < abs(values[runs[-1]]) else -1)
    return [grid[i] for i in runs] if len(runs) == count else None


def show(
    name: str, kind: str, f: Function, weight: Function, low: float, high: float, degree: int
) -> None:
    """Print the coefficients, lowest power first."""
    exact = minimax(f, weight, low, high, degree)
    fmt = "<f" if kind == "f32" else "<d"
    rounded = [struct.unpack(fmt, struct.pack(fmt, float(c)))[0] for c in exact]
    points = [mp.mpf(low) + (mp.mpf(high) - low) * i / 2000 for i in range(2001)]
    worst = max(
        abs(weight(x) * (_value([mp.mpf(c) for c in rounded], x) - f(x)))
        for x in points
        if abs(x) > 1e-6
    )
    print(f"{name} {kind}: error {mp.nstr(worst, 3)}")
    for c in rounded:
        print(f"    {float(c).hex()},")


def _exp_rest(r: mp.mpf) -> mp.mpf:
    """(e**r - 1 - r - r**2 / 2) / r**3."""
    return (mp.expm1(r) - r - r**2 / 2) / r**3


def _log_rest(f: mp.mpf) -> mp.mpf:
    """(log(1 + f) - f + f**2 / 2) / f**3."""
    return (mp.log1p(f) - f + f**2 / 2) / f**3


def _erf_near(z: mp.mpf) -> mp.mpf:
    """erf(x) / x as a function of x**2."""
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z)


def _erf_far(t: mp.mpf) -> mp.mpf:
    """(1 + 2 x) exp(x**2) erfc(x) as a function of (x - 4) / (x + 4)."""
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _sin(z: mp.mpf) -> mp.mpf:
    """sin(x pi / 2) / x as a function of x**2."""
    return mp.sin(mp.sqrt(z) * mp.pi / 2) / mp.sqrt(z)


def _cos(z: mp.mpf) -> mp.mpf:
    """cos(x pi / 2) as a function of x**2."""
    return mp.cos(mp.sqrt(z) * mp.pi / 2)


def _atan(z: mp.mpf) -> mp.mpf:
    """atan(x) / x as a function of x**2."""
    return mp.atan(mp.sqrt(z)) / mp.sqrt(z)


def _tanh_rest(z: mp.mpf) -> mp.mpf:
    """(tanh(x) / x - 1) / z as a function of z = x**2."""
    x = mp.sqrt(z)
    return (mp.tanh(x) / x - 1) / z


def _tanh_weight(z: mp.mpf) -> mp.mpf:
    """The relative error of tanh for an error of `_tanh_rest`."""
    x = mp.sqrt(z)
    return z * x / mp.tanh(x)


def _erf_rest(z: mp.mpf) -> mp.mpf:
    """erf(x) / x - 1 as a function of x**2."""
    return _erf_near(z) - 1


def _erf_root(t: mp.mpf) -> mp.mpf:
    """The square root of 1 - erf(x) as a function of x - 1.625."""
    return mp.sqrt(mp.erfc(t + 1.625))


def _erf_root_weight(t: mp.mpf) -> mp.mpf:
    """The relative error of erf for an error of `_erf_root`."""
    return 2 * _erf_root(t) / mp.erf(t + 1.625)


def main() -> None:
    """Print the coefficients of all polynomials."""
    end = float(mp.log(2) / 2) * 1.01
    for kind, degree in (("f32", 3), ("f64", 9)):
        show("exp", kind, _exp_rest, lambda r: r**3 / abs(mp.expm1(r)), -end, end, degree)
    low, high = float(mp.sqrt(mp.mpf(1) / 2)) - 1, float(mp.sqrt(2)) - 1
    tiny = 2.0**-20
    for name, f, first, last, degree in (
        ("sin", _sin, tiny, 0.2501, 6), ("cos", _cos, tiny, 0.2501, 6),
        ("atan", _atan, tiny, 1.0, 14),
        ("erf", _erf_near, tiny, 1.0, 13), ("erfc", _erf_far, -1 + 1e-9, 0.75, 24),
    ):  # fmt: skip
        show(name, "f64", f, lambda x, f=f: 1 / f(x), first, last, degree)
    for kind, degree in (("f32", 6), ("f64", 15)):
        show("tanh", kind, _tanh_rest, _tanh_weight, tiny, 0.9765625**2, degree)
    show("erf", "f32", _erf_rest, lambda z: 1 / _erf_near(z), tiny, 1.0, 6)
    show("erf above", "f32", _erf_root, _erf_root_weight, 1.0 - 1.625, 3.9375 - 1.625, 11)
    show("log", "f32", _log_rest, lambda f: f**3 / mp.log1p(f), low, high, 7)


if __name__ == "__main__":
    main()
