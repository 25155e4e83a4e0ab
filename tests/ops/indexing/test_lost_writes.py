"""Refusal of ``x[i][j] = v``, a lost write: into a tensor to which no reference remains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TensorValueError


def _twice(x: Any) -> None:
    x[0][1] = 5.0


def _more(x: Any) -> None:
    x[0][1] += 5.0


def _slice(x: Any) -> None:
    x[0][1:] = 5.0


def _computed(x: Any) -> None:
    i = 1
    x[i - 1][i + 0 :] -= 5.0


def _transposed(x: Any) -> None:
    x.T[0] = 5.0


def _reshaped(x: Any) -> None:
    x.reshape(6)[0] = 5.0


def _masked(x: Any) -> None:
    x[x > 0][0] = 5.0


def _of_a_variable(x: Any) -> None:
    ef.Variable(x)[0][1] = 5.0


@pytest.mark.parametrize("write", [_twice, _more, _slice, _computed, _transposed, _reshaped,
                                   _masked, _of_a_variable])  # fmt: skip
@pytest.mark.parametrize("how", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_a_write_into_what_nothing_holds(how: Callable[..., Any], write: Any) -> None:
    x = ef.ones((2, 3))
    with pytest.raises(TensorValueError, match="without a name would be lost") as caught:
        how(write)(x)
    assert caught.value.source is not None
    assert caught.value.source.function == write.__name__
    assert "x[i, j] = v instead of x[i][j] = v" in str(caught.value.hint)


def test_under_a_tape() -> None:
    def f(x: Any) -> Any:
        x = x * x
        x[0][1] = 5.0
        return x.sum()

    with pytest.raises(TensorValueError, match="would be lost"):
        ef.grad(f)(ef.ones((2, 3)))


class _Owner:
    def __init__(self) -> None:
        self.x = ef.zeros((2, 3))

    def get(self) -> Any:
        return self.x


def _kept(x: Any, owner: Any) -> Any:
    x[0, 1] = 1.0
    x[0] += 1.0
    x[0:1] -= 1.0
    listed, named = [x * 2], {"a": x * 3}
    listed[0][1] = 2.0
    listed[-1][0:1] += 2.0
    named["a"][0, 0] += 3.0
    owner.x[0] = 4.0
    owner.get()[1] = 5.0
    for each in (x, *listed):
        each[1, 1] = 6.0
    (y := x * 7)[0] = 7.0
    return x, listed[0], named["a"], owner.x, y


@pytest.mark.parametrize("f", [_kept, ef.trace(_kept)], ids=["eager", "traced"])
def test_what_something_holds_is_written(f: Any) -> None:
    assert [y.tolist() for y in f(ef.zeros((2, 3)), _Owner())] == [
        [[0.0, 1.0, 0.0], [0.0, 6.0, 0.0]],
        [[2.0, 4.0, 2.0], [2.0, 6.0, 2.0]],
        [[3.0, 3.0, 0.0], [0.0, 0.0, 0.0]],
        [[4.0, 4.0, 4.0], [5.0, 5.0, 5.0]],
        [[7.0, 7.0, 7.0], [0.0, 42.0, 0.0]],
    ]
