"""Accuracy of the native functions, against float64 and against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import mpmath as mp
import numpy as np
import pytest

from eagerflow_kernels.native.calls import native_ufunc
from tests.kernels.native.compiling import TARGETS, needs_compiler

pytestmark = needs_compiler

Array = np.ndarray[Any, Any]


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


#: in float64, where NumPy's errors are nothing beside an ulp of float32
_REFERENCES: Final[dict[str, Callable[[Array], Array]]] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "sigmoid": _sigmoid
}  # fmt: skip
_EXACT: Final[dict[str, Callable[[Any], Any]]] = {
    "exp": mp.exp,
    "log": mp.log,
    "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
}
_LIMITS: Final = {"f32": 1.0, "f64": 1.0}


def _chunks(step: int) -> Iterator[Array]:
    """Every ``step``-th of all float32."""
    for first in range(0, 2**32, 2**24):
        yield np.arange(first, first + 2**24, step, dtype=np.uint32).view(np.float32)


def _check_f32(name: str, step: int) -> None:
    ufunc, reference = native_ufunc(name, "f32"), _REFERENCES[name]
    for x in _chunks(step):
        with np.errstate(all="ignore"):
            found, exact = ufunc(x), reference(x.astype(np.float64))
            nearest = exact.astype(np.float32)
        assert np.array_equal(np.isnan(found), np.isnan(exact))
        assert np.array_equal(np.isinf(found), np.isinf(nearest))
        finite = np.isfinite(nearest)
        unit = np.spacing(np.abs(nearest[finite])).astype(np.float64)
        error = np.abs(found[finite].astype(np.float64) - exact[finite]) / unit
        worst = int(np.argmax(error)) if error.size else -1
        assert worst < 0 or error[worst] <= _LIMITS["f32"], (name, x[finite][worst], error[worst])


@pytest.mark.parametrize("name", sorted(_REFERENCES))
def test_float32(name: str) -> None:
    _check_f32(name, 2**11 - 1)  # odd, so that low bits of all kinds occur


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(_REFERENCES))
def test_every_float32(name: str) -> None:
    _check_f32(name, 1)


def _points(name: str, count: int) -> Array:
    """Float64 of all exponents that matter, and where functions bend."""
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 2, count) * 2.0 ** rng.integers(-60, 10, count)
    x = np.concatenate([x, -x, rng.uniform(-3, 3, count), rng.uniform(-745, 709, count)])
    if name == "log":
        wide = rng.uniform(1, 2, count) * 2.0 ** rng.integers(-1022, 1023, count)
        x = np.concatenate([np.abs(x), wide, rng.uniform(0.5, 2, count), wide * 2.0**-52])
    return x


def _check_f64(name: str, count: int) -> None:
    x = _points(name, count)
    found = native_ufunc(name, "f64")(x)
    with mp.workprec(140):
        for at, y in zip(x.tolist(), found.tolist(), strict=True):
            exact = _EXACT[name](mp.mpf(at)) if at or name != "log" else -mp.inf
            nearest = float(exact)
            if math.isinf(nearest) or math.isinf(y):
                assert nearest == y
                continue
            error = abs(mp.mpf(y) - exact) / mp.mpf(math.ulp(nearest))
            assert error <= _LIMITS["f64"], (name, at, float(error))


@pytest.mark.parametrize("name", sorted(_EXACT))
def test_float64(name: str) -> None:
    _check_f64(name, 400)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(_EXACT))
def test_float64_at_length(name: str) -> None:
    _check_f64(name, 25000)


_INF: Final = math.inf
_TINY: Final = 5e-324


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("exp", [0.0, -0.0, _INF, -_INF, 1e308, -1e308, _TINY], [1, 1, _INF, 0, _INF, 0, 1]),
        ("log", [1.0, 0.0, -0.0, _INF, -1.0, -_INF], [0, -_INF, -_INF, _INF, math.nan, math.nan]),
        ("tanh", [0.0, -0.0, _INF, -_INF, _TINY, -1e308], [0, -0.0, 1, -1, _TINY, -1]),
        ("sigmoid", [0.0, _INF, -_INF, 1e308, -1e308], [0.5, 1, 0, 1, 0]),
        ("reciprocal", [0.0, -0.0, _INF, -_INF, 2.0], [_INF, -_INF, 0, -0.0, 0.5]),
        ("sqrt", [0.0, -0.0, _INF, -1.0, 4.0], [0, -0.0, _INF, math.nan, 2]),
    ],
)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("target", TARGETS)
def test_special_values(
    name: str, x: list[float], expected: list[float], kind: Any, target: Any
) -> None:
    dtype = np.float32 if kind == "f32" else np.float64
    with np.errstate(all="ignore"):
        given, wanted = np.array([*x, math.nan], dtype), np.array([*expected, math.nan], dtype)
    found = native_ufunc(name, kind, target=target)(given)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert (
        np.array_equal(np.signbit(found[:-1]), np.signbit(wanted[:-1]))
        or np.isnan(wanted[:-1]).any()
    )


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_what_is_even_or_odd(kind: Any) -> None:
    x = np.linspace(-30, 30, 4001).astype(np.float32 if kind == "f32" else np.float64)
    tanh = native_ufunc("tanh", kind)
    assert np.array_equal(tanh(-x), -tanh(x))
    assert (np.diff(tanh(x)) >= 0).all()
    assert (np.diff(native_ufunc("sigmoid", kind)(x)) >= 0).all()
