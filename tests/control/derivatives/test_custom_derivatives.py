"""Rules of the user and remat within branches and loops of traces, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import GradientError
from tests.control.derivatives.comparing import W, X, check, close, twice

# mypy: disable-error-code="no-untyped-def"


@ef.custom_vjp
def rounded(x):
    return ef.round(x)


rounded.defvjp(lambda x: (rounded(x), None), lambda _, g: (g,))


@ef.custom_vjp
def scaled(x, s):
    return x * s


scaled.defvjp(lambda x, s: (x * s, s), lambda s, g: (g * s * 3, None))


def rule_in_a_loop(x, w):
    body = lambda y, i: (rounded(y * 3) * w + ef.sin(y), i + 1)
    return ef.while_loop(lambda y, i: i < 2, body, (x, 0))[0].sum()


def rule_in_a_branch(x, w):
    return ef.cond(x.sum() > -9, lambda: rounded(x) * w, lambda: x).sum()


def rule_in_a_scan(x, w):
    return ef.scan(lambda c, v: (rounded(c * v) + ef.sin(v), c * v), x[0], w)[1].sum() + x.sum()


def rule_with_a_number_of_iterations(x, w):
    body = lambda y, i: (scaled(y, i * 0.5 + 1), i + 1)
    return ef.while_loop(lambda y, i: i < 3, body, (x, 0))[0].sum() + w.sum()


def rule_in_remat(x, w):
    block = ef.remat(lambda y: rounded(ef.sin(y) * w) + y)
    return ef.while_loop(lambda y, i: i < 2, lambda y, i: (block(y), i + 1), (x, 0))[0].sum()


@pytest.mark.parametrize("f", [
    rule_in_a_loop, rule_in_a_branch, rule_in_a_scan, rule_with_a_number_of_iterations,
    rule_in_remat,
])  # fmt: skip
def test_rules_hold_inside(f: Callable[..., Any]) -> None:
    check(f)
    graph = ef.trace(f).graph(X, W)
    assert "forward=graph" in str(graph)
    assert str(ef.Graph.parse(str(graph))) == str(graph)


def test_remat_around_loops_and_branches_with_effects() -> None:
    """Their values are kept, and so is what derivatives by values of the block need."""
    v = ef.Variable(ef.tensor([0.5, 1.0, 2.0, -1.0], dtype=ef.float64))

    def block(y):
        z = ef.sin(y)

        def body(a, i):
            v.assign_add(a * 0.1)
            return ef.tanh(a * z) + y, i + 1

        a, _ = ef.while_loop(lambda a, i: i < 2, body, (z * 2, 0))
        return ef.cond(z.sum() > 0, lambda: v.assign_sub(z) * 0 + a * z, lambda: a)

    def plain(x, w):
        return (block(x) * block(x + w)).sum()

    def saving(x, w):
        again = ef.remat(block)
        return (again(x) * again(x + w)).sum()

    for transform in (lambda f: ef.grad(f, (0, 1)), twice):
        expected = transform(plain)(X, W)
        for f in (saving, ef.trace(saving)):
            close(transform(f)(X, W), expected)
        close(ef.trace(transform(saving))(X, W), expected)


def test_remat_keeps_less_in_a_loop() -> None:
    def block(y):
        return ef.tanh(ef.sin(ef.exp(-y * y) * y)) * y

    def kept(block):
        def f(x):
            return ef.while_loop(lambda y, i: i < 5, lambda y, i: (block(y), i + 1), (x, 0))[
                0
            ].sum()

        bodies = [n.attrs["body"] for n in ef.trace(ef.grad(f)).graph(X).nodes if "body" in n.attrs]
        return [len(n.inputs) - 1 for g in bodies for n in g.nodes if n.op == "list_push"]

    assert kept(block) == [5]
    assert kept(ef.remat(block)) == [1]


def test_a_rule_around_what_is_outside() -> None:
    """It may use tensors from around it, but gives them no derivative: that is an error."""

    def f(x, w):
        @ef.custom_vjp
        def shifted(y):
            return y * w

        shifted.defvjp(lambda y: (y * w, None), lambda _, g: (g * w * 2,))
        return ef.while_loop(lambda y, i: i < 2, lambda y, i: (shifted(y), i + 1), (x, 0))[0].sum()

    close([ef.trace(ef.grad(f))(X, W)], [4 * W * W])
    for g in (ef.grad(f, 1), ef.trace(ef.grad(f, 1))):
        with pytest.raises(GradientError, match="reaches the result only through shifted"):
            g(X, W)


def test_a_rule_that_looks_at_values() -> None:
    """It cannot be traced; who takes no derivative does not notice."""

    @ef.custom_vjp
    def clipped(x):
        return x * 2

    clipped.defvjp(lambda x: (x * 2, x), lambda x, g: (g * float(x.sum()),))

    def f(x):
        return ef.cond(x.sum() > 0, lambda: clipped(x), lambda: x).sum()

    assert float(ef.trace(f)(X)) == float(f(X))
    with pytest.raises(GradientError, match="clipped: its rule cannot be traced"):
        ef.trace(ef.grad(f))(X)
