"""Accuracy of the native functions: in float64 against mpmath, and of two numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import mpmath as mp
import numpy as np
import pytest

from eagerflow_kernels.native.callable_ops import native_ufunc
from tests.kernels.native.compiling import TARGETS, needs_compiler

pytestmark = needs_compiler

Array = np.ndarray[Any, Any]


#: exact formulas
_EXACT: Final[dict[str, Callable[[Any], Any]]] = {
    "exp": mp.exp,
    "log": mp.log,
    "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "expm1": mp.expm1,
    "log1p": mp.log1p,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "cosh": mp.cosh,
    "exp2": lambda x: mp.power(2, x),
    "log2": lambda x: mp.log(x, 2),
}
#: error limits in units in the last place; 2 for all other functions
_LIMIT: Final = dict.fromkeys(("exp", "log", "tanh", "sigmoid"), 1.0)


def _points(name: str, count: int) -> Array:
    """Float64 of all relevant exponents, and around the bends of a function."""
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 2, count) * 2.0 ** rng.integers(-60, 10, count)
    x = np.concatenate([x, -x, rng.uniform(-3, 3, count), rng.uniform(-745, 709, count)])
    if name == "log1p":
        x = np.abs(x)
        x = np.concatenate([x, -rng.uniform(0, 1, count)])
    if name in ("log", "log2"):
        wide = rng.uniform(1, 2, count) * 2.0 ** rng.integers(-1022, 1023, count)
        x = np.concatenate([np.abs(x), wide, rng.uniform(0.5, 2, count), wide * 2.0**-52])
    return x


def _check_f64(name: str, count: int) -> None:
    x = _points(name, count)
    values = native_ufunc(name, "f64")(x)
    with mp.workprec(140):
        for at, y in zip(x.tolist(), values.tolist(), strict=True):
            exact = _EXACT[name](mp.mpf(at)) if at or name not in ("log", "log2") else -mp.inf
            nearest = float(exact)
            if math.isinf(nearest) or math.isinf(y):
                assert nearest == y
                continue
            error = abs(mp.mpf(y) - exact) / mp.mpf(math.ulp(nearest))
            assert error <= _LIMIT.get(name, 2.0), (name, at, float(error))


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
        ("expm1", [0.0, -0.0, _INF, -_INF, _TINY], [0, -0.0, _INF, -1, _TINY]),
        ("log1p", [0.0, -0.0, _INF, -1.0, -2.0], [0, -0.0, _INF, -_INF, math.nan]),
        ("erf", [0.0, -0.0, _INF, -_INF, 30.0], [0, -0.0, 1, -1, 1]),
        ("erfc", [0.0, _INF, -_INF, 30.0], [1, 0, 2, 0]),
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
    values = native_ufunc(name, kind, target=target)(given)
    assert np.array_equal(values, wanted, equal_nan=True)
    assert (
        np.array_equal(np.signbit(values[:-1]), np.signbit(wanted[:-1]))
        or np.isnan(wanted[:-1]).any()
    )


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_what_is_even_or_odd(kind: Any) -> None:
    x = np.linspace(-30, 30, 4001).astype(np.float32 if kind == "f32" else np.float64)
    tanh = native_ufunc("tanh", kind)
    assert np.array_equal(tanh(-x), -tanh(x))
    assert (np.diff(tanh(x)) >= 0).all()
    assert (np.diff(native_ufunc("sigmoid", kind)(x)) >= 0).all()


def test_powers_of_special_values() -> None:
    x = np.array([0, -0.0, 1, -1, 2, -2, _INF, -_INF, math.nan, 0.5, -0.5, 3, 1e-40], np.float32)
    powers = native_ufunc("pow", "f32", "f32")(x[:, None], x)
    with np.errstate(all="ignore"):
        expected = np.power(x[:, None].astype(np.float64), x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(powers, expected, equal_nan=True)
    signs = np.isnan(expected) | (np.signbit(powers) == np.signbit(expected))
    assert signs.all()


def test_powers() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 30, (2, 20000)).astype(np.float32)
    y = np.where(y < 15, y, 8 - y)
    power = native_ufunc("pow", "f32", "f32")
    exact = np.power(x.astype(np.float64), y.astype(np.float64))
    error = np.abs(power(x, y) - exact) / np.spacing(exact.astype(np.float32))
    assert error.max() < 0.51
    assert np.array_equal(power(x, np.float32(2)), native_ufunc("square", "f32")(x))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_gelu_by_erf(kind: Any, dtype: Any, order: int) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-12, 8, 150), rng.uniform(-1e-3, 1e-3, 50)]).astype(dtype)
    values = native_ufunc("gelu", kind, approximate="none", order=order)(x)
    with mp.workprec(140):
        for at, y in zip(x.tolist(), values.tolist(), strict=True):
            z = mp.mpf(at)
            below = mp.erfc(-z / mp.sqrt(2)) / 2
            slope = z * mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)
            exact = below + slope if order else z * below
            size = max(abs(exact), abs(slope)) if order else abs(exact)  # terms may cancel
            unit = np.spacing(dtype(float(size)))
            assert abs(mp.mpf(y) - exact) <= 2 * mp.mpf(float(unit)), (at, y)
    big = native_ufunc("gelu", kind, approximate="none", order=order)(
        np.array([0.0, 50.0, -50.0, math.nan], dtype)
    )
    expected = [0.5, 1, 0, math.nan] if order else [0, 50, 0, math.nan]
    assert np.array_equal(big, np.array(expected, dtype), equal_nan=True)


_AXIS: Final = np.array(
    [0, -0.0, 1, -1, 2, -2, _INF, -_INF, math.nan, 0.5, -0.75, 3e38, 1e-40, -1e-45], np.float32
)


@pytest.mark.parametrize(
    ("name", "reference"), [("atan2", np.arctan2), ("hypot", np.hypot), ("logaddexp", np.logaddexp)]
)
def test_of_two_numbers(name: str, reference: Any) -> None:
    """Results are rounded once, with C's values for zeros, infinities and NaN."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 5000)) * 10.0 ** rng.integers(-30, 30, (2, 5000))).astype("f4")
    x, y = np.concatenate([x, np.repeat(_AXIS, 14)]), np.concatenate([y, np.tile(_AXIS, 14)])
    values = native_ufunc(name, "f32", "f32")(x, y)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64), y.astype(np.float64))
        nearest = exact.astype(np.float32)
    assert np.array_equal(np.isnan(values), np.isnan(exact))
    finite = np.isfinite(nearest)
    assert np.array_equal(values[~finite], nearest[~finite], equal_nan=True)
    unit = np.spacing(np.abs(nearest[finite])).astype(np.float64)
    assert (np.abs(values[finite] - exact[finite]) <= 0.51 * unit).all()
    assert np.array_equal(np.signbit(values[finite]), np.signbit(nearest[finite]))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("clip", 3), ("clip_min", 2), ("clip_max", 2), ("sign", 1), ("copysign", 2),
     ("isnan", 1), ("isinf", 1), ("isfinite", 1), ("logical_xor", 2)],
)  # fmt: skip
def test_what_only_chooses_is_that_of_numpy(name: str, arguments: int) -> None:
    portable: dict[str, Any] = {"clip_min": np.maximum, "clip_max": np.minimum}
    x, *others = (np.roll(np.tile(_AXIS, 9), k * k) for k in range(arguments))
    expected = portable.get(name, getattr(np, name, None))(x, *others)
    values = native_ufunc(name, *["f32"] * arguments)(x, *others)
    assert np.array_equal(values, expected, equal_nan=values.dtype.kind == "f")


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_powers_of_two_are_exact(kind: Any, dtype: Any) -> None:
    least = -149 if kind == "f32" else -1074
    k = np.arange(least - 2, -least, dtype=dtype)
    with np.errstate(all="ignore"):
        x = np.ldexp(dtype(1), k.astype(int))
    assert np.array_equal(native_ufunc("exp2", kind)(k), x)
    held = np.isfinite(x) & (x > 0)
    assert np.array_equal(native_ufunc("log2", kind)(x[held]), k[held])
    ends = np.array([0.0, -0.0, -1.0, _INF, math.nan], dtype)
    logarithms = native_ufunc("log2", kind)(ends)
    assert np.array_equal(logarithms, [-_INF, -_INF, math.nan, _INF, math.nan], equal_nan=True)
