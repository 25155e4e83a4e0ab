"""Activations far from 0, where results are small and squares are large."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError
from eagerflow.nn import functional as F

ENDS = [300.0, -300.0]


def _slopes(f: Any, x: ef.Tensor, order: int = 1) -> Any:
    for _ in range(order):
        f = ef.grad(lambda x, f=f: f(x).sum())
    return f(x)


@pytest.mark.parametrize("dtype", [ef.float16, ef.bfloat16, ef.float32, ef.float64])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_far_out(dtype: Any, approximate: Any) -> None:
    ends = ENDS if dtype is ef.float16 else [*ENDS, 1e30, -1e30]
    x = ef.tensor(ends, dtype=dtype)
    half = len(ends) // 2
    np.testing.assert_array_equal(F.gelu(x, approximate), ef.where(x > 0, x, 0))
    np.testing.assert_array_equal(_slopes(lambda x: F.gelu(x, approximate), x), [1, 0] * half)
    np.testing.assert_array_equal(_slopes(lambda x: F.gelu(x, approximate), x, 2), [0] * 2 * half)


def test_gelu_keeps_its_digits_in_float32() -> None:
    x = np.linspace(-5, 8, 500, dtype=np.float32)
    want = [float(v * mpmath.ncdf(v)) for v in x.tolist()]
    slope = [float(mpmath.ncdf(v) + v * mpmath.npdf(v)) for v in x.tolist()]
    np.testing.assert_allclose(F.gelu(ef.tensor(x)).numpy(), want, rtol=1.2e-6)
    got = _slopes(F.gelu, ef.tensor(x)).numpy()
    np.testing.assert_allclose(got, slope, rtol=1e-6, atol=4e-7)
    tail = np.linspace(-13, -5, 100, dtype=np.float32)  # exp(-x**2 / 2) itself has such errors
    want = [float(v * mpmath.ncdf(v)) for v in tail.tolist()]
    np.testing.assert_allclose(F.gelu(ef.tensor(tail)).numpy(), want, rtol=6e-6)


@pytest.mark.parametrize("size", [16383, 16384, 16385, 40000])
def test_gelu_of_large_arrays(size: int) -> None:
    x = np.random.default_rng(size).normal(size=(2, size)).astype(np.float32)[:, ::2]
    want = F.gelu(ef.tensor(x.astype(np.float64))).numpy()
    np.testing.assert_allclose(F.gelu(ef.tensor(x)).numpy(), want, rtol=2e-6, atol=1e-12)


def test_slopes_of_exponentials_do_not_cancel() -> None:
    x = ef.tensor([-18.0, 0.0, 2.0])
    low = float(np.exp(-18))
    np.testing.assert_allclose(_slopes(F.elu, x).numpy(), [low, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(_slopes(F.celu, x).numpy(), [low, 1, 1], rtol=1e-6)
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    want = [low * alpha * scale, alpha * scale, scale]
    np.testing.assert_allclose(_slopes(F.selu, x).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(_slopes(ef.expm1, x[:1]).numpy(), [low], rtol=1e-6)
    np.testing.assert_allclose(_slopes(F.elu, x[:1], 2).numpy(), [low], rtol=1e-6)


@pytest.mark.parametrize("name", ["softsign", "mish", "layer_norm", "rms_norm", "normalize"])
def test_complex_inputs(name: str) -> None:
    x = ef.tensor([[1j, 2.0]])
    more = (2,) if name.endswith("_norm") else ()
    with pytest.raises(DTypeError, match=f"{name}: the input is complex(.|\n)*ef.abs"):
        getattr(F, name)(x, *more)
