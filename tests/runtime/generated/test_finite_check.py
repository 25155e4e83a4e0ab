"""``ef.config(check_nan=True)`` in traced functions: their code checks the result of each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import NonFiniteError
from eagerflow.runtime import is_watched

# NumPy warns first of the values tested here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _straight(x: Any) -> Any:
    y = ef.log(x)  # here
    return y * 2


def _hidden(x: Any) -> Any:
    """The result is finite, though an intermediate value is not."""
    y = ef.log(x)  # here
    return ef.where(x > 0, y, 0.0)


def _updated(x: Any) -> Any:
    y = x * 2
    y[1:] = ef.log(x[:-1])  # here
    return y.sum()


def _in_place(x: Any) -> Any:
    """The op may write into its operand."""
    y = x + 1
    y -= 1
    y **= 2
    return ef.log(y)  # here


def _in_a_loop(x: Any) -> Any:
    for _ in ef.arange(3):
        x = ef.log(x) + 1  # here
    return x


def _in_a_branch(x: Any) -> Any:
    if x.sum() >= 0:
        return ef.log(x)  # here
    return x


@pytest.mark.parametrize("f", [_straight, _hidden, _updated, _in_place, _in_a_loop, _in_a_branch])
@pytest.mark.parametrize("how", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_the_op_and_the_line(how: Callable[..., Any], f: Any) -> None:
    x, run = ef.tensor([0.0, 1.0, 2.0]), how(f)
    run(x + 1)
    with ef.config(check_nan=True):
        assert not is_watched()  # without a run op by op
        with pytest.raises(NonFiniteError, match="log: made an infinity from finite") as caught:
            run(x)
        run(x + 1)
    assert caught.value.source is not None
    assert caught.value.source.text.endswith("# here")
    assert "f32[" in str(caught.value.given)
    run(x)  # the check is off again


def test_what_is_not_made_from_finite_inputs_passes() -> None:
    bad = np.array([np.nan, np.inf, 1.0], "f4")
    state = ef.Variable(bad)

    @ef.trace
    def f(x: Any, where: Any) -> Any:
        y = x * 2 + ef.tensor(bad)
        y[0] = y[1]
        y += state
        kept = ef.where(where, x, float("-inf"))
        return y, kept, ef.full((2,), float("nan")), ef.pad(x, 1, constant_values=float("inf"))

    where = ef.tensor([False, True, True])
    want = f(ef.tensor(bad), where)
    with ef.config(check_nan=True):
        for got, same in zip(f(ef.tensor(bad), where), want, strict=True):
            np.testing.assert_array_equal(got.numpy(), same.numpy())


def test_training_is_the_same_bits() -> None:
    def losses(check: bool) -> list[float]:
        rng = ef.random.Generator(0)
        net = ef.nn.Sequential(ef.nn.Linear(4, 8, generator=rng), ef.nn.Linear(8, 1, generator=rng))
        optimiser = ef.optim.Adam(net.trainable)
        step = ef.value_and_grad(lambda x: (net(x) ** 2).mean(), wrt=net.trainable)

        @ef.trace
        def train(x: Any) -> Any:
            loss, gradients = step(x + ef.random.normal((3, 4), generator=rng))
            optimiser.update(gradients)
            return loss

        with ef.config(check_nan=check):
            return [train(ef.ones((3, 4))).item() for _ in range(4)]

    assert losses(True) == losses(False)


def test_what_is_set_before_the_runtime_is_there_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bool] = []
    monkeypatch.setattr(ef.settings, "_hooks", [*ef.settings._hooks])
    with ef.config(check_nan=True):
        ef.settings.on_change(lambda old, new: heard.append(new.check_nan))
    assert heard == [True, False]


@pytest.mark.parametrize("make", [lambda x: x @ x, lambda x: (x * 3e8).mean()], ids=["@", "mean"])
def test_an_infinite_product_is_first_blamed_on_the_rate(make: Any) -> None:
    x = ef.full((2, 2), 1e30)
    with ef.config(check_nan=True), pytest.raises(NonFiniteError) as caught:
        make(x)
    assert str(caught.value.hint).startswith("in training, the rate is too high: a smaller lr=")


def test_of_two_calls_in_a_line_the_message_quotes_one() -> None:
    def loss(p: Any) -> Any:
        return -(ef.log(p) + ef.log(1 - p))

    for run in (loss, ef.trace(loss)):
        with ef.config(check_nan=True), pytest.raises(NonFiniteError) as caught:
            run(ef.tensor([0.5, 1.0]))
        assert "(ef.log(p) + ef.log(1 - p))\n  in its part: ef.log(1 - p)" in str(caught.value)


def test_an_expression_that_is_the_whole_line_is_not_quoted() -> None:
    with ef.config(check_nan=True), pytest.raises(NonFiniteError) as caught:
        _straight(ef.tensor([0.0]))
    assert "in its part" not in str(caught.value)
