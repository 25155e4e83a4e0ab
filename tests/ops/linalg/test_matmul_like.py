"""Memory order of gradients of matrix products; their values are in the table."""

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
    weight_gradient = (ef.trace(gradient) if traced else gradient)(x)
    assert weight_gradient.numpy().flags.c_contiguous
    slope = 1 - np.tanh(x.numpy() @ w.T) ** 2
    np.testing.assert_allclose(weight_gradient.numpy(), slope.T @ x.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_gradient_of_a_matrix(order: str) -> None:
    x, w = _arrays(order)
    gradient = ef.grad(lambda w: ef.sum(ef.square(x @ w)))(ef.asarray(w).mT)
    assert gradient.numpy().flags.c_contiguous == (order == "F")
    want = 2 * x.numpy().T @ (x.numpy() @ w.T)
    np.testing.assert_allclose(gradient.numpy(), want, rtol=1e-5)


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

    _, slope = ef.jvp(gradient, (start,), (tangent,))
    step = 1e-2
    ahead, behind = (gradient(start + s * tangent).numpy() for s in (step, -step))
    np.testing.assert_allclose(slope.numpy(), (ahead - behind) / (2 * step), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [ef.float32, ef.float64])
@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17, 48, 49])
def test_few_rows_times_a_transposed_matrix(rows: int, dtype: ef.types.DType) -> None:
    """The product is computed transposed on a CPU, which changes its time and not its result."""
    rng = np.random.default_rng(rows)
    x, w = rng.normal(size=(rows, 1031)), rng.normal(size=(1033, 1031))
    product = ef.tensor(x, dtype=dtype) @ ef.tensor(w, dtype=dtype).mT
    assert product.numpy().flags.c_contiguous
    assert np.allclose(product.numpy(), x @ w.T, atol=2e-3 if dtype is ef.float32 else 1e-10)
    batch = ef.tensor(x.reshape(1, rows, -1), dtype=dtype) @ ef.tensor(w, dtype=dtype).mT
    assert np.array_equal(batch.numpy()[0], product.numpy())
    traced = ef.trace(lambda a, b: a @ b.mT)(ef.tensor(x, dtype=dtype), ef.tensor(w, dtype=dtype))
    assert np.array_equal(traced.numpy(), product.numpy())
