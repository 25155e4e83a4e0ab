"""Functions that `ef.py_call` runs in each step: their reads are no part of a trace."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import py_call

X = ef.tensor(1.0)
counts = {"calls": 0}


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def count(self, x: ef.Tensor) -> ef.Tensor:
        self.calls += 1
        return x * self.calls


counter = Counter()


def count(x: ef.Tensor) -> ef.Tensor:
    counts["calls"] += 1
    return x * counts["calls"]


@pytest.fixture(autouse=True)
def _from_the_start() -> Iterator[None]:
    counts["calls"] = counter.calls = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def check(f: Any) -> None:
    """Each call counts, in one trace about which there is nothing to say."""
    assert [f(X).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert len(f.traces) == 1
    assert "note:" not in str(f.explain())


def test_a_global_function() -> None:
    check(ef.trace(lambda x: ef.py_call(count, "f32[]", x)))
    counts["calls"] = 0
    check(ef.trace(lambda x: py_call(count, "f32[]", x)))


def test_a_method_of_a_global_object() -> None:
    check(ef.trace(lambda x: ef.py_call(counter.count, "f32[]", x)))


def test_a_lambda_in_place() -> None:
    def add(x: ef.Tensor) -> ef.Tensor:
        return ef.py_call(lambda y: (count(y), y * counts["calls"])[1], ("f32[]"), x)

    check(ef.trace(add))


def test_a_function_made_inside() -> None:
    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        def inner(y: ef.Tensor, by: float = 1.0) -> ef.Tensor:
            counts["calls"] += 1
            return y * counts["calls"] * by

        return ef.py_call(inner, "f32[]", x)

    check(f)


def test_a_function_of_an_outer_one() -> None:
    calls = [0]

    def inner(y: ef.Tensor) -> ef.Tensor:
        calls[0] += 1
        return y * calls[0]

    check(ef.trace(lambda x: ef.py_call(inner, "f32[]", x)))


class Holder:
    def __init__(self) -> None:
        self.counter = Counter()
        self.function = count

    @ef.trace
    def method(self, x: ef.Tensor) -> ef.Tensor:
        return ef.py_call(self.counter.count, "f32[]", x)

    @ef.trace
    def attribute(self, x: ef.Tensor) -> ef.Tensor:
        return ef.py_call(self.function, "f32[]", x)


def test_what_an_object_holds() -> None:
    check(Holder().method)
    check(Holder().attribute)


def test_another_function_is_another_trace() -> None:
    holder = Holder()
    assert holder.attribute(X).item() == 1.0
    holder.function = lambda x: x * 100.0
    assert holder.attribute(X).item() == 100.0
    inner = count
    f = ef.trace(lambda x: ef.py_call(inner, "f32[]", x))
    assert f(X).item() == 2.0
    inner = holder.function
    assert f(X).item() == 100.0


def scaled(x: ef.Tensor) -> ef.Tensor:
    return x * factor


factor = 2.0


def test_what_is_called_while_tracing_too_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    f = ef.trace(lambda x: ef.py_call(scaled, "f32[]", x) + scaled(x))
    assert f(X).item() == 4.0
    monkeypatch.setitem(globals(), "factor", 5.0)
    assert f(X).item() == 10.0


def test_the_same_helper_beside_it_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def helper(x: ef.Tensor) -> ef.Tensor:
        return scaled(x)

    f = ef.trace(lambda x: (ef.py_call(scaled, "f32[]", x), helper(x)))
    assert [y.item() for y in f(X)] == [2.0, 2.0]
    monkeypatch.setitem(globals(), "scaled", lambda x: x * 7.0)
    assert [y.item() for y in f(X)] == [7.0, 7.0]
