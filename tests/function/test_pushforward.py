"""Forward mode of traced functions: a derived graph, or each op seen by forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.errors import GradientError
from eagerflow.function.pushforward import Pushforward

X = ef.tensor([[0.5, -1.5], [2.0, 0.25]])
T = ef.tensor([[1.0, 0.5], [-2.0, 0.125]])
Y = ef.tensor([[0.25, 3.0], [-1.0, 0.5]])
w = ef.Variable(ef.tensor([[1.0, -2.0], [0.5, 4.0]]))


def _same(a: Any, b: Any) -> None:
    """Both trees hold the same bits."""
    xs, ys = tree.leaves(a), tree.leaves(b)
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        assert x.type == y.type
        assert x.numpy().tobytes() == y.numpy().tobytes()


def _pushforward(f: ef.TracedFunction, *args: Any) -> Any:
    return f._lookup.find(f._lookup.signature.parse(args, {}))[0]._pushforward


def steps(x):
    for _ in range(ef.tensor(20)):
        x = x + 0.1 * ef.sin(x) * w
    return x


def until(x):
    while x.sum() < 30.0:
        x = x * 1.5
    return x


def chosen(x):
    if x.sum() > 0.0:
        return ef.exp(x)
    return x * x


def several(x):
    h = ef.tanh(x @ w)
    return {"h": h, "n": ef.argmax(h), "same": x, "fixed": w * 2.0}


def scanned(x):
    return ef.scan(lambda c, row: (c + row * c, ef.exp(c)), x[0], x)


@pytest.mark.parametrize("function", [steps, until, chosen, several, scanned])
def test_a_derived_graph_gives_the_bits_of_eager_code(function: Callable[..., Any]) -> None:
    f = ef.trace(function)
    for _ in range(2):
        _same(ef.jvp(f, (X,), (T,)), ef.jvp(function, (X,), (T,)))
    derived = _pushforward(f, X)
    assert isinstance(derived, Pushforward)
    assert len(derived.executables) == 1


def test_an_op_is_not_seen_by_forward_mode_again(monkeypatch: pytest.MonkeyPatch) -> None:
    f = ef.trace(steps)
    expected = ef.jvp(f, (X,), (T,))
    monkeypatch.setattr("eagerflow.autodiff.forward_mode._push", None)
    _same(ef.jvp(f, (X,), (T,)), expected)


def test_a_graph_for_each_set_of_arguments_with_tangents() -> None:
    f = ef.trace(lambda x, y: x * y + ef.sin(y))
    for g, h in (
        (lambda x: f(x, Y), lambda x: x * Y + ef.sin(Y)),
        (lambda y: f(Y, y), lambda y: Y * y + ef.sin(y)),
        (lambda x: f(X, Y) + x, lambda x: X * Y + ef.sin(Y) + x),
    ):
        _same(ef.jvp(g, (X,), (T,)), ef.jvp(h, (X,), (T,)))
    _same(ef.jvp(f, (X, Y), (T, T)), ef.jvp(f.fn, (X, Y), (T, T)))
    assert len(_pushforward(f, X, Y).executables) == 4


def test_numbers_and_sizes_that_differ() -> None:
    f = ef.trace(lambda x, n, scale: (x[:, :1] * scale + x).sum() / x.shape[0] + n)
    for rows, n, scale in ((2, 1, 0.5), (3, 2, 0.25), (5, 4, 3.0)):
        x, t = ef.ones((rows, 2)) * scale, ef.ones((rows, 2)) * n
        _same(
            ef.jvp(lambda x: f(x, n, scale), (x,), (t,)),  # noqa: B023 - is called at once
            ef.jvp(lambda x: f.fn(x, n, scale), (x,), (t,)),  # noqa: B023
        )


def test_a_variable_that_changes() -> None:
    f = ef.trace(lambda x: x * v)
    v = ef.Variable(2.0)
    assert ef.jvp(f, (ef.tensor(3.0),), (ef.tensor(1.0),))[1].item() == 2.0
    v.assign(5.0)
    assert ef.jvp(f, (ef.tensor(3.0),), (ef.tensor(1.0),))[1].item() == 5.0


def test_draws_are_those_of_eager_code() -> None:
    f = ef.trace(lambda x: x * ef.random.normal((2, 2)))
    ef.random.seed(3)
    traced = [ef.jvp(f, (X,), (T,)) for _ in range(3)]
    ef.random.seed(3)
    _same(traced, [ef.jvp(f.fn, (X,), (T,)) for _ in range(3)])


def test_nested_derivatives() -> None:
    f = ef.trace(steps)

    def twice(function: Callable[..., Any]) -> Any:
        return ef.jvp(lambda x: ef.jvp(function, (x,), (T,))[1], (X,), (T,))

    _same(twice(f), twice(steps))
    second = ef.hvp(lambda x: f(x).sum(), (X,), (T,))
    _same(second, ef.hvp(lambda x: steps(x).sum(), (X,), (T,)))


def test_a_tangent_that_is_lost_is_an_error_as_in_eager_code() -> None:
    f = ef.trace(lambda x: (x > 0.0).astype(ef.float32))
    for function in (f, f.fn, f):
        with pytest.raises(GradientError, match="which has no derivative"):
            ef.jvp(function, (X,), (T,))


def test_monitors_see_each_op() -> None:
    f = ef.trace(lambda x: ef.log(x))
    ef.jvp(f, (ef.ones(2),), (ef.ones(2),))
    with ef.config(check_nan=True), pytest.raises(ef.errors.NonFiniteError, match=r"%?log\b.*NaN"):
        ef.jvp(f, (ef.tensor([1.0, -1.0]),), (ef.ones(2),))
