"""Accuracy of the portable kernels of special functions, which the CPU does not use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from eagerflow_kernels import table

_WIDE = np.concatenate([np.linspace(-6, 6, 61), [1e-8, -1e-3, 20.0, -20.0, 0.0]])
_INSIDE = np.concatenate([np.linspace(-0.95, 0.95, 39), [1e-9, 1 - 1e-10, -1 + 1e-14, 0.0]])
_GAMMA = np.concatenate([np.linspace(-9.7, 9.9, 50), [1e-3, 1.0, 2.0, 50.5, 1e4, -30.3]])

_PROBABILITIES = np.concatenate([np.linspace(0.02, 0.98, 49), [1e-12, 1e-5, 1 - 1e-9]])
_FAR = np.concatenate([np.linspace(-40, 40, 41), [1e-8, 29.99, 30.01, 700.0]])


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
    ("ndtri", _PROBABILITIES, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), {}),
    ("i0e", _FAR, lambda v: mpmath.besseli(0, v) * mpmath.exp(-abs(v)), {}),
    ("i1e", _FAR, lambda v: mpmath.besseli(1, v) * mpmath.exp(-abs(v)), {}),
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


_PAIRS: list[tuple[str, Any, Any, Callable[..., Any]]] = [
    (
        "gammainc", [0.1, 0.5, 3.0, 10.0, 300.0], [1e-3, 0.5, 3.9, 4.1, 11.0, 290.0, 330.0],
        lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
    ),
    (
        "gammaincc", [0.1, 0.5, 3.0, 10.0, 300.0], [1e-3, 0.5, 3.9, 4.1, 11.0, 290.0, 330.0],
        lambda a, x: mpmath.gammainc(a, x, regularized=True),
    ),
    ("zeta", [1.001, 1.5, 2.0, 5.0, 20.0], [0.01, 0.5, 1.0, 3.3, 20.0], mpmath.zeta),
]  # fmt: skip


@pytest.mark.parametrize(("name", "first", "second", "function"), _PAIRS, ids=lambda v: str(v)[:9])
def test_portable_kernel_of_two(name: str, first: Any, second: Any, function: Any) -> None:
    a, b = (x.ravel() for x in np.meshgrid(first, second))
    with mpmath.workdps(40):
        want = np.array(
            [float(function(mpmath.mpf(x), mpmath.mpf(y))) for x, y in zip(a, b, strict=True)]
        )
    kernel = table.portable_kernel(name)
    assert callable(kernel)
    with np.errstate(all="ignore"):
        portable = kernel(np, a, b)
    for got in (portable, getattr(ef, name)(ef.asarray(a), ef.asarray(b)).numpy()):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
def test_edges_are_those_of_the_cpu(name: str) -> None:
    values = [0.0, 0.5, 1.0, 2.0, math.inf, math.nan, -0.5, -2.0]
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    kernel = table.portable_kernel(name)
    assert callable(kernel)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            kernel(np, a, b), getattr(ef, name)(ef.asarray(a), ef.asarray(b)).numpy(), rtol=1e-13
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_logarithm_of_the_normal_distribution_far_out(dtype: str) -> None:
    x = np.array([-1e4, -40, -20.1, -19.9, -8.1, -7.9, -3, 0, 2.9, 8], dtype)
    want = _reference(lambda v: mpmath.log(mpmath.ncdf(v)), x)
    rtol = 1e-14 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(ef.log_ndtr(ef.asarray(x)).numpy(), want, rtol=rtol)
    slope = ef.grad(lambda v: ef.log_ndtr(v).sum())(ef.asarray(x)).numpy()
    assert np.all(np.isfinite(slope))


def test_the_beta_function_of_large_numbers() -> None:
    a, b = np.meshgrid([1e-5, 1.0, 9.99, 10.01, 1e6], [0.3, 9.99, 10.01, 1e8, 1e14])
    with mpmath.workdps(60):
        want = np.vectorize(lambda x, y: float(mpmath.log(mpmath.beta(x, y))))(a, b)
    got = ef.betaln(ef.asarray(a), ef.asarray(b)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


def test_a_derivative_that_there_is_not_is_refused() -> None:
    with pytest.raises(GradientError, match="gammainc: there is no derivative by its first"):
        ef.grad(lambda a: ef.gammainc(a, 2.0))(ef.tensor(1.0))
