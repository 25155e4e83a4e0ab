"""A smoke test of a few seconds, for pre-commit."""

from __future__ import annotations

import numpy as np

import eagerflow as ef


def test_arrays() -> None:
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert repr(x[0]) == "Tensor([1., 2.], f32[2]@cpu:0)"
    assert (x @ x.T).tolist() == [[5.0, 11.0], [11.0, 25.0]]
    y = x
    y[0, 0] = 10
    assert float(x.sum()) == 19.0


def test_gradient() -> None:
    gradient = ef.grad(lambda x: (ef.exp(x) * x).sum())(ef.tensor([0.0, 1.0], dtype=ef.float64))
    np.testing.assert_allclose(gradient.numpy(), [1.0, 2 * np.e])


def test_training_descends() -> None:
    w = ef.Variable(ef.zeros(3))
    x = ef.random.normal((20, 3), generator=ef.random.Generator(0))
    target = x @ ef.tensor([1.0, -2.0, 3.0])
    step = ef.value_and_grad(lambda: ((x @ w - target) ** 2).mean(), wrt=[w])
    losses = []
    for _ in range(100):
        loss, (g,) = step()
        w.assign_sub(0.2 * g)
        losses.append(float(loss))
    assert losses[-1] < 1e-4 < losses[0]
