"""Functions that users give to parts of the library, which call them in a trace."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.messages import says


def by_sign(x):
    if x.sum() > 0:
        return x * 2
    return x * 3


def branching_vjp():
    function = ef.custom_vjp(by_sign)

    def forward(x):
        if x.sum() > 0:
            return x * 2, x
        return x * 3, x

    def backward(x, g):
        if x.sum() > 0:
            return (g * 2,)
        return (g * 3,)

    function.defvjp(forward, backward)
    return function


def custom_rule():
    function = branching_vjp()
    return lambda x: function(x)


def gradient_of_custom_rule():
    function = branching_vjp()
    return lambda x: ef.grad(lambda x: function(x).sum())(x)


def chain():
    model = ef.nn.Sequential(by_sign, lambda x: x + 1 if x.sum() > 0 else x - 1)
    return lambda x: model(x)


def activation():
    layer = ef.nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, activation=by_sign)
    return lambda x: layer(x[None])[0]


def learning_rate():
    def run(x):
        v = weights
        v.assign(x)
        optimiser.update([x])
        optimiser.update([x])
        return v.value

    weights = ef.Variable(ef.zeros((2, 2)))
    optimiser = ef.optim.SGD([weights], lr=lambda n: 0.5 if n < 1 else min(0.1 * n, 0.2))
    return run


def loss():
    def run(x):
        w.assign(x)
        optimiser.step(squares)
        return w.value

    def squares():
        if w.sum() > 0:
            return (w * w).sum()
        return (w * w * 2).sum()

    w = ef.Variable(ef.zeros((2, 2)))
    optimiser = ef.optim.LBFGS([w], max_iter=3)
    return run


@pytest.mark.parametrize("x", [[[1.0, 2.0], [3.0, -4.0]], [[-1.0, -2.0], [3.0, -4.0]]])
@pytest.mark.parametrize(
    "make",
    [custom_rule, gradient_of_custom_rule, chain, activation, learning_rate, loss],
)  # fmt: skip
def test_branches_become_parts_of_the_graph(make, x) -> None:
    ef.random.seed(0)
    x = ef.tensor(x)
    expected = make()(x)
    ef.random.seed(0)
    assert ef.allclose(ef.trace(make())(x), expected, rtol=1e-5)


def test_a_function_of_math_is_told_of_its_counterpart() -> None:
    optimiser = ef.optim.SGD([ef.Variable(ef.ones(2))], lr=lambda n: 0.1 * math.cos(n))
    with pytest.raises(TraceError, check=says("hint: use ef.cos")):
        ef.trace(lambda: optimiser.update([ef.ones(2)]))()
