"""10,000 dequeues that wait at once in two threads, and every way in which they end.

100 runners run steps of 100 dequeues each: afterwards no thread, process or memory is left over.
`make test` has 12 runners.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any, final

import psutil
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runtime.scheduled import detached
from eagerflow.runtime.threads.timers import timers
from tests.conftest import running_threads
from tests.ctrl_c import ctrl_c_raises
from tests.exploring import EXPLORES
from tests.resources.queues.modes import numbers
from tests.resources.queues.still_clock import LONG, StillClock, still_clock, until

EACH = 100
RUNNERS = 100 if EXPLORES else 12
ALL = RUNNERS * EACH
_ROUNDS = 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[StillClock]:
    monkeypatch.setattr(detached.serving, "_most", lambda: 2)
    with still_clock(monkeypatch) as made:
        yield made


@final
class Waits:
    """Runners that all wait for one queue.

    Args:
        timeout: of each dequeue.
        around: makes a context manager, entered around each `ef.spawn`.
    """

    def __init__(self, timeout: float | None, around: Callable[[], Any]) -> None:
        self.queue = queue = ef.Queue(50, ef.tensor(0))
        self.seen = seen = ef.Variable(0)

        @ef.trace(compile="off")  # threads are counted, so no compiler thread may run
        def hundred() -> None:
            with ef.unordered():
                elements = [queue.dequeue(timeout=timeout) for _ in range(EACH)]
                total = sum(elements, start=ef.tensor(0))
            seen.assign_add(total)

        hundred.graph()
        self.function = hundred
        self.around = around
        self.runners: list[ef.Runner] = []

    def spawn(self) -> None:
        for _ in range(RUNNERS):
            with self.around():
                self.runners.append(ef.spawn(self.function))
        self.all_wait()

    def all_wait(self) -> None:
        until(lambda: self.queue.resource.waiting(1) == ALL)
        names = [t.name for t in running_threads() if t is not threading.main_thread()]
        assert sum(name.startswith("eagerflow-server") for name in names) <= 2
        assert len(names) <= 2 + ("eagerflow-timers" in names)

    def errors(self) -> set[type]:
        """The types of the errors that ended the runners."""
        for runner in self.runners:
            until(lambda runner=runner: not runner.running)
        return {type(runner.error) for runner in self.runners}


def one_round(waits: Waits, end: Callable[[Waits], object]) -> None:
    """Let all runners wait, and end them; nothing is left over."""
    waits.spawn()
    end(waits)
    assert waits.queue.resource.waiting(1) == 0
    gone = weakref.ref(waits.runners[0])
    waits.runners.clear()
    detached.serving.close()
    timers.join()
    gc.collect()
    assert gone() is None
    assert len(running_threads()) == 1, threading.enumerate()


def left_by(waits: Waits, end: Callable[[Waits], object]) -> int:
    """Bytes of memory that a round leaves behind, the minimum over several rounds.

    The first round is not counted: the executable stays with its trace, and the wait table keeps
    its size. A leak shows in every round, while tables of Python grow in some.
    """
    tracemalloc.start()
    one_round(waits, end)
    left = []
    for _ in range(_ROUNDS):
        before = tracemalloc.get_traced_memory()[0]
        one_round(waits, end)
        left.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    return min(left)


def stopped(waits: Waits) -> None:
    for runner in waits.runners:
        runner.cancel()
    for runner in waits.runners:
        assert runner.join()


def served(waits: Waits) -> None:
    """End by serving: a producer comes; the next run of each waits again, and is stopped."""
    before = numbers(waits.seen.value)
    waits.queue.enqueue_many(ef.ones(ALL, dtype="int64"))
    until(lambda: sum(r.steps for r in waits.runners) == RUNNERS)
    assert numbers(waits.seen.value) == before + ALL
    waits.all_wait()
    stopped(waits)


def interrupted(waits: Waits) -> None:
    """End by a real Ctrl-C, while the ``with`` block of the runners waits for them."""

    def block() -> None:
        with ExitStack() as stack:
            for runner in waits.runners:
                stack.enter_context(runner)
            threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            for runner in waits.runners:
                runner.join()

    with ctrl_c_raises(), pytest.raises(KeyboardInterrupt):
        block()
    assert waits.errors() == {type(None)}


@pytest.mark.parametrize("end", [served, interrupted])
def test_ten_thousand_waits(end: Callable[[Waits], None], clock: StillClock) -> None:
    children = psutil.Process().children(recursive=True)
    assert left_by(Waits(None, nullcontext), end) < 2 * ALL
    assert psutil.Process().children(recursive=True) == children


@pytest.mark.parametrize(
    ("timeout", "around", "error"),
    [
        (LONG, nullcontext, errors.WaitTimeoutError),
        (None, lambda: ef.deadline(LONG), errors.DeadlineError),
    ],
    ids=["timeout", "deadline"],
)
def test_a_producer_that_never_comes(
    timeout: float | None, around: Any, error: type, clock: StillClock,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def late(waits: Waits) -> None:
        clock.time += 2 * LONG
        assert waits.errors() == {error}
        clock.time += LONG  # no caller asks for the errors
        timers.join()
        assert capsys.readouterr().err.count("has ended with an error") == RUNNERS

    assert left_by(Waits(timeout, around), late) < 2 * ALL
