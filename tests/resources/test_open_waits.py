"""`events.open_waits`: current waits, with or without a listener at their beginning."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, perf_counter, sleep
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.events import WaitEvent
from tests.recorded import recorded


def waits_of(*names: str, count: int = 1) -> list[WaitEvent]:
    """The open waits for the named resources, as soon as there are ``count`` of them."""
    end = monotonic() + 30
    while True:
        waits = [wait for wait in events.open_waits() if wait.name in names]
        if len(waits) == count:
            return waits
        assert monotonic() < end, waits
        sleep(0.001)


@contextmanager
def running(*functions: Callable[[], Any]) -> Iterator[list[threading.Thread]]:
    """Runs functions in a thread each; all threads have ended when the block is left."""

    def quietly(function: Callable[[], Any]) -> None:
        with suppress(ef.errors.EagerflowError):
            function()

    threads = [threading.Thread(target=quietly, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_thread_that_sleeps() -> None:
    queue, before = ef.Queue(1, ef.tensor(0), name="letters"), perf_counter()
    with running(queue.dequeue) as (thread,):
        (wait,) = waits_of("letters")
        assert (wait.operation, wait.resource, wait.thread) == ("dequeue", "fifo", thread.ident)
        assert before < wait.start < perf_counter()
        assert wait.stop is None
        assert str(wait.source).count("test_open_waits.py")
        assert waits_of("letters")[0] is wait
        queue.enqueue(1)
    assert wait.stop is not None
    assert wait.stop > wait.start
    assert not wait.error
    assert not [one for one in events.open_waits() if one.name == "letters"]


def test_a_full_queue_a_mutex_an_accumulator_and_a_runner() -> None:
    full = ef.Queue(1, ef.tensor(0), name="full")
    full.enqueue(1)
    mutex, gradients = ef.Mutex("door"), ef.Accumulator(ef.tensor(0.0), name="mean")
    mutex.acquire()

    def enter() -> None:
        with mutex:
            pass

    with (
        ef.spawn(lambda: full.enqueue(2), name="writer") as runner,
        running(enter, lambda: gradients.take(1), runner.join),
    ):
        waits = {w.name: w for w in waits_of("full", "door", "mean", "writer", count=4)}
        kinds = {name: wait.resource for name, wait in waits.items()}
        assert kinds == {
            "door": "mutex", "full": "fifo", "mean": "accumulator", "writer": "runner"
        }  # fmt: skip
        assert waits["door"].operation == "acquire"
        gradients.add(ef.tensor(1.0), 0)
        mutex.release()
        runner.cancel()
    assert all(wait.stop is not None for wait in waits.values())


def test_where_in_a_loop_a_graph_waits() -> None:
    queue = ef.Queue(1, ef.tensor(0.0), name="letters")

    @ef.trace
    def f(x: Any) -> Any:
        return ef.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v + queue.dequeue()), (0, x))

    with running(lambda: f(ef.tensor(0.0))):
        for i in range(3):
            (wait,) = waits_of("letters")
            assert (wait.node, wait.frames) == ("queue_dequeue", (("while_loop", i),))
            assert wait.executable > 0
            assert "queue.dequeue()" in str(wait.source)
            queue.enqueue(1.0)
            while wait.stop is None:
                sleep(0.001)


@pytest.mark.parametrize("spawned", [False, True])
def test_what_waits_without_a_thread(spawned: bool) -> None:
    one, two = ef.Queue(1, ef.tensor(0), name="one"), ef.Queue(1, ef.tensor(0), name="two")

    @ef.trace
    def both() -> Any:
        with ef.unordered():
            return one.dequeue() + two.dequeue()

    def run() -> None:
        if spawned:
            with ef.spawn(both, name="reader") as runner:
                ended.wait(30)
                runner.cancel()
        else:
            both()

    ended = threading.Event()
    with running(run):
        first, second = waits_of("one", "two", count=2)
        assert first.thread == second.thread == 0
        assert first.node != second.node
        assert {first.runner, second.runner} == ({"reader"} if spawned else {""})
        assert "dequeue()" in str(first.source)
        one.enqueue(1)
        while (first if first.name == "one" else second).stop is None:
            sleep(0.001)
        (other,) = waits_of("one", "two")
        assert other.name == "two"
        ended.set()
        two.close()


def test_a_wait_has_one_record() -> None:
    """A wait that listeners heard of is the same record; one that none heard of tells no end."""
    queue = ef.Queue(1, ef.tensor(0), name="letters")
    with running(queue.dequeue):
        (silent,) = waits_of("letters")
        with recorded(WaitEvent) as late:
            with running(queue.dequeue):
                _, told = waits_of("letters", count=2)
                while not late.begun:
                    sleep(0.001)
                assert told in late.begun
                queue.enqueue(1)
                queue.enqueue(2)
            while silent.stop is None:
                sleep(0.001)
        assert silent not in late.events
        assert told in late.events
        assert told.stop is not None


@pytest.mark.parametrize("how", ["timeout", "close", "deadline"])
def test_a_wait_that_fails_has_an_end(how: str) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="letters")

    def late() -> None:
        with ef.deadline(0.2 if how == "deadline" else 60):
            queue.dequeue(timeout=0.2 if how == "timeout" else None)

    with running(late):
        (wait,) = waits_of("letters")
        if how == "close":
            queue.close()
    assert wait.stop is not None
    assert wait.error


def test_a_resource_is_not_kept() -> None:
    queue = ef.Queue(1, ef.tensor(0), name="gone")
    with running(queue.dequeue):
        waits_of("gone")
        queue.enqueue(1)
    del queue
    gc.collect()
    assert "gone" not in [wait.name for wait in events.open_waits()]
