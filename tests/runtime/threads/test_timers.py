"""Timers: delayed calls with one thread for all, and no thread without calls."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerflow.runtime.threads.clock import AbstractClock
from eagerflow.runtime.threads.timers import Timer, Timers
from eagerflow.runtime.threads.workers import Workers


class Now(AbstractClock):
    """A clock that advances to the end of each wait that no bell ends."""

    def __init__(self) -> None:
        self.time = 0.0
        self.go = threading.Event()

    def now(self) -> float:
        return self.time

    def wait(self, bell: threading.Lock, seconds: float | None) -> None:
        self.go.wait()
        if not bell.acquire(blocking=False):
            self.time += seconds or 0.0


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=200))
def test_calls_come_in_the_order_of_their_times(calls: list[tuple[int, bool]]) -> None:
    clock, called = Now(), list[tuple[float, int]]()
    timers = Timers(clock)
    made: list[Timer] = []
    for i, (seconds, _) in enumerate(calls):
        made.append(timers.call(1 + seconds, lambda i=i: called.append((clock.time, i))))
    for timer, (_, cancelled) in zip(made, calls, strict=True):
        if cancelled:
            timer.cancel()
            timer.cancel()
    clock.go.set()
    timers.join()
    assert called == sorted((1 + s, i) for i, (s, cancelled) in enumerate(calls) if not cancelled)
    assert not timers._live
    assert timers._thread is None


def test_the_thread_ends_with_the_last_call() -> None:
    timers = Timers(Now())  # the clock stands still
    first, second = timers.call(1, lambda: None), timers.call(2, lambda: None)
    thread = timers._thread
    assert thread is not None
    first.cancel()
    assert thread.is_alive()
    timers._clock.go.set()
    second.cancel()
    thread.join()
    timers.call(0, lambda: None)
    timers.join()
    timers.reset()


def test_a_pool_with_few_threads() -> None:
    pool = Workers(most=lambda: 2, name="few")
    inside, go = list[str](), threading.Event()
    both = threading.Barrier(3)

    def job(number: int) -> None:
        if number < 2:
            both.wait()
        go.wait()
        inside.append(threading.current_thread().name)

    for number in range(10):
        pool.submit(lambda number=number: job(number))
    both.wait()
    assert len(pool) == 2
    go.set()
    pool.close()
    assert len(inside) == 10
    assert set(inside) <= {"eagerflow-few-1", "eagerflow-few-2"}
    assert not len(pool)


def test_a_call_that_raises_is_told_and_the_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))
    clock, called = Now(), list[int]()

    def fail() -> None:
        raise RecursionError("as planned")

    timers = Timers(clock)
    timers.call(1, fail)
    timers.call(2, lambda: called.append(2))
    clock.go.set()
    timers.join()
    assert called == [2]
    assert [str(e) for e in told] == ["as planned"]
    timers.call(1, lambda: called.append(3))
    timers.join()
    assert called == [2, 3]
