"""Gradients against PyTorch's, where conventions could differ: complex numbers, ties, zeros."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef

pytestmark = pytest.mark.peer

Z = np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j])
X = np.array([0.0, -2.0, 2.0, 2.0])

COMPLEX = {
    "abs": lambda m, z: abs(z),
    "abs2": lambda m, z: abs(z) ** 2,
    "real": lambda m, z: (z * z).real,
    "imag": lambda m, z: (z * z * 1j).imag,
    "exp": lambda m, z: abs(m.exp(z * z)),
    "log": lambda m, z: m.log(z).real * z.imag,
    "sqrt": lambda m, z: m.sqrt(z).imag,
    "divide": lambda m, z: (1.0 / (z + 2.0)).real,
    "conj": lambda m, z: (z * m.conj(z) * z).imag,
    "power": lambda m, z: abs(z**3),
    "tanh": lambda m, z: abs(m.tanh(z)),
    "matmul": lambda m, z: abs(z.reshape(1, 3) @ (z * z).reshape(3, 1)),
    "fft": lambda m, z: abs(m.fft.fft(z)) ** 2,
    "prod": lambda m, z: m.prod(z).real,
    "cumprod": lambda m, z: (m.cumsum(z, 0) * z).real,
}

REAL = {
    "abs": lambda m, x: abs(x),
    "max": lambda m, x: x.max() if m is ef else m.amax(x),
    "sort": lambda m, x: (m.sort(x) if m is ef else m.sort(x).values)[1:],
    "sign": lambda m, x: m.sign(x) * x,
    "relu": lambda m, x: m.where(x > 0, x, 0.0 * x),
}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def theirs(torch, f, array: np.ndarray) -> np.ndarray:
    x = torch.tensor(array, requires_grad=True)
    f(torch, x).sum().backward()
    return x.grad.resolve_conj().numpy()


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients(torch, name: str) -> None:
    f = COMPLEX[name]
    ours = ef.grad(lambda z: f(ef, z).sum())(ef.tensor(Z)).numpy()
    np.testing.assert_allclose(ours, theirs(torch, f, Z), rtol=1e-10)


@pytest.mark.parametrize("name", REAL)
def test_ties_and_zeros(torch, name: str) -> None:
    f = REAL[name]
    ours = ef.grad(lambda x: f(ef, x).sum())(ef.tensor(X)).numpy()
    np.testing.assert_allclose(ours, theirs(torch, f, X), rtol=1e-10)


def test_real_arguments_of_complex_functions(torch) -> None:
    def f(m, x):
        z = m.fft.rfft(x) * (1 + 2j)
        return abs(z) ** 2 + z.real

    ours = ef.grad(lambda x: f(ef, x).sum())(ef.tensor(X)).numpy()
    np.testing.assert_allclose(ours, theirs(torch, f, X), rtol=1e-10)
