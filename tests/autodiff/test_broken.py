"""Paths without a derivative: refused if they are the only ones, and harmless otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import bind, define
from eagerflow.errors import GradientError, OpDefinitionError
from eagerflow_kernels.table import portable, remove
from tests.autodiff.lines import line_of

X = ef.tensor([1.0, -2.0, 3.0])


@pytest.fixture(scope="module")
def rough():
    """A floating op that has no derivative."""
    portable("test_rough")(lambda xp, x: xp.floor(x) + x)
    op = define("test_rough", infer=lambda x: x, nondifferentiable=True, replace=True)
    yield lambda x: bind(op, x)
    remove("test_rough")


# --- a cotangent or a tangent that reaches an op without derivative --------------------------


def test_a_cotangent_names_op_and_line(rough) -> None:
    def f(x):
        y = rough(x * 2)
        return (y * x).sum()

    with pytest.raises(GradientError) as caught:
        ef.grad(f)(X)
    assert "test_rough has no derivative" in caught.value.wrong
    assert line_of(caught.value) == "yield lambda x: bind(op, x)"


def test_a_tangent_names_op_and_line(rough) -> None:
    with pytest.raises(GradientError) as caught:
        ef.jvp(lambda x: rough(x), (X,), (X,))
    assert "test_rough has no derivative" in caught.value.wrong
    assert line_of(caught.value) == "yield lambda x: bind(op, x)"


def test_it_may_be_computed_beside_the_way(rough) -> None:
    gradient = ef.grad(lambda x: (x * x).sum() + 0 * rough(ef.stop_gradient(x)).sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), [2, -4, 6])
    (value, aux), _ = ef.value_and_grad(lambda x: (x.sum(), rough(x)), has_aux=True)(X)
    assert float(value) == 2.0
    assert aux.shape == (3,)


def test_a_statement_about_the_gradient_is_required() -> None:
    with pytest.raises(OpDefinitionError, match="gradient statement is missing"):
        define("test_unsaid", infer=lambda x: x)


# --- integers --------------------------------------------------------------------------------

ONLY = {
    "argmax": lambda x: ef.argmax(x).astype(ef.float32),
    "greater": lambda x: (x > 0).astype(ef.float32).sum(),
    "cast": lambda x: x.astype(ef.int32).astype(ef.float32).sum(),
    "argsort": lambda x: ef.take(ef.tensor([1.0, 2.0, 3.0]), ef.argsort(x)[0]),
    "less": lambda x: ef.where(x < 0, 1.0, 2.0).sum(),
}


@pytest.mark.parametrize("name", ONLY)
def test_the_only_way_through_integers_is_refused(name: str) -> None:
    with pytest.raises(GradientError) as caught:
        ef.grad(ONLY[name])(X)
    wanted = f"grad: argument 0 reaches the result only through {name}, which has no derivative"
    assert caught.value.wrong == wanted
    assert line_of(caught.value).startswith(f'"{name}": ')
    assert "stop_gradient" in caught.value.hint
    with pytest.raises(GradientError, match=f"only through {name}") as caught:
        ef.jvp(ONLY[name], (X,), (X,))
    assert line_of(caught.value).startswith(f'"{name}": ')


def test_the_first_op_on_the_way_is_named() -> None:
    def f(x):
        rank = ef.argmax(x * x)
        other = (rank > 1).astype(ef.float32)
        return ef.exp(other)

    with pytest.raises(GradientError, match="only through argmax") as caught:
        ef.grad(f)(X)
    assert line_of(caught.value) == "rank = ef.argmax(x * x)"


def test_a_second_way_makes_it_well() -> None:
    gradient = ef.grad(lambda x: ((x > 0).astype(ef.float32) * x).sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), [1, 0, 1])
    gradient = ef.grad(lambda x: ef.take(x, ef.argmax(x)))(X)
    np.testing.assert_array_equal(gradient.numpy(), [0, 0, 1])
    gradient = ef.grad(lambda x: ef.where(x > 0, x, 0.0).sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), [1, 0, 1])
    _, tangent = ef.jvp(lambda x: ef.where(x > 0, x, 0.0), (X,), (X,))
    np.testing.assert_array_equal(tangent.numpy(), [1, 0, 3])


def test_each_source_is_looked_at() -> None:
    def f(x, threshold):
        return ef.where(x > threshold, x, 0.0).sum()

    np.testing.assert_array_equal(ef.grad(f)(X, 2.0).numpy(), [0, 0, 1])
    with pytest.raises(GradientError, match="argument 1 reaches the result only through greater"):
        ef.grad(f, argnums=(0, 1))(X, 2.0)


def test_vjp_and_tape_refuse_as_well() -> None:
    _, pull = ef.vjp(ONLY["argmax"], X)
    with pytest.raises(GradientError, match="only through argmax"):
        pull(1.0)
    with ef.GradientTape() as tape:
        tape.watch(X)
        y = ONLY["argmax"](X)
    with pytest.raises(GradientError, match="only through argmax"):
        tape.gradient(y, X)


def test_an_output_without_derivative_does_not_hinder_another() -> None:
    def f(x):
        return (x * x).sum(), (x > 0).astype(ef.float32).mean()

    _, pull = ef.vjp(f, X)
    np.testing.assert_array_equal(pull((1.0, 1.0))[0].numpy(), [2, -4, 6])
    (_, accuracy), (_, tangent) = ef.jvp(f, (X,), (X,))
    assert float(accuracy) == pytest.approx(2 / 3)
    assert float(tangent) == 0.0


def test_what_is_constant_almost_everywhere_has_gradient_zero() -> None:
    for f in (ef.floor, ef.sign, ef.round, ef.stop_gradient):
        np.testing.assert_array_equal(ef.grad(lambda x, f=f: f(x).sum())(X).numpy(), [0, 0, 0])
        assert float(ef.jvp(lambda x, f=f: f(x).sum(), (X,), (X,))[1]) == 0.0


def test_stop_gradient_says_that_zero_is_meant() -> None:
    def f(x):
        return ef.stop_gradient((x > 0).astype(ef.float32)).sum()

    np.testing.assert_array_equal(ef.grad(f)(X).numpy(), [0, 0, 0])
    assert float(ef.jvp(f, (X,), (X,))[1]) == 0.0
    best = ef.grad(lambda x: ef.stop_gradient(ef.argmax(x)).astype(ef.float32))(X)
    np.testing.assert_array_equal(best.numpy(), [0, 0, 0])
    cut = ef.grad(lambda x: ef.argmax(ef.stop_gradient(x)).astype(ef.float32))(X)
    np.testing.assert_array_equal(cut.numpy(), [0, 0, 0])


def test_stop_gradient_of_a_tree_and_of_a_variable() -> None:
    v = ef.Variable(2.0)

    def f():
        held = ef.stop_gradient({"v": v, "n": 3, "x": v * 1.0})
        return held["v"] * held["n"] * held["x"] * v

    assert float(ef.grad(f, wrt=v)()) == 12.0


# --- derivatives of derivatives --------------------------------------------------------------


def test_a_comparison_within_a_rule_is_no_way() -> None:
    """The slope of a piecewise linear function does not change with its argument."""
    for f in (lambda x: ef.maximum(x, 0.0), abs, lambda x: ef.where(x > 0, x, 0.0), ef.sort):
        second = ef.grad(lambda x, f=f: ef.grad(lambda x: f(x).sum())(x).sum())
        np.testing.assert_array_equal(second(X).numpy(), [0, 0, 0])
        gradient = ef.grad(lambda x, f=f: f(x).sum())
        assert float(ef.jvp(lambda x, g=gradient: g(x).sum(), (X,), (X,))[1]) == 0.0
        mixed = ef.grad(lambda x, f=f: ef.jvp(f, (x,), (ef.ones(3),))[1].sum())
        np.testing.assert_array_equal(mixed(X).numpy(), [0, 0, 0])


def test_a_penalty_on_the_gradient_of_a_relu_network() -> None:
    """The bias changes the penalty only through the set of active units."""
    w, b, out = ef.Variable([[1.0, -1.0]]), ef.Variable([0.5, 0.5]), ef.Variable([2.0, 3.0])

    def penalty(x):
        slope = ef.grad(lambda x: (ef.maximum(x @ w + b, 0.0) * out).sum())(x)
        return (slope * slope).sum()

    gradient = ef.grad(penalty, wrt={"w": w, "b": b, "out": out})(ef.tensor([[1.0]]))
    np.testing.assert_array_equal(gradient["b"].numpy(), [0, 0])
    np.testing.assert_array_equal(gradient["w"].numpy(), [[8, 0]])
    np.testing.assert_array_equal(gradient["out"].numpy(), [4, 0])


def test_an_integer_op_on_a_gradient_is_a_way() -> None:
    def f(x):
        slope = ef.grad(lambda x: (x * x).sum())(x)
        return ef.argmax(slope).astype(ef.float32)

    with pytest.raises(GradientError, match="only through argmax"):
        ef.grad(f)(X)


# --- errors within rules ---------------------------------------------------------------------


def test_an_error_in_a_rule_tells_where_the_op_was_applied() -> None:
    @ef.custom_vjp
    def wrong(x):
        return x * 2

    wrong.defvjp(lambda x: (wrong(x), None), lambda residuals, g: (ef.ones(2) + ef.ones(3),))

    def f(x):
        return wrong(x).sum()

    with pytest.raises(ef.errors.ShapeError) as caught:
        ef.grad(f)(X)
    last = str(caught.value).splitlines()[-1]
    assert last.startswith("  in the gradient of wrong, applied at ")
    assert last.endswith("return wrong(x).sum()")


def test_numpy_functions_do_not_drop_a_gradient_silently() -> None:
    """NumPy would compute on the bare array, and the gradient would lack that part."""
    x, v = ef.ones(3), ef.Variable(ef.ones(3))
    with pytest.raises(GradientError, match="another library"):
        ef.grad(lambda x: (np.sin(x) * x).sum())(x)
    with pytest.raises(GradientError, match="another library"):
        ef.value_and_grad(lambda: (np.sin(v) * v).sum(), wrt=[v])()
    with pytest.raises(GradientError, match="another library"):
        ef.jvp(lambda x: np.sin(x) * x, (x,), (x,))
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = (x * x).sum()
        assert float(y) == y.numpy() == y.item() == 3.0
        assert np.sum(x > 0).item() == 3
        assert np.asarray(ef.stop_gradient(y)) == 3.0
    assert np.asarray(y) == 3.0
    assert tape.gradient(y, x).tolist() == [2.0, 2.0, 2.0]


def test_numpy_functions_that_call_a_method_are_differentiated() -> None:
    assert ef.grad(lambda x: np.sum(x * x))(ef.ones(2)).tolist() == [2.0, 2.0]
