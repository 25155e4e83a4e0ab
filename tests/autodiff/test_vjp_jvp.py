"""`vjp` and `jvp`: values, structures, refusals."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.autodiff import forward_mode
from eagerflow.errors import GradientError
from tests.autodiff.lines import line_of

X, Y = ef.tensor([1.0, 2.0, 3.0]), ef.tensor([4.0, 5.0, 6.0])


def both(x, y):
    return {"product": x * y, "sum": (x + y).sum()}


# --- vjp -----------------------------------------------------------------------------------------


def test_a_pullback_may_be_called_many_times() -> None:
    value, pull = ef.vjp(both, X, Y)
    np.testing.assert_array_equal(value["product"].numpy(), [4, 10, 18])
    for scale in (1.0, 2.0):
        gx, gy = pull({"product": ef.ones(3) * scale, "sum": 10.0})
        np.testing.assert_array_equal(gx.numpy(), Y.numpy() * scale + 10)
        np.testing.assert_array_equal(gy.numpy(), X.numpy() * scale + 10)


def test_primals_and_cotangents_are_trees() -> None:
    _, pull = ef.vjp(lambda t: [t["a"] * t["b"][0], t["b"][1]], {"a": 2.0, "b": (3.0, 4.0)})
    (g,) = pull([1.0, 5.0])
    assert {k: float(v) if k == "a" else [float(x) for x in v] for k, v in g.items()} == {
        "a": 3.0,
        "b": [2.0, 5.0],
    }


def test_vjp_has_aux() -> None:
    value, pull, aux = ef.vjp(lambda x: (x * x, "aux"), 3.0, has_aux=True)
    assert (float(value), float(pull(1.0)[0]), aux) == (9.0, 6.0, "aux")


def test_cotangents_of_what_has_no_derivative_are_ignored() -> None:
    value, pull = ef.vjp(lambda x: (x * 2, ef.argmax(x), 7), X)
    assert value[2] == 7
    (g,) = pull((ef.ones(3), ef.tensor(0), None.__class__))
    np.testing.assert_array_equal(g.numpy(), [2, 2, 2])


def test_one_output_twice() -> None:
    def f(x):
        y = x * x
        return y, y

    _, pull = ef.vjp(f, 3.0)
    assert float(pull((1.0, 10.0))[0]) == 66.0


def test_an_output_that_is_the_input() -> None:
    value, pull = ef.vjp(lambda x: x, X)
    np.testing.assert_array_equal(value.numpy(), X.numpy())
    np.testing.assert_array_equal(pull(Y)[0].numpy(), Y.numpy())


def test_a_pullback_is_differentiable() -> None:
    _, pull = ef.vjp(lambda x: x * x, X)
    gradient = ef.grad(lambda c: (pull(c)[0] * c).sum())(Y)
    np.testing.assert_array_equal(gradient.numpy(), 4 * X.numpy() * Y.numpy())


def test_cotangents_that_do_not_fit() -> None:
    _, pull = ef.vjp(both, X, Y)
    with pytest.raises(GradientError, match="do not have the structure of the value") as caught:
        pull((ef.ones(3), 1.0))
    assert caught.value.given == "(*, *)"
    assert caught.value.expected == "{'product': *, 'sum': *}"
    assert line_of(caught.value) == "pull((ef.ones(3), 1.0))"
    with pytest.raises(GradientError, match="one of the cotangents does not fit") as caught:
        pull({"product": ef.ones(2), "sum": 1.0})
    assert (caught.value.given, caught.value.expected) == ("f32[2]@cpu:0", "f32[3]@cpu:0")
    with pytest.raises(GradientError, match="does not fit"):
        pull({"product": ef.ones(3) * 1j, "sum": 1.0})


def test_vjp_refuses_integers_and_what_is_no_function() -> None:
    with pytest.raises(GradientError, match="vjp: argument 1 has an integer dtype"):
        ef.vjp(lambda x, n: x, X, 3)
    with pytest.raises(GradientError, match="vjp: the first argument must be a function"):
        ef.vjp(X, X)


# --- jvp -----------------------------------------------------------------------------------------


def test_jvp_gives_value_and_tangent() -> None:
    value, tangent = ef.jvp(both, (X, Y), (ef.ones(3), ef.zeros(3)))
    np.testing.assert_array_equal(value["product"].numpy(), [4, 10, 18])
    np.testing.assert_array_equal(tangent["product"].numpy(), Y.numpy())
    assert float(tangent["sum"]) == 3.0


def test_jvp_of_trees_and_numbers() -> None:
    value, tangent = ef.jvp(lambda t: t["a"] * t["b"], ({"a": 2.0, "b": 3.0},), [{"a": 1, "b": 10}])
    assert (float(value), float(tangent)) == (6.0, 23.0)


def test_tangents_of_what_does_not_depend_are_zero() -> None:
    value, tangent = ef.jvp(lambda x: (ef.tensor([1, 2]), Y, ef.argmax(x), 3), (X,), (X,))
    assert value[3] == 3
    assert tangent[3] is None
    assert [t.type for t in tangent[:3]] == [v.type for v in value[:3]]
    for t in tangent[:3]:
        assert not t.numpy().any()


def test_jvp_of_outputs_that_are_several() -> None:
    (q, r), (dq, dr) = ef.jvp(
        lambda x: tuple(ef.linalg.qr(ef.reshape(x, (2, 2)))),
        (ef.tensor([1.0, 2.0, 3.0, 5.0], dtype=ef.float64),),
        (ef.tensor([0.5, 0.0, 1.0, 2.0], dtype=ef.float64),),
    )
    np.testing.assert_allclose((dq @ r + q @ dr).numpy(), [[0.5, 0.0], [1.0, 2.0]], atol=1e-12)


def test_tangents_that_do_not_fit() -> None:
    with pytest.raises(GradientError, match="jvp: tangents must be a tuple") as caught:
        ef.jvp(lambda x: x, (X,), X)
    assert caught.value.given == "f32[3]@cpu:0"
    with pytest.raises(GradientError, match="do not have the structure of the primals"):
        ef.jvp(both, (X, Y), (X,))
    with pytest.raises(GradientError, match="one of the tangents does not fit"):
        ef.jvp(lambda x: x, (X,), (ef.ones(2),))
    with pytest.raises(GradientError, match="argument 0 has an integer dtype"):
        ef.jvp(lambda x: x, (1,), (1,))


# --- both, nested --------------------------------------------------------------------------------


def test_no_perturbation_is_taken_for_another() -> None:
    def inner(x):
        return ef.jvp(lambda y: x + y, (1.0,), (1.0,))[1]

    assert float(ef.jvp(lambda x: x * inner(x), (1.0,), (1.0,))[1]) == 1.0
    assert float(ef.grad(lambda x: x * inner(x))(1.0)) == 1.0
    slope = ef.grad(lambda x: x * ef.grad(lambda y: x + y)(1.0))
    assert float(slope(1.0)) == 1.0
    nested = ef.grad(lambda x: ef.grad(lambda y: x * x * y * y)(x) * x)
    assert float(nested(2.0)) == 64.0  # of 2x^4


def test_the_four_ways_to_a_second_derivative() -> None:
    def f(x):
        return (ef.sin(x) * x * x).sum()

    def along(g):
        return lambda x: ef.jvp(g, (x,), (ef.ones(3),))[1]

    x = ef.tensor([0.5, 1.0, 1.5], dtype=ef.float64)
    v = x.numpy()
    want = 2 * np.sin(v) + 4 * v * np.cos(v) - v * v * np.sin(v)
    slope = ef.grad(f)
    reverse_reverse = ef.grad(lambda x: slope(x).sum())(x)
    reverse_forward = ef.grad(lambda x: along(lambda x: ef.sin(x) * x * x)(x).sum())(x)
    forward_reverse = along(slope)(x)
    forward_forward = along(along(lambda x: ef.sin(x) * x * x))(x)
    for derivative in (reverse_reverse, reverse_forward, forward_reverse, forward_forward):
        np.testing.assert_allclose(derivative.numpy(), want, rtol=1e-12)


def test_a_closed_over_tangent_belongs_to_its_own_level() -> None:
    def f(x):
        _, (value, tangent) = ef.jvp(lambda y: (x * y, y), (x,), (1.0,))
        return value * 10 + tangent

    value, tangent = ef.jvp(f, (3.0,), (1.0,))
    assert (float(value), float(tangent)) == (31.0, 10.0)


# --- linearize and hvp ---------------------------------------------------------------------------


def test_linearize_runs_the_function_once() -> None:
    calls = []

    def f(x, y):
        calls.append(1)
        return both(x, y)

    value, push = ef.linearize(f, X, Y)
    np.testing.assert_array_equal(value["product"].numpy(), [4, 10, 18])
    for scale in (1.0, 2.0):
        tangents = (ef.ones(3) * scale, X)
        want = ef.jvp(both, (X, Y), tangents)[1]
        for name, pushed in push(*tangents).items():
            np.testing.assert_allclose(pushed.numpy(), want[name].numpy(), rtol=1e-6)
    assert calls == [1]
    assert ef.linearize(lambda x: ef.ones(2), X)[1](X).tolist() == [0.0, 0.0]
    with pytest.raises(GradientError, match="push: "):
        push(X)


def test_hvp_is_the_hessian_times_the_direction() -> None:
    def f(x, y):
        return (ef.sin(x) * y * y).sum()

    x, y = X.astype(ef.float64), Y.astype(ef.float64)
    got = ef.hvp(f, (x, y), (y, x))
    blocks = ef.hessian(f, (0, 1))(x, y)
    for row, one in zip(blocks, got, strict=True):
        np.testing.assert_allclose(one.numpy(), (row[0] @ y + row[1] @ x).numpy(), rtol=1e-10)


def test_tangents_of_elementwise_ops_need_no_transposition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A diagonal derivative is its own transpose; that of a broadcast operand is none."""

    def refuse(*arguments: Any, **named: Any) -> NoReturn:
        raise AssertionError

    def smooth(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        return ef.where(x > 1.0, ef.tanh(x * y) - ef.maximum(x, y), 2.0 * x / y)

    x, y = ef.tensor([0.5, 1.5, 2.5]), ef.tensor([2.0, 1.5, 0.5])
    z = ef.tensor(3.0)
    want = ef.jvp(lambda z: x * z, (z,), (ef.tensor(2.0),))[1]
    assert ef.all(want == 2.0 * x)
    pulled = ef.vjp(smooth, x, y)[1](ef.ones(3))
    monkeypatch.setattr(forward_mode, "transposed", refuse)
    pushed = ef.jvp(smooth, (x, y), (ef.ones(3), ef.zeros(3)))[1]
    assert ef.all(pushed == pulled[0])  # one by one
    with pytest.raises(AssertionError):
        ef.jvp(lambda z: x * z, (z,), (ef.tensor(2.0),))
