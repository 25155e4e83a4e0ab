"""`jacobian` and `hessian`."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError

A = np.arange(6.0).reshape(2, 3)
X = ef.tensor([0.5, 1.0, 2.0], dtype=ef.float64)


def test_rows() -> None:
    a = ef.tensor(A)
    np.testing.assert_array_equal(ef.jacobian(lambda x: a @ x)(X).numpy(), A)


def test_columns() -> None:
    a = ef.tensor(A)
    calls = []

    def tall(x):
        calls.append(1)
        return ef.sin(x) @ a

    x = ef.tensor([0.5, 1.0], dtype=ef.float64)
    want = A.T * np.cos(x.numpy())
    jacobian = ef.jacobian(tall)(x)
    assert calls == [1]
    np.testing.assert_allclose(jacobian.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = ef.ones(shape, dtype=ef.float64) * 2
    for f, out in ((lambda x: (x * x).sum(), ()), (lambda x: ef.stack([x, x * x]), (2, *shape))):
        jacobian = ef.jacobian(f)(x)
        assert jacobian.shape == out + shape
        assert jacobian.dtype is ef.float64
    np.testing.assert_array_equal(np.asarray(jacobian)[1].sum(), 4 * x.size)


def test_trees_of_results_and_arguments() -> None:
    def f(p, y):
        return {"a": p["x"] * y, "b": (p["x"].sum() * y.sum(),)}

    p, y = {"x": X, "z": ef.tensor(1.0)}, ef.tensor([1.0, 2.0, 3.0], dtype=ef.float64)
    jacobians = ef.jacobian(f, argnums=(0, 1))(p, y)
    np.testing.assert_array_equal(jacobians["a"][0]["x"].numpy(), np.diag(y.numpy()))
    np.testing.assert_array_equal(jacobians["a"][0]["z"].numpy(), [0, 0, 0])
    np.testing.assert_array_equal(jacobians["a"][1].numpy(), np.diag(X.numpy()))
    np.testing.assert_array_equal(jacobians["b"][0][0]["x"].numpy(), [6, 6, 6])
    np.testing.assert_array_equal(jacobians["b"][0][1].numpy(), [3.5, 3.5, 3.5])
    assert isinstance(ef.jacobian(f)(p, y)["a"], dict)


def test_keyword_arguments_pass() -> None:
    jacobian = ef.jacobian(lambda x, *, scale: x * scale)(X, scale=3.0)
    np.testing.assert_array_equal(jacobian.numpy(), 3 * np.eye(3))


def test_no_elements() -> None:
    assert ef.jacobian(lambda x: x * 2)(ef.zeros(0)).shape == (0, 0)
    assert ef.jacobian(lambda x: ef.ones(2) * x.sum())(ef.zeros(0)).shape == (2, 0)


def test_a_constant_result() -> None:
    assert not ef.jacobian(lambda x: ef.ones((2, 2)))(X).numpy().any()
    assert ef.jacobian(lambda x: ef.ones(2))(X).shape == (2, 3)


def test_hessian() -> None:
    def f(x):
        return (x[0] ** 2) * x[1] + ef.exp(x[2]) * x[0]

    a, b, c = X.numpy()
    want = [[2 * b, 2 * a, np.exp(c)], [2 * a, 0, 0], [np.exp(c), 0, a * np.exp(c)]]
    hessian = ef.hessian(f)(X)
    np.testing.assert_allclose(hessian.numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(ef.jacobian(ef.grad(f))(X).numpy(), want, rtol=1e-12)


def test_hessian_of_trees() -> None:
    def f(p, y):
        return (p["x"] * p["x"]).sum() * y

    hessians = ef.hessian(f, argnums=(0, 1))({"x": X}, ef.tensor(2.0, dtype=ef.float64))
    np.testing.assert_array_equal(hessians[0]["x"][0]["x"].numpy(), 4 * np.eye(3))
    np.testing.assert_array_equal(hessians[0]["x"][1].numpy(), 2 * X.numpy())
    np.testing.assert_array_equal(hessians[1][0]["x"].numpy(), 2 * X.numpy())
    assert float(hessians[1][1]) == 0.0


def test_hessian_of_what_is_linear_in_pieces() -> None:
    assert not ef.hessian(lambda x: ef.maximum(x - 1.0, 0.0).sum())(X).numpy().any()


def test_a_jacobian_is_differentiable() -> None:
    def trace(x):
        return (ef.jacobian(lambda x: x * x * x)(x) * ef.eye(3, dtype=ef.float64)).sum()

    np.testing.assert_allclose(ef.grad(trace)(X).numpy(), 6 * X.numpy(), rtol=1e-12)


def test_of_a_complex_argument_it_is_the_gradient() -> None:
    z = ef.tensor([1 + 2j, 3 - 1j])
    jacobian = ef.jacobian(lambda z: (z * ef.conj(z)).real)(z)
    np.testing.assert_allclose(jacobian.numpy(), np.diag(2 * z.numpy()), rtol=1e-6)
    tall = ef.jacobian(lambda z: ef.stack([z.real, z.imag, z.real]))(z)
    np.testing.assert_array_equal(tall.numpy()[1], 1j * np.eye(2))


def test_what_is_refused() -> None:
    with pytest.raises(GradientError, match="jacobian: the result is not a real tensor"):
        ef.jacobian(lambda x: x * 1j)(X)
    with pytest.raises(GradientError, match="jacobian: the result is not a real tensor"):
        ef.jacobian(ef.argmax)(X)
    with pytest.raises(GradientError, match="jacobian: argument 0 has an integer dtype"):
        ef.jacobian(lambda x: x)(ef.tensor([1]))
    with pytest.raises(GradientError, match="hessian: the result is not a scalar"):
        ef.hessian(lambda x: x * x)(X)
    with pytest.raises(GradientError, match="argument 0 reaches the result only through greater"):
        ef.jacobian(lambda x: (x > 1).astype(ef.float32))(X)


@pytest.mark.parametrize(
    ("f", "hint"),
    [
        (lambda x: 3.0, "return a tensor"),
        (lambda x: ef.astype(x, ef.int32), "only floating results"),
        (lambda x: x * 1j, "differentiate .real and .imag"),
    ],
)
def test_the_hint_fits_the_result(f, hint) -> None:
    with pytest.raises(GradientError, match="not a real tensor") as caught:
        ef.jacobian(f)(ef.ones(2))
    assert hint in str(caught.value)


def _tree(d):
    return {"y": d["a"] * d["b"].sum(), "z": (d["a"] ** 2).sum()}


def test_both_modes_give_the_jacobian() -> None:
    d = {"a": ef.tensor([1.0, 2.0]), "b": ef.tensor([[3.0], [4.0], [5.0]])}
    whole = ef.jacobian(_tree)(d)
    for one in (ef.jacfwd(_tree)(d), ef.jacrev(_tree)(d), ef.trace(ef.jacfwd(_tree))(d)):
        for name in ("y", "z"):
            for key in ("a", "b"):
                got, want = one[name][key], whole[name][key]
                assert got.shape == want.shape
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    pair = ef.jacfwd(lambda x, y: x * y, argnums=(0, 1))(X, X)
    np.testing.assert_allclose(pair[0].numpy(), np.diag(X.numpy()))


def test_forward_mode_refuses_what_it_cannot() -> None:
    with pytest.raises(GradientError, match="jacfwd: an argument is complex"):
        ef.jacfwd(lambda z: z.real)(ef.tensor([1j]))
    with pytest.raises(GradientError, match="through greater, which has no derivative"):
        ef.jacfwd(lambda x: (x > 1).astype(ef.float32))(X)


def test_no_elements_of_one_of_them() -> None:
    assert ef.jacobian(lambda x: x[:0])(X).shape == (0, *X.shape)
    assert ef.jacrev(lambda x: ef.ones(2) * x.sum())(ef.zeros((0,))).shape == (2, 0)


def test_a_rule_that_looks_at_values_is_called_for_each_row() -> None:
    @ef.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, g: (2 * g * x if g.sum().item() > 0 else g * 0,))
    np.testing.assert_allclose(ef.jacobian(f)(X).numpy(), np.diag(2 * X.numpy()))


def test_forward_mode_draws_once() -> None:
    ef.random.seed(0)
    got = ef.jacfwd(lambda x, y: x * y * ef.random.normal(X.shape), (0, 1))(X, X)
    ef.random.seed(0)
    want = np.diag((X * ef.random.normal(X.shape)).numpy())
    for one in got:
        np.testing.assert_allclose(one.numpy(), want, rtol=1e-6)
    assert ef.jacfwd(lambda x: ef.ones(2) * x.sum())(ef.zeros(0)).shape == (2, 0)


@pytest.mark.parametrize("derivative", [ef.jacobian, ef.jacrev, ef.jacfwd, ef.hessian])
def test_the_derivative_of_a_traced_loop_may_be_one_graph(derivative) -> None:
    @ef.trace
    def f(x):
        for i in ef.arange(6):
            x = x + 0.1 * ef.sin(x * i) * x.sum()
        return x.sum() if derivative is ef.hessian else x

    graph = ef.trace(derivative(f))
    for x in (X, X * 2):
        np.testing.assert_allclose(graph(x).numpy(), derivative(f)(x).numpy(), rtol=1e-10)
    assert any(node.op in ("scan", "while") for node in graph.graph(X).nodes)
    assert len(graph.traces) == 1
