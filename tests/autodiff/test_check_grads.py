"""`check_grads` reports wrong derivatives, and no right ones."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from tests.autodiff.lines import line_of

X = ef.tensor([0.5, 1.0, -2.0])


def test_right_derivatives_pass() -> None:
    ef.check_grads(lambda x: ef.tanh(x) * x, (X,), order=3)
    ef.check_grads(lambda t, n: (t["a"] * t["b"]) ** n, ({"a": X, "b": 1.5}, 2), order=2)
    ef.check_grads(lambda z: ef.exp(z) * ef.conj(z), (X + 1j,))
    ef.check_grads(lambda x: (x, {"y": x.sum(), "n": ef.argmax(x)}), (X,))


def wrong(order: int, mode: str):
    """A function whose derivative of order ``order`` is wrong, in one mode or in both."""

    @ef.custom_vjp
    def f(x):
        return x * x * x

    def fwd(x):
        kept = x if order == 1 else ef.stop_gradient(x)
        return (x if mode == "both" else ef.stop_gradient(x)) ** 3, kept

    f.defvjp(fwd, lambda x, g: (3 * g * x * x * (1.1 if order == 1 else 1.0),))
    return f


@pytest.mark.parametrize("order", [1, 2])
def test_wrong_derivatives_are_found(order: int) -> None:
    f = wrong(order, "both")
    if order == 2:
        ef.check_grads(f, (X,), order=1)
    with pytest.raises(GradientError) as caught:
        ef.check_grads(f, (X,), order=2)
    assert f"mode derivative of order {order} is wrong" in caught.value.wrong
    assert "along a direction" in caught.value.given
    assert "numeric derivative" in caught.value.expected
    assert line_of(caught.value) == "ef.check_grads(f, (X,), order=2)"


def test_a_wrong_forward_rule_is_found() -> None:
    op = ef.core.op.get_op("tanh")
    before = op.jvp
    op.jvp = lambda tangents, out, x: tangents[0]
    try:
        with pytest.raises(GradientError, match="the forward-mode derivative of order 1 is wrong"):
            ef.check_grads(ef.tanh, (X,), order=1)
    finally:
        op.jvp = before
    ef.check_grads(ef.tanh, (X,), order=1)


def test_not_a_number_is_wrong() -> None:
    with np.errstate(all="ignore"), pytest.raises(GradientError, match="is wrong"):
        ef.check_grads(lambda x: ef.sqrt(x * 0.0), (X,), order=1)


def test_tolerances() -> None:
    f = wrong(1, "both")
    ef.check_grads(f, (X,), order=1, rtol=0.2)
    ef.check_grads(f, (X,), order=1, atol=100.0)
    with pytest.raises(GradientError):
        ef.check_grads(f, (X,), order=1, rtol=0.01)
    with pytest.raises(GradientError):
        ef.check_grads(ef.exp, (X,), order=1, eps=1.0, rtol=1e-9, atol=1e-9)


def test_nothing_to_check_is_refused() -> None:
    with pytest.raises(GradientError, match="no argument is floating"):
        ef.check_grads(lambda x: x, (ef.tensor([1, 2]),))


def test_the_generator_is_not_touched() -> None:
    ef.random.seed(3)
    want = ef.random.uniform((2,)).numpy()
    ef.random.seed(3)
    ef.check_grads(ef.exp, (X,))
    assert (ef.random.uniform((2,)).numpy() == want).all()


@pytest.mark.parametrize("args", [ef.ones(3), 2.0])
def test_arguments_must_be_a_tuple(args) -> None:
    with pytest.raises(GradientError, match="args must be a tuple") as caught:
        ef.check_grads(lambda x: x * x, args)
    assert "(x,)" in str(caught.value)
