"""Complex gradients, as PyTorch has them: of a real loss, ``p - rate * g`` descends."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef

Z = ef.tensor([1 + 2j, 3 - 1j], dtype=ef.complex128)
X = ef.tensor([0.5, 2.0], dtype=ef.float64)


def test_the_gradient_is_conjugate() -> None:
    gradient = ef.grad(lambda z: (abs(z) ** 2).sum())(Z)
    np.testing.assert_allclose(gradient.numpy(), 2 * Z.numpy(), rtol=1e-12)
    gradient = ef.grad(lambda z: (z * z).sum().real)(Z)
    np.testing.assert_allclose(gradient.numpy(), 2 * np.conj(Z.numpy()), rtol=1e-12)
    gradient = ef.grad(lambda z: z.sum().imag)(Z)
    np.testing.assert_array_equal(gradient.numpy(), [1j, 1j])


def test_a_step_against_the_gradient_descends() -> None:
    def loss(z):
        return (abs(ef.exp(z) - 2.0) ** 2).sum()

    z = Z * 0.1
    for _ in range(5):
        value, gradient = ef.value_and_grad(loss)(z)
        z = z - 0.02 * gradient
        assert float(loss(z)) < float(value)


def test_holomorphic_functions_pull_by_the_conjugate() -> None:
    _, pull = ef.vjp(ef.exp, Z)
    c = ef.tensor([1 - 1j, 2j], dtype=ef.complex128)
    np.testing.assert_allclose(pull(c)[0].numpy(), c.numpy() * np.conj(np.exp(Z.numpy())))
    _, tangent = ef.jvp(ef.exp, (Z,), (c,))
    np.testing.assert_allclose(tangent.numpy(), c.numpy() * np.exp(Z.numpy()))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: abs(x * Z) ** 2,
        lambda x: (x * Z * Z).imag,
        lambda x: (ef.astype(x, ef.complex128) ** 2 * 1j + x).real,
        lambda x: abs(ef.fft.fft(x)) ** 2,
        lambda x: abs(ef.fft.rfft(x)) ** 2,
        lambda x: ef.where(x > 1, x * 1j, Z).imag,
    ],
)
def test_a_real_argument_of_a_complex_way_has_a_real_gradient(f) -> None:
    gradient = ef.grad(lambda x: f(x).sum())(X)
    assert gradient.type == X.type
    ef.check_grads(f, (X,))


def test_a_real_variable_under_an_outer_tape() -> None:
    w = ef.Variable([1.0, 2.0], dtype=ef.float64)
    gradient = ef.grad(lambda: (abs(w * Z) ** 2).sum(), wrt=w)()
    assert gradient.dtype is ef.float64
    np.testing.assert_allclose(gradient.numpy(), 2 * w.numpy() * abs(Z.numpy()) ** 2)


def test_second_derivatives() -> None:
    def slope(z):
        return ef.grad(lambda z: (abs(z) ** 4).sum())(z)

    np.testing.assert_allclose(slope(Z).numpy(), 4 * Z.numpy() * abs(Z.numpy()) ** 2)
    ef.check_grads(lambda z: abs(ef.sin(z)) ** 2 * z, (Z,), order=2)


def test_complex_to_real_to_complex() -> None:
    ef.check_grads(lambda z: z.real * z.imag + z * ef.conj(z) * 1j, (Z,), order=3)


def test_a_zero_is_no_hindrance() -> None:
    z = ef.tensor([0j, 1 + 0j])
    np.testing.assert_array_equal(ef.grad(lambda z: abs(z).sum())(z).numpy(), [0, 1])
