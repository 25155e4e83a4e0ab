"""`custom_vjp`."""

from __future__ import annotations

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from tests.messages import says

X = ef.tensor([0.5, -2.0, 3.0])


def make(fwd=None, bwd=None):
    """``x * x`` with a rule that gives ten times its derivative."""

    @ef.custom_vjp
    def square(x):
        return x * x

    square.defvjp(
        fwd or (lambda x: (square(x), x)), bwd or (lambda x, g: (ef.multiply(g, x) * 20,))
    )
    return square


def test_the_rule_is_used() -> None:
    square = make()
    np.testing.assert_array_equal(square(X).numpy(), X.numpy() ** 2)
    np.testing.assert_array_equal(ef.grad(lambda x: square(x).sum())(X).numpy(), 20 * X.numpy())
    with ef.GradientTape() as tape:
        tape.watch(X)
        y = square(X * 1.0)
    np.testing.assert_array_equal(tape.gradient(y, X).numpy(), 20 * X.numpy())


def test_fwd_runs_only_under_differentiation_and_the_function_only_without() -> None:
    calls = []

    @ef.custom_vjp
    def f(x):
        calls.append("f")
        return x * 2

    def fwd(x):
        calls.append("fwd")
        return x * 2, None

    f.defvjp(fwd, lambda residuals, g: (g * 2,))
    f(X)
    assert calls == ["f"]
    ef.grad(lambda x: f(x).sum())(X)
    assert calls == ["f", "fwd"]


def test_trees_of_arguments_results_and_residuals() -> None:
    @ef.custom_vjp
    def f(pair, text, scale):
        return {"y": pair[0] * pair[1] * scale, "n": len(text)}

    def fwd(pair, text, scale):
        return f(pair, text, scale), {"pair": pair, "scale": scale, "text": text}

    def bwd(residuals, g):
        assert residuals["text"] == "abc"
        assert g["n"] is None
        a, b = residuals["pair"]
        g = g["y"] * residuals["scale"]
        return (g * b, g * a), None, None

    f.defvjp(fwd, bwd)
    result = f((ef.tensor(2.0), ef.tensor(3.0)), "abc", 10.0)
    assert result["n"] == 3
    gradient = ef.grad(lambda p: f(p, "abc", 10.0)["y"])((2.0, 3.0))
    assert [float(g) for g in gradient] == [30.0, 20.0]


def test_none_is_a_cotangent_of_zero() -> None:
    @ef.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (f(x, y), y), lambda y, g: (g * y, None))
    gx, gy = ef.grad(lambda x, y: f(x, y), (0, 1))(2.0, 3.0)
    assert (float(gx), float(gy)) == (3.0, 0.0)


def test_outputs_that_are_not_used_have_cotangent_zero() -> None:
    seen = []

    @ef.custom_vjp
    def f(x):
        return x * 2, x * 3, ef.argmax(x)

    def bwd(residuals, g):
        seen.append(g)
        return (g[0] * 2 + g[1] * 3,)

    f.defvjp(lambda x: (f(x), None), bwd)
    gradient = ef.grad(lambda x: f(x)[1].sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), [3, 3, 3])
    assert not seen[0][0].numpy().any()
    assert seen[0][2] is None


def test_second_derivatives_go_through_both_functions() -> None:
    square = make()
    slope = ef.grad(lambda x: square(x).sum())
    second = ef.grad(lambda x: slope(x).sum())(X)
    np.testing.assert_array_equal(second.numpy(), [20, 20, 20])


