"""Results that do not depend on the differentiated value: their cotangents lead nowhere.

They may differ in shape and device from each other, and from results that depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef

X = ef.tensor([0.25, 0.5], dtype=ef.float64)
THREE = ef.tensor([1.0, 2.0, 3.0], dtype=ef.float64)


@pytest.fixture(autouse=True)
def devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


def there(x: Any) -> Any:
    return x.to("cpu:1")


def total(tensors: Any) -> Any:
    return sum(x.to("cpu:0").sum() for x in tensors)


def one(x: Any) -> Any:
    """What depends on ``x``; with each of the following it is the only thing that does."""
    return ef.sin(x) * x


def several(x: Any) -> tuple[Any, ...]:
    return one(x), THREE * 2, there(THREE) * 3, ef.ones(4), ef.zeros((2, 2), device="cpu:1")


def in_cond(x: Any) -> Any:
    return ef.cond(X.sum() > 0, lambda: several(x), lambda: several(x * 2))


def in_switch(x: Any) -> Any:
    return ef.switch(ef.tensor(1), [lambda: several(x * 2), lambda: several(x)])


def in_while_loop(x: Any) -> Any:
    def body(i: Any, y: Any, a: Any, b: Any) -> Any:
        return i + 1, y + one(x), a * 2, b * 3

    start = (ef.tensor(0), x * 0, THREE, there(THREE[:2]))
    return ef.while_loop(lambda i, y, a, b: i < 1, body, start)[1:]


def in_scan(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        y, a, b = carry
        return (y + one(x), a * 2, b * 3), several(x)[1:]

    (y, a, b), kept = ef.scan(step, (x * 0, THREE, there(THREE[:2])), ef.arange(1))
    return y, a, b, *kept


FORMS = [in_cond, in_switch, in_while_loop, in_scan, ef.remat(several),
         lambda x: ef.call(several, x), ef.trace(several)]  # fmt: skip
IDS = ["cond", "switch", "while_loop", "scan", "remat", "call", "trace"]


def along(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient, as a function to differentiate again."""
    return lambda x: (ef.grad(lambda v: total(f(v)))(x) * X).sum()


@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_first_and_second_order(form: Callable[..., Any]) -> None:
    def plain(x: Any) -> Any:
        return (one(x),)

    for order, want in (
        (lambda f: ef.grad(lambda v: total(f(v))), ef.grad(lambda v: total(plain(v)))(X)),
        (lambda f: ef.grad(along(f)), ef.grad(along(plain))(X)),
    ):
        for gradient in (order(form), ef.trace(order(form)), order(ef.trace(form))):
            np.testing.assert_allclose(gradient(X).numpy(), want.numpy(), rtol=1e-12)


def chained(x: Any) -> Any:
    """A carry on the other device, through branches that transfer."""
    y = there(x)
    for _ in range(2):
        y = ef.cond(x.sum() > 0, lambda y=y: ef.tanh(y * there(x * 2)), lambda y=y: y * 2)
    return (y,)


def two_sizes(x: Any) -> Any:
    """Residuals of several shapes."""
    w = ef.concat([x, x.sum()[None]]) * 2
    return ef.cond(
        x.sum() > 0, lambda: (ef.tanh(x).sum() * ef.sin(w).sum(),),
        lambda: (x.sum() * 2 + 3 * w.sum(),),
    )  # fmt: skip


@pytest.mark.parametrize("f", [chained, two_sizes])
def test_residuals_of_branches_that_differ(f: Callable[..., Any]) -> None:
    """The second derivative goes back over forward parts, whose residuals are results."""
    want = ef.grad(along(f))(X).numpy()
    np.testing.assert_allclose(ef.trace(ef.grad(along(f)))(X).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(ef.grad(ef.trace(along(f)))(X).numpy(), want, rtol=1e-12)
    third = ef.grad(lambda x: (ef.grad(along(f))(x) * X).sum())
    np.testing.assert_allclose(ef.trace(third)(X).numpy(), third(X).numpy(), rtol=1e-12)


def test_a_tape() -> None:
    with ef.GradientTape() as tape:
        tape.watch(X)
        ys = several(X)
    np.testing.assert_allclose(tape.gradient(ys, X).numpy(), ef.grad(lambda x: one(x).sum())(X))


def test_a_pullback() -> None:
    ys, pullback = ef.vjp(several, X)
    (g,) = pullback(tuple([y * 0 + 1 for y in ys]))
    np.testing.assert_allclose(g.numpy(), ef.grad(lambda x: one(x).sum())(X).numpy())


def test_a_jacobian() -> None:
    first, *others = ef.jacobian(several)(X)
    np.testing.assert_allclose(first.numpy(), ef.jacobian(one)(X).numpy())
    assert not any(np.any(block.numpy()) for block in others)


def test_a_result_that_is_given_twice() -> None:
    def twice(x: Any) -> Any:
        y = ef.concat([x, x]) * 2
        return y, y

    first, second = ef.jacobian(twice)(X)
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    np.testing.assert_array_equal(first.numpy(), 2 * np.tile(np.eye(2), (2, 1)))
