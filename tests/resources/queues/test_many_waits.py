"""Thousands of waits of one step, and every way in which they end together: none is left over.

There are more waits than Python has frames: nothing recurses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runtime.threads.timers import timers
from tests.exploring import EXPLORES
from tests.resources.queues.modes import numbers
from tests.resources.queues.still_clock import LONG, StillClock, still_clock, until

#: so many waits of one graph are unrolled on purpose
pytestmark = pytest.mark.filterwarnings("ignore:.*is unrolled:eagerflow.errors.TraceWarning")

MANY = 3000 if EXPLORES else 1200


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[StillClock]:
    with still_clock(monkeypatch) as made:
        yield made


def waiting(timeout: float | None = None) -> tuple[ef.Queue, ef.Queue, ef.Runner]:
    """A queue with `MANY` waits of a run, another queue with one wait of it, and the runner."""
    queue, other = ef.Queue(7, ef.tensor(0)), ef.Queue(7, ef.tensor(0))

    @ef.trace
    def many() -> None:
        with ef.unordered():
            other.dequeue(timeout=timeout)
            [queue.dequeue(timeout=timeout) for _ in range(MANY)]

    runner = ef.spawn(many)
    until(lambda: queue.resource.waiting(1) == MANY and other.resource.waiting(1) == 1)
    return queue, other, runner


def ended(queue: ef.Queue, other: ef.Queue, runner: ef.Runner) -> type[BaseException] | None:
    """The type of the error that ended the runner; no wait is left."""
    until(lambda: not runner.running)
    assert queue.resource.waiting(1) == other.resource.waiting(1) == 0
    return None if runner.error is None else type(runner.error)


@pytest.mark.parametrize("cancel", [False, True])
def test_their_queue_is_closed(cancel: bool) -> None:
    queue, other, runner = waiting()
    queue.close(cancel)
    assert ended(queue, other, runner) is None


def test_it_is_closed_deep_in_calls() -> None:
    queue, other, runner = waiting()

    def deep(calls: int) -> None:
        if calls:
            deep(calls - 1)
        else:
            queue.close()

    deep(500)
    assert ended(queue, other, runner) is None


def test_another_one_is_closed() -> None:
    queue, other, runner = waiting()
    other.close()
    assert ended(queue, other, runner) is None


def test_the_runner_is_stopped() -> None:
    queue, other, runner = waiting()
    runner.stop()
    assert ended(queue, other, runner) is None


def test_they_are_served() -> None:
    queue, other, runner = waiting()
    other.enqueue(1)
    queue.enqueue_many(ef.arange(MANY))
    until(lambda: runner.steps == 1)
    runner.stop()
    assert numbers(queue.size()) == 0


def test_their_time_is_over(clock: StillClock, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # later timers work as before
        queue, other, runner = waiting(LONG)
        clock.time += 2 * LONG
        assert ended(queue, other, runner) is errors.WaitTimeoutError
        clock.time += LONG
        timers.join()
        assert "WaitTimeoutError" in capsys.readouterr().err


def test_in_a_call(clock: StillClock) -> None:
    """The step's own thread waits."""
    queue, timeouts = ef.Queue(7, ef.tensor(0)), list[Any]()

    @ef.trace
    def many() -> Any:
        with ef.unordered():
            return [queue.dequeue(timeout=LONG) for _ in range(MANY)]

    def call() -> None:
        with pytest.raises(errors.WaitTimeoutError):
            many()
        timeouts.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: queue.resource.waiting(1) == MANY)
    clock.time += 2 * LONG
    thread.join()
    assert timeouts
    assert queue.resource.waiting(1) == 0
