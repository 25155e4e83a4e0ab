"""`custom_jvp`: one rule for forward and reverse mode, in every order of transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from tests.messages import says

X = ef.tensor([-2.0, 0.5, 3.0])


@ef.custom_jvp
def cube(x: Any) -> Any:
    """x ** 3 with a rule that says ten times its derivative."""
    return x * x * x


@cube.defjvp
def _rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return cube(x), 30 * x * x * t


def _loss(x: Any) -> Any:
    return cube(x).sum()


_FIRST = 30 * X.numpy() ** 2
_SECOND = 60 * X.numpy()


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
@pytest.mark.parametrize(
    ("transformed", "expected"),
    [
        (ef.grad(_loss), _FIRST),
        (lambda x: ef.jvp(cube, (x,), (ef.ones(3),))[1], _FIRST),
        (lambda x: ef.jvp(_loss, (x,), (ef.ones(3),))[1], _FIRST.sum()),
        (ef.vmap(ef.grad(cube)), _FIRST),
        (ef.vmap(lambda x: ef.jvp(cube, (x,), (1.0,))[1]), _FIRST),
        (ef.vmap(ef.grad(ef.grad(cube))), _SECOND),
        (ef.jacfwd(cube), np.diag(_FIRST)),
        (ef.jacrev(cube), np.diag(_FIRST)),
        (ef.hessian(_loss), np.diag(_SECOND)),
        (lambda x: ef.hvp(_loss, (x,), (ef.ones(3),))[0], _SECOND),
        (ef.grad(lambda x: ef.remat(cube)(x).sum()), _FIRST),
        (ef.grad(lambda x: ef.cond(x.sum() > 0, _loss, ef.sum, x)), _FIRST),
        (lambda x: ef.jvp(lambda x: ef.map(cube, x), (x,), (ef.ones(3),))[1], _FIRST),
    ],
)
def test_the_rule_is_used(wrap: Any, transformed: Any, expected: Any) -> None:
    np.testing.assert_allclose(wrap(transformed)(X).numpy(), expected, rtol=1e-6)


def test_a_linearization_uses_it() -> None:
    value, push = ef.linearize(cube, X)
    np.testing.assert_array_equal(value.numpy(), X.numpy() ** 3)
    np.testing.assert_allclose(push(ef.ones(3)).numpy(), _FIRST, rtol=1e-6)


def test_trees_constants_and_keywords() -> None:
    @ef.custom_jvp
    def f(pair: Any, n: int, *, scale: float) -> Any:
        return {"y": pair[0] * pair[1] * scale, "n": n}

    seen = []

    @f.defjvp
    def rule(primals: Any, tangents: Any, *, scale: float) -> Any:
        (a, b), n = primals
        (ta, tb), tn = tangents
        seen.append(tn)
        return f((a, b), n, scale=scale), {"y": (ta * b + a * tb) * scale, "n": None}

    pair = ef.tensor(2.0), ef.tensor(3.0)
    assert f(pair, 4, scale=10.0)["n"] == 4
    gradient = ef.grad(lambda p: f(p, 4, scale=10.0)["y"])(pair)
    assert [g.item() for g in gradient] == [30.0, 20.0]
    tangent = ef.jvp(lambda p: f(p, 4, scale=10.0)["y"], (pair,), ((1.0, 0.0),))[1]
    assert tangent.item() == 30.0
    assert seen == [None, None]


def test_a_rule_for_each_argument() -> None:
    @ef.custom_jvp
    def f(x: Any, y: Any, n: Any = 0) -> Any:
        return x * y

    f.defjvps(lambda t, out, x, y, n: t * out, None, None)
    x, y = ef.tensor(2.0), ef.tensor(3.0)
    assert [g.item() for g in ef.grad(f, (0, 1))(x, y, 1)] == [6.0, 0.0]
    assert ef.jvp(f, (x, y, 1.0), (0.0, 1.0, 1.0))[1].item() == 0.0
    with pytest.raises(GradientError, check=says("one rule for each positional argument")):
        ef.grad(f)(x, y)

    @ef.custom_jvp
    def g(x: Any, *, scale: float = 1.0) -> Any:
        return x * scale

    g.defjvps(lambda t, out, x, scale=1.0: t * scale)
    assert ef.grad(lambda x: g(x, scale=3.0))(x).item() == 3.0


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (None, "f has no rule"),
        (lambda p, t: t[0], r"must return \(result, tangent\)"),
        (lambda p, t: (p[0], (t[0], t[0])), "structure of the result"),
        (lambda p, t: (p[0], ef.ones(7)), "one of the tangents does not fit"),
    ],
)
def test_a_wrong_rule(rule: Any, text: str) -> None:
    f = ef.custom_jvp(lambda x: x * 1.0)
    f._f.__name__ = "f"
    if rule is not None:
        f.defjvp(rule)
    with pytest.raises(GradientError, check=says(text)):
        ef.jvp(f, (X,), (X,))
    with pytest.raises(GradientError, check=says(text)):
        ef.grad(lambda x: f(x).sum())(X)
