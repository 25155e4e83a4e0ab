"""Cotangents by vjp rules of a user's: checked, and summed where an input was broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core import op as op_module
from eagerflow.extending import INEXACT, binary, bind, define, elementwise, joint, portable
from eagerflow_kernels import table
from tests.messages import says

Make = Callable[..., Any]


@pytest.fixture
def product() -> Iterator[Make]:
    """Defines a product of two inputs with these vjp rules."""

    @portable("test_product")
    def kernel(xp: Any, x: Any, beta: Any) -> Any:
        return x * beta

    def make(by_x: Any, by_beta: Any = None) -> Any:
        rules = (by_x, by_beta) if by_beta else by_x
        kind = elementwise(INEXACT)
        return define("test_product", infer=kind, vjp=rules, saved="inputs", replace=True)

    yield make
    table.remove("test_product")
    del op_module._ops["test_product"]


def by_x(g: Any, out: Any, x: Any, beta: Any) -> Any:
    return g * beta


def by_beta(g: Any, out: Any, x: Any, beta: Any) -> Any:
    return g * x  # of the shape of the result


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("transform", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_cotangents_are_summed_to_the_input(product: Make, transform: Any, shape: Any) -> None:
    op, x = product(by_x, by_beta), ef.reshape(ef.arange(6.0), (2, 3))
    beta = ef.ones(shape) * 2
    grad = transform(ef.grad(lambda x, beta: bind(op, x, beta).sum(), argnums=(0, 1)))
    expected = ef.grad(lambda x, beta: (x * beta).sum(), argnums=(0, 1))
    for got, wanted in zip(grad(x, beta), expected(x, beta), strict=True):
        assert got.type == wanted.type
        assert got.tolist() == wanted.tolist()
    tangents = [
        ef.jvp(f, (x, beta), (x, beta))[1] for f in (lambda *xs: bind(op, *xs), ef.multiply)
    ]
    assert tangents[0].tolist() == tangents[1].tolist()


def test_rows_of_vmap_and_sizes_of_a_trace(product: Make) -> None:
    op = product(by_x, by_beta)
    per_row = ef.vmap(lambda x, beta: ef.grad(lambda b: bind(op, x, b).sum())(beta), (0, None))
    assert per_row(ef.ones((4, 3)), ef.tensor(2.0)).tolist() == [3.0] * 4
    f = ef.trace(ef.grad(lambda beta, x: bind(op, x, beta).sum()))
    for n in (2, 3, 4, 5):
        assert f(ef.tensor(2.0), ef.ones((n, 2))).item() == 2 * n
    f = ef.trace(ef.grad(lambda beta, x: bind(op, x, beta).sum()))
    for n in (2, 3, 4, 5):
        assert f(ef.ones((n, 1)), ef.ones((n, 2))).tolist() == [[2]] * n


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((lambda g, out, x, beta: (2 * g)[:1], by_beta), "the vjp rule of x gives a cotangent"),
        ((by_x, lambda g, out, x, beta: (g * x).sum()), "the vjp rule of beta gives a cotangent"),
        ((by_x, lambda g, out, x, beta: g * x * 1j), "the vjp rule of beta gives a cotangent"),
        ((lambda g, out, x, beta: 0.0, by_beta), "the vjp rule of x gives no tensor"),
        ((by_x, lambda g, out, x, beta: np.ones(3)), "the vjp rule of beta gives no tensor"),
        ((by_x, lambda g, out, x, beta: ef.ones((9, 3))), "the vjp rule of beta gives a cotangent"),
        ((lambda g, out, x, beta: x > 0, by_beta), "the vjp rule of x gives a cotangent"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("transform", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_what_is_no_cotangent_is_refused(
    product: Make, transform: Any, rules: Any, words: str
) -> None:
    op = product(*rules)
    grad = transform(ef.grad(lambda x, beta: bind(op, x, beta).sum(), argnums=(0, 1)))
    with pytest.raises(errors.GradientError, check=says(words)):
        grad(ef.ones((2, 3)), ef.ones(3))


def test_a_rule_for_any_number_of_inputs(product: Make) -> None:
    op = product(
        lambda i, g, out, x, beta: by_beta(g, out, x, beta) if i else by_x(g, out, x, beta)
    )
    assert ef.grad(lambda b: bind(op, ef.ones((2, 3)), b).sum())(ef.tensor(1.0)).item() == 6
    op = product(lambda i, g, out, x, beta: g[0])
    with pytest.raises(errors.GradientError, check=says("the vjp rule of beta gives a cotangent")):
        ef.grad(lambda b: bind(op, ef.ones((2, 3)), b).sum())(ef.ones((2, 3)))


def test_rules_of_a_family_are_checked_too() -> None:
    portable("test_shifted")(lambda xp, x1, x2: x1 + x2)
    try:
        op = binary("test_shifted", INEXACT, lambda g, out, x1, x2: g, lambda g, out, x1, x2: g)
        gradient = ef.grad(lambda b: bind(op, ef.ones((2, 3)), b).sum())(ef.tensor(1.0))
        assert (gradient.shape, gradient.item()) == ((), 6)
    finally:
        table.remove("test_shifted")
        del op_module._ops["test_shifted"]


@pytest.mark.parametrize("shape", [(), (3,), (2, 1)], ids=str)
@pytest.mark.parametrize("transform", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_one_rule_for_all_inputs(product: Make, transform: Any, shape: Any) -> None:
    calls = []

    def rule(g: Any, out: Any, x: Any, beta: Any) -> Any:
        calls.append(1)
        return g * beta, g * x

    op, x = product(joint(rule)), ef.reshape(ef.arange(6.0), (2, 3))
    beta = ef.ones(shape) * 2
    by_both = transform(ef.grad(lambda x, beta: bind(op, x, beta).sum(), argnums=(0, 1)))
    expected = ef.grad(lambda x, beta: (x * beta).sum(), argnums=(0, 1))(x, beta)
    assert [g.tolist() for g in by_both(x, beta)] == [g.tolist() for g in expected]
    assert len(calls) == 1
    ef.check_grads(lambda x, beta: bind(op, x, beta), (x, beta))


@pytest.mark.parametrize("given", [lambda g: g, lambda g: (g,)], ids=["a tensor", "one of two"])
def test_one_rule_gives_a_cotangent_for_each_input(product: Make, given: Any) -> None:
    op = product(joint(lambda g, out, x, beta: given(g)))
    with pytest.raises(errors.GradientError, match="does not give a cotangent for each") as raised:
        ef.grad(lambda x: bind(op, x, x).sum())(ef.ones(2))
    assert "expected: a tuple of 2, with None for zero" in str(raised.value)
    assert "test_users_rules.py" in str(raised.value)


def test_one_rule_takes_all_inputs() -> None:
    @portable("test_joint")
    def kernel(xp: Any, x: Any, y: Any) -> Any:
        return x * y

    rule = joint(lambda g, out, x: (g, g))
    with pytest.raises(errors.OpDefinitionError, match="the vjp rule of all inputs does") as raised:
        define("test_joint", infer=elementwise(INEXACT), vjp=rule)
    assert "rule(g, out, x1, x2, **attrs)" in str(raised.value)
    table.remove("test_joint")
