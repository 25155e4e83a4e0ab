"""Gradients of matrices lie in memory as the matrices do; derivatives of them are in the table."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef


def _arrays(order: str) -> tuple[ef.Tensor, np.ndarray]:
    rng = np.random.default_rng(3)
    w = np.asarray(rng.normal(size=(3, 4)).astype("f4"), order=order)
    return ef.tensor(rng.normal(size=(5, 4)).astype("f4")), w


@pytest.mark.parametrize("traced", [False, True])
def test_the_gradient_of_a_matrix_that_is_transposed(traced: bool) -> None:
    x, w = _arrays("C")
    v = ef.Variable(w)
    gradient = ef.grad(lambda x: ef.sum(ef.tanh(x @ v.value.mT)), wrt=v)
    found = (ef.trace(gradient) if traced else gradient)(x)
    assert found.numpy().flags.c_contiguous
    slope = 1 - np.tanh(x.numpy() @ w.T) ** 2
    np.testing.assert_allclose(found.numpy(), slope.T @ x.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_gradient_of_a_matrix(order: str) -> None:
    x, w = _arrays(order)
    found = ef.grad(lambda w: ef.sum(ef.square(x @ w)))(ef.asarray(w).mT)
    assert found.numpy().flags.c_contiguous == (order == "F")
    want = 2 * x.numpy().T @ (x.numpy() @ w.T)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-5)


def test_the_same_bits_eagerly_and_traced() -> None:
    x, w = _arrays("C")
    v = ef.Variable(w)

    def second(x: ef.Tensor) -> ef.Tensor:
        def first(x: ef.Tensor) -> ef.Tensor:
            return ef.sum(ef.square(ef.grad(lambda x: ef.sum(ef.tanh(x @ v.value.mT)), wrt=v)(x)))

        return ef.grad(first)(x)

    assert np.array_equal(second(x).numpy(), ef.trace(second)(x).numpy())


def test_jvp_of_the_gradient() -> None:
    x, w = _arrays("C")
    start, tangent = ef.tensor(w), ef.tensor(np.ones_like(w))

    def gradient(w: ef.Tensor) -> ef.Tensor:
        return ef.grad(lambda w: ef.sum((x @ w.mT) ** 3))(w)

    _, found = ef.jvp(gradient, (start,), (tangent,))
    step = 1e-2
    ahead, behind = (gradient(start + s * tangent).numpy() for s in (step, -step))
    np.testing.assert_allclose(found.numpy(), (ahead - behind) / (2 * step), rtol=2e-2, atol=1e-2)
