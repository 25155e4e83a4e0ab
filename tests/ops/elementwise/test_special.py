"""The portable kernels of special functions, which the CPU does not use, and their accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import eagerflow as ef
from eagerflow_kernels import table

_WIDE = np.concatenate([np.linspace(-6, 6, 61), [1e-8, -1e-3, 20.0, -20.0, 0.0]])
_INSIDE = np.concatenate([np.linspace(-0.95, 0.95, 39), [1e-9, 1 - 1e-10, -1 + 1e-14, 0.0]])
_GAMMA = np.concatenate([np.linspace(-9.7, 9.9, 50), [1e-3, 1.0, 2.0, 50.5, 1e4, -30.3]])


def _reference(function: Callable[..., Any], x: Any) -> Any:
    with mpmath.workdps(40):
        return np.array([float(function(mpmath.mpf(v))) for v in x.tolist()])


def _log_gamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


CASES: list[tuple[str, Any, Callable[..., Any], dict[str, Any]]] = [
    ("erf", _WIDE, mpmath.erf, {}),
    ("erfc", _WIDE, mpmath.erfc, {}),
    ("erfinv", _INSIDE, mpmath.erfinv, {}),
    ("lgamma", _GAMMA, _log_gamma, {}),
    *(("polygamma", _GAMMA, lambda v, n=n: mpmath.polygamma(n, v), {"n": n}) for n in range(4)),
    ("sigmoid", _WIDE, lambda v: 1 / (1 + mpmath.exp(-v)), {}),
    ("sinc", _WIDE, mpmath.sincpi, {}),
]


@pytest.mark.parametrize(("name", "x", "function", "attrs"), CASES, ids=lambda v: str(v)[:12])
def test_portable_kernel(name: str, x: Any, function: Any, attrs: dict[str, Any]) -> None:
    kernel = table.portable_kernel(name)
    assert callable(kernel)
    want = _reference(function, x)
    with np.errstate(all="ignore"):
        got = kernel(np, x, **attrs)
    # near their zeros these functions are right up to the rounding of x, not of the result
    np.testing.assert_array_less(np.abs(got - want), 1e-14 * np.maximum(np.abs(want), 1) + 1e-300)


@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv"])
def test_error_functions_to_a_few_units_in_the_last_place(name: str) -> None:
    x = _INSIDE if name == "erfinv" else _WIDE
    want = _reference(getattr(mpmath, name), x)
    kernel = table.portable_kernel(name)
    assert callable(kernel)
    with np.errstate(all="ignore"):
        portable = kernel(np, x)
    for got in (portable, getattr(ef, name)(ef.asarray(x)).numpy()):
        np.testing.assert_array_less(np.abs(got - want), 16 * np.spacing(np.abs(want)) + 1e-300)


@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma", "digamma", "sigmoid"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_low_precision_is_the_rounded_result(name: str, dtype: str) -> None:
    x = ef.tensor([0.3, 1.7, 2.9, 4.4], dtype=dtype)
    function = getattr(ef, name)
    got, want = function(x), ef.astype(function(ef.astype(x, ef.float64)), dtype)
    assert got.dtype is want.dtype
    tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-6}[dtype]
    np.testing.assert_allclose(
        got.numpy().astype(float), want.numpy().astype(float), rtol=tolerance
    )


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("erf", [-math.inf, math.inf, math.nan], [-1, 1, math.nan]),
        ("erfc", [-math.inf, math.inf, math.nan], [2, 0, math.nan]),
        ("erfinv", [-1.0, 1.0, 2.0, math.nan], [-math.inf, math.inf, math.nan, math.nan]),
        ("lgamma", [0.0, -2.0, math.inf, -math.inf], [math.inf] * 4),
        ("sigmoid", [-math.inf, math.inf, math.nan], [0, 1, math.nan]),
    ],
)
def test_edges(name: str, x: list[float], expected: list[float]) -> None:
    kernel = table.portable_kernel(name)
    assert callable(kernel)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernel(np, np.array(x)), expected)
        np.testing.assert_array_equal(getattr(ef, name)(ef.tensor(x)).numpy(), expected)


def test_poles_of_polygamma() -> None:
    kernel = table.portable_kernel("polygamma")
    assert callable(kernel)
    poles = np.array([0.0, -1.0, -5.0])
    with np.errstate(all="ignore"):
        assert kernel(np, poles, n=1).tolist() == [math.inf] * 3
        assert kernel(np, poles, n=0)[0] == -math.inf
        assert kernel(np, np.array([math.inf]), n=0)[0] == math.inf
        assert kernel(np, np.array([math.inf]), n=1)[0] == 0


def test_sigmoid_does_not_overflow() -> None:
    x = ef.tensor([-1000.0, -100.0, 100.0, 1000.0])
    np.testing.assert_allclose(ef.sigmoid(x).numpy(), [0, 0, 1, 1], atol=1e-30)


def test_sigmoid_of_large_numbers_does_not_warn() -> None:
    for shape in ((), (4,)):
        for value, want in ((-1e4, 0.0), (1e4, 1.0), (-math.inf, 0.0), (math.inf, 1.0)):
            got = ef.sigmoid(ef.full(shape, value))
            assert got.shape == shape
            assert bool(ef.all(got == want))