def test_forward_mode_comes_from_the_rule() -> None:
    square = make()
    value, tangent = ef.jvp(square, (X,), (ef.ones(3),))
    np.testing.assert_array_equal(value.numpy(), X.numpy() ** 2)
    np.testing.assert_array_equal(tangent.numpy(), 20 * X.numpy())
    second = ef.jvp(lambda x: ef.jvp(square, (x,), (ef.ones(3),))[1], (X,), (ef.ones(3),))[1]
    np.testing.assert_array_equal(second.numpy(), [20, 20, 20])
    mixed = ef.grad(lambda x: ef.jvp(square, (x,), (ef.ones(3),))[1].sum())(X)
    np.testing.assert_array_equal(mixed.numpy(), [20, 20, 20])
    other = ef.jvp(ef.grad(lambda x: square(x).sum()), (X,), (ef.ones(3),))[1]
    np.testing.assert_array_equal(other.numpy(), [20, 20, 20])


def test_forward_mode_needs_a_rule_made_of_ops() -> None:
    square = make(bwd=lambda x, g: (ef.tensor(g.numpy() * x.numpy() * 20),))
    np.testing.assert_array_equal(ef.grad(lambda x: square(x).sum())(X).numpy(), 20 * X.numpy())
    with pytest.raises(GradientError, match="forward mode needs a backward rule that is made of"):
        ef.jvp(square, (X,), (ef.ones(3),))


def test_a_rule_of_zero_pushes_zero() -> None:
    square = make(bwd=lambda x, g: (ef.zeros_like(x),))
    assert not ef.jvp(square, (X,), (ef.ones(3),))[1].numpy().any()
    square = make(bwd=lambda x, g: (None,))
    assert not ef.jvp(square, (X,), (ef.ones(3),))[1].numpy().any()


def test_the_rule_belongs_to_the_level_that_differentiates() -> None:
    """An inner tape that does not follow the argument ignores the rule."""
    square = make()
    with ef.GradientTape() as outer:
        outer.watch(X)
        with ef.GradientTape() as inner:
            y = ef.tensor(2.0)
            inner.watch(y)
            z = square(X) * y
        slope = inner.gradient(z, y)
    np.testing.assert_array_equal(outer.gradient(slope, X).numpy(), 20 * X.numpy())
    gradient = ef.grad(lambda x: ef.jvp(lambda y: square(x) * y, (2.0,), (1.0,))[1].sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), 20 * X.numpy())
    _, tangent = ef.jvp(
        lambda x: ef.grad(lambda y: (square(x) * y).sum())(2.0), (X,), (ef.ones(3),)
    )
    assert float(tangent) == 20 * 1.5


def test_what_is_closed_over_gets_no_derivative_and_that_is_said() -> None:
    def loss(x, y):
        @ef.custom_vjp
        def f(x):
            return x * y

        f.defvjp(lambda x: (f(x), None), lambda residuals, g: (g * y,))
        return f(x).sum()

    np.testing.assert_array_equal(ef.grad(loss)(X, 2.0).numpy(), [2, 2, 2])
    with pytest.raises(GradientError, match="argument 1 reaches the result only through f"):
        ef.grad(loss, argnums=1)(X, 2.0)
    assert float(ef.grad(lambda x, y: loss(x, y) + y, argnums=1)(X, 2.0)) == 1.0
    with pytest.raises(GradientError, match="only through f"):
        ef.jvp(lambda y: loss(X, y), (2.0,), (1.0,))


def test_a_closed_over_result() -> None:
    def loss(x):
        @ef.custom_vjp
        def f(n):
            return x

        f.defvjp(lambda n: (x, None), lambda residuals, g: (None,))
        return f(1).sum() * 2 + x.sum()

    np.testing.assert_array_equal(ef.grad(loss)(X).numpy(), [1, 1, 1])


def test_variables_as_arguments_and_within() -> None:
    v = ef.Variable([1.0, 2.0, 3.0])
    square = make()
    np.testing.assert_array_equal(ef.grad(lambda: square(v).sum(), wrt=v)().numpy(), [20, 40, 60])

    @ef.custom_vjp
    def scaled(x):
        return x * v

    scaled.defvjp(lambda x: (scaled(x), None), lambda residuals, g: (g * v,))
    with pytest.raises(GradientError, match="wrt reaches the result only through scaled"):
        ef.grad(lambda: scaled(X).sum(), wrt=v)()


