"""`eval_shape`: types of results, without computing them or doing anything outside."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import ShapeError, TraceError
from tests.messages import says


def test_the_structure_is_that_of_the_result() -> None:
    def f(x: Any, y: Any, flag: bool = False) -> Any:
        return {"product": x @ y, "x": x, "n": 3, "flag": flag, "none": None}

    x, y = ef.ones((2, 3)), ef.ones((3, 4), dtype=ef.float64)
    types = ef.eval_shape(f, x, y.astype(ef.float32), flag=True)
    assert types["product"] == (x @ y.astype(ef.float32)).type
    assert types["x"] == x.type
    assert (types["n"], types["flag"], types["none"]) == (3, True, None)


def test_types_in_place_of_tensors_take_no_memory() -> None:
    huge = ef.types.TensorType(ef.float32, (10**6, 10**6))
    result = ef.eval_shape(lambda x, y: (x @ y).sum(1), huge, huge.on("cpu:0"))
    assert (result.shape, result.dtype, str(result.device)) == ((10**6,), ef.float32, "cpu:0")


def test_of_modules_traced_functions_and_methods() -> None:
    net = ef.nn.Sequential(ef.nn.Linear(3, 4), ef.nn.Linear(4, 5))
    x = ef.ones((2, 3))
    for f in (net, ef.trace(net), net.forward, ef.trace(lambda x: net(x))):
        assert ef.eval_shape(f, x).shape == (2, 5)
    assert ef.eval_shape(ef.grad(lambda x: net(x).sum()), x) == x.type
    assert ef.trace(net).abstract(x).shape == (2, 5)


def test_nothing_is_done() -> None:
    v, made = ef.Variable(1.0), []

    def f(x: Any) -> Any:
        v.assign(x)
        made.append(x)
        return ef.random.normal((3,)) + v

    ef.random.seed(3)
    assert ef.eval_shape(f, ef.tensor(2.0)).shape == (3,)
    after = ef.random.normal((2,)).tolist()
    ef.random.seed(3)
    assert after == ef.random.normal((2,)).tolist()
    assert v.item() == 1.0
    assert made == []


def test_what_is_refused() -> None:
    with pytest.raises(ShapeError, check=says("inner dimensions")):
        ef.eval_shape(ef.matmul, ef.ones((2, 3)), ef.ones((2, 3)))
    with pytest.raises(TraceError, check=says("known without eval_shape")):
        ef.trace(lambda x: ef.eval_shape(ef.exp, x))(ef.ones(2))
