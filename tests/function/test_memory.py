"""Memory that traced functions retain: none per call, little per trace."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

import eagerflow as ef
from eagerflow.errors import TraceWarning
from tests.test_memory import BIG, growth


def test_calls_leave_nothing() -> None:
    w = ef.Variable(ef.ones(4))

    @ef.trace
    def step(x, rate):
        return w.assign_sub((x - w) * rate).sum()

    x = ef.ones(4)
    step(x, 0.1)
    step.wait()  # kernels stay, and so does the compiler
    assert growth(lambda: step(x, 0.1), 5_000) < 20_000


@pytest.mark.slow
def test_a_million_calls_leave_nothing() -> None:
    @ef.trace
    def step(x, y):
        return x * 2.0 + y

    x, y = ef.ones((4, 4)), ef.ones((4, 4))
    step(x, y)
    step.wait()  # as above

    def work() -> None:
        for _ in range(1_000):
            step(x, y)

    assert growth(work, 1_000) < 20_000


def test_calls_under_a_tape_leave_nothing() -> None:
    traced = ef.trace(lambda x: (x * x).sum(), compile="off")  # a compilation beside it leaves code
    x = ef.ones(25_000)
    assert growth(lambda: ef.grad(traced)(x), 30) < BIG


def test_values_are_freed_at_their_last_use() -> None:
    seen: list[int] = []

    def count(x):
        seen.append(sum(r() is not None for r in alive))
        alive.append(weakref.ref(x._data))
        return x

    alive: list[weakref.ref] = []

    @ef.trace
    def f(x):
        for _ in range(6):
            x = ef.py_call(count, "f32[1000]", x * 2.0) + 1.0
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        f(ef.ones(1000))
        seen.clear()
        alive.clear()
        f(ef.ones(1000))
    assert max(seen) <= 1


def test_errors_of_traced_code_leave_nothing() -> None:
    @ef.trace
    def f(x, i):
        return (x * 2.0)[i]

    x, i = ef.ones(25_000), ef.tensor(30_000)

    def work() -> None:
        with pytest.raises(ef.errors.TensorIndexError):
            f(x, i)

    assert growth(work, 30) < BIG


def test_a_failed_trace_leaves_nothing() -> None:
    @ef.trace
    def f(x):
        y = x * 2.0
        return int(y.sum())

    x = ef.ones(25_000)

    def work() -> None:
        with pytest.raises(ef.errors.TraceError):
            f(x)
        gc.collect()

    assert growth(work, 10) < BIG
