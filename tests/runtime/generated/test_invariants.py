"""Loop-invariant code motion: invariants are computed before a loop, if that is safe."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError
from eagerflow.runtime import Executable
from tests.messages import says


def before_and_inside(function: Any, *args: Any) -> tuple[str, str]:
    """The text of the program before its first loop, and the rest."""
    text = Executable(ef.trace(function).graph(*args)).text
    before, loop, inside = text.partition("\n for k")
    assert loop
    return before, inside


W, X = ef.ones((3, 3)), ef.ones((4, 3))


def test_a_view_leaves_any_loop() -> None:
    def function(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
        return ef.while_loop(lambda x: ef.all(x < 100), lambda x: x @ w.T + 1, x)

    before, inside = before_and_inside(function, X, W)
    assert ".transpose(" in before
    assert ".transpose(" not in inside


def test_what_takes_time_leaves_a_loop_that_has_an_iteration() -> None:
    def function(n: int) -> Any:
        return lambda x, w: ef.scan(lambda x, _: (x @ ef.exp(w), None), x, None, length=n)[0]

    before, inside = before_and_inside(function(3), X, W)
    assert "exp" in before
    assert "exp" not in inside
    before, inside = before_and_inside(function(0), X, W)
    assert "exp" in inside


def test_what_may_fail_fails_only_in_an_iteration() -> None:
    @ef.trace
    def function(x: ef.Tensor, i: ef.Tensor, n: int) -> ef.Tensor:
        return ef.while_loop(lambda y, k: k < n, lambda y, k: (y + x[i], k + 1), (0.0, 0))[0]

    out = ef.tensor(7)
    assert float(function(ef.ones(3), out, 0)) == 0.0
    with pytest.raises(EagerflowError, check=says("7")):
        function(ef.ones(3), out, 2)


def test_conditions_and_loops_in_loops() -> None:
    def function(x: ef.Tensor, w: ef.Tensor, most: ef.Tensor) -> ef.Tensor:
        def inner(x: ef.Tensor) -> ef.Tensor:
            return ef.scan(lambda x, _: (x @ w.T, None), x, None, length=2)[0]

        return ef.while_loop(lambda x: ef.all(x < ef.sqrt(most)), lambda x: inner(x) + 1, x)

    before, inside = before_and_inside(function, X, W, ef.tensor(100.0))
    assert ".transpose(" in before
    assert "sqrt" in before
    assert "sqrt" not in inside
    args = (X, W, ef.tensor(100.0))
    assert (ef.trace(function)(*args) == function(*args)).all()


def test_effects_stay() -> None:
    v = ef.Variable(0.0)

    def function(x: ef.Tensor) -> ef.Tensor:
        return ef.scan(lambda s, _: (s + v.assign_add(1.0) * x, None), ef.tensor(0.0), None,
                       length=4)[0]  # fmt: skip

    assert float(ef.trace(function)(ef.tensor(2.0))) == 20.0
    assert float(v) == 4.0