def test_sparse_cotangents() -> None:
    table = ef.Variable(ef.ones((4, 2)))

    @ef.custom_vjp
    def rows(t):
        return ef.take(t, ef.tensor([1, 1]), axis=0)

    def bwd(residuals, g):
        return (ef.IndexedSlices(g, ef.tensor([1, 1]), (4, 2)),)

    rows.defvjp(lambda t: (rows(t), None), bwd)
    gradient = ef.grad(lambda: rows(table).sum(), wrt=table)()
    assert isinstance(gradient, ef.IndexedSlices)
    np.testing.assert_array_equal(gradient.numpy()[1], [2, 2])


def test_its_arguments_are_values() -> None:
    @ef.custom_vjp
    def f(x):
        x += 1.0
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda residuals, g: (g * 2,))
    x = ef.tensor([1.0])
    for use in (lambda: f(x), lambda: ef.grad(lambda y: (f(x) * y).sum())(1.0)):
        use()
        assert float(x) == 1.0


def test_name_and_documentation_go_along() -> None:
    @ef.custom_vjp
    def documented(x):
        """What it does."""
        return x

    assert documented.__doc__ == "What it does."
    assert documented.__name__ == "documented"


# --- refusals -------------------------------------------------------------------------------------


def test_without_a_rule() -> None:
    @ef.custom_vjp
    def f(x):
        return x

    with pytest.raises(GradientError, match="custom_vjp: f has no rule") as caught:
        f(X)
    assert "f.defvjp(fwd, bwd)" in caught.value.hint


BAD_BWD = [
    ("a tuple with a cotangent for each positional argument", lambda x, g: [g]),
    ("a tuple with a cotangent for each positional argument", lambda x, g: (g, g)),
    ("gives a cotangent that does not fit", lambda x, g: (g.sum(),)),
    ("gives a cotangent that does not fit", lambda x, g: (g * 1j,)),
    ("gives a cotangent that does not fit", lambda x, g: ((g, g),)),
]


@pytest.mark.parametrize(("message", "bwd"), BAD_BWD)
def test_a_bwd_that_gives_something_else(message: str, bwd) -> None:
    with pytest.raises(GradientError, check=says(message)):
        ef.grad(lambda x: make(bwd=bwd)(x).sum())(X)


def test_a_bwd_that_gives_another_structure() -> None:
    @ef.custom_vjp
    def f(tree):
        return tree["a"] * 2

    f.defvjp(lambda tree: (f(tree), None), lambda residuals, g: ([g],))
    with pytest.raises(
        GradientError, match="argument 0 a cotangent of another structure"
    ) as caught:
        ef.grad(lambda x: f({"a": x}).sum())(X)
    assert (caught.value.given, caught.value.expected) == ("[*]", "{'a': *}")


def test_a_fwd_that_gives_something_else() -> None:
    square = make(fwd=lambda x: x * x)
    with pytest.raises(GradientError, match=r"must return \(result, residuals\)"):
        ef.grad(lambda x: square(x).sum())(X)


def test_the_rule_of_one_argument_may_give_its_cotangent_alone() -> None:
    @ef.custom_vjp
    def double(x):
        return x * 2

    double.defvjp(lambda x: (x * 2, None), lambda _, g: g * 3)
    assert ef.grad(lambda x: double(x).sum())(ef.ones(2)).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("fwd", "bwd", "words"),
    [
        (lambda x, y: x * y, lambda r, g: (g, g), "lambda x: (f(x), x)"),
        (lambda x, y: (x * y, None), lambda r, g: g, "return g * x, None"),
    ],
)
def test_rules_of_another_form_name_the_form(fwd, bwd, words) -> None:
    f = ef.custom_vjp(lambda x, y: x * y)
    f.defvjp(fwd, bwd)
    with pytest.raises(ef.errors.GradientError) as caught:
        ef.grad(lambda x: f(x, x).sum())(ef.ones(2))
    assert words in (caught.value.hint or "")
