"""Events of waits for queues and similar resources while they block: step, line, loop, runner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.events import (
    LevelEvent,
    NodeEvent,
    OpEvent,
    QueueEvent,
    RunEvent,
    StepEvent,
    WaitEvent,
)
from tests.recorded import Recorder, recorded, refuse_events
from tests.resources.queues.modes import Call, numbers


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def errors_of(work: Callable[[], Any]) -> Callable[[], None]:
    def quiet() -> None:
        with pytest.raises(ef.errors.EagerflowError):
            work()

    return quiet


def ended(log: Recorder, wait: Any) -> bool:
    return any(e is wait for e in log.events)


# --- while it blocks --------------------------------------------------------------------------


def test_a_blocked_dequeue_is_seen_while_it_blocks(call: Call) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="letters")
    with recorded(WaitEvent, QueueEvent) as log:
        thread = in_thread(lambda: call(lambda: queue.dequeue()))  # this line
        wait = log.blocked("letters")
        assert wait.stop is None
        assert not ended(log, wait)
        assert (wait.resource, wait.operation, wait.device) == ("fifo", "dequeue", "cpu:0")
        assert thread.ident in (wait.thread, wait.caller)
        assert "# this line" in wait.source.text
        before = wait.seconds
        assert wait.seconds >= before > 0
        queue.enqueue(7)
        thread.join()
    assert ended(log, wait)
    assert wait.error == ""
    operations = [e.operation for e in log.of("queue", "letters")]
    assert sorted(operations) == ["dequeue", "enqueue"]
    dequeue = next(e for e in log.begun if e.kind == "queue")
    assert dequeue.start <= wait.start <= wait.stop <= dequeue.stop


def test_a_blocked_enqueue(call: Call) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="full")
    queue.enqueue(1)
    with recorded(WaitEvent) as log:
        thread = in_thread(lambda: call(lambda: queue.enqueue(2)))
        wait = log.blocked("full")
        assert (wait.operation, wait.stop) == ("enqueue", None)
        assert numbers(queue.dequeue()) == 1
        thread.join()
    assert ended(log, wait)


def test_accumulators_barriers_and_mutexes(call: Call) -> None:
    sums = ef.Accumulator(ef.tensor(0.0), name="sums")
    pairs = ef.Barrier(("f32[]", "i64[]"), name="pairs")
    mutex = ef.Mutex(name="one")

    def hold() -> None:
        with mutex:
            pass

    with recorded(WaitEvent, QueueEvent) as log:
        threads = [in_thread(lambda: call(lambda: sums.take(1)))]
        threads += [in_thread(lambda: call(lambda: pairs.take_many(1)))]
        with mutex:
            threads += [in_thread(hold)]
            waits = [log.blocked(name) for name in ("sums", "pairs", "one")]
            assert not any(ended(log, wait) for wait in waits)
        sums.add(1.0, step=0)
        pairs.insert_many(0, [5], [1.0])
        pairs.insert_many(1, [5], [7])
        for thread in threads:
            thread.join()
    assert all(ended(log, wait) for wait in waits)
    assert [(w.resource, w.operation) for w in waits] == [
        ("accumulator", "take"), ("barrier", "take_many"), ("mutex", "acquire"),
    ]  # fmt: skip
    told = {(e.name, e.operation) for e in log.of("queue")}
    assert told >= {("sums", "add"), ("pairs", "insert_many"), ("one", "release")}


@pytest.mark.parametrize("traced", [False, True])
def test_a_runner_that_waits(traced: bool) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="numbers")
    work = ef.trace(queue.dequeue) if traced else lambda: queue.dequeue()
    with recorded(WaitEvent, RunEvent) as log, ef.spawn(work, name="taker"):
        wait = log.blocked("numbers")
        assert (wait.runner, wait.stop, wait.caller) == ("taker", None, 0)
        assert (wait.thread == 0) == traced
        (run,) = log.begun[:1]
        assert (run.kind, run.name, run.stop) == ("run", "taker", None)
        queue.enqueue(1)
        later = log.blocked("numbers", 2)
        assert ended(log, wait)
        assert ended(log, run)
        assert later.stop is None
    assert "Cancelled" in later.error
    assert wait.error == run.error == ""
    assert all(e.stop is not None for e in log.begun)


def test_joining_a_runner_is_a_wait() -> None:
    queue = ef.Queue(1, ef.tensor(0), name="numbers")
    with recorded(WaitEvent) as log:
        runner = ef.spawn(ef.trace(queue.dequeue), name="taker")
        thread = in_thread(runner.join)
        wait = log.blocked("taker")
        assert (wait.resource, wait.operation, wait.stop) == ("runner", "join", None)
        queue.close()
        thread.join()
    assert ended(log, wait)


def test_a_prefetching_thread_that_waits_for_room() -> None:
    with recorded(WaitEvent) as log:
        iterator = iter(ef.data.Dataset.from_tensors(ef.zeros(9)).prefetch(2))
        next(iterator)
        waits = (log.blocked("prefetch", n) for n in count(1))
        # earlier waits were for the other thread, which waited until this one took an element
        wait = next(w for w in waits if w.operation == "enqueue" and w.stop is None)
        assert wait.thread != threading.get_ident()
        iterator.close()
    assert ended(log, wait)


# --- where ------------------------------------------------------------------------------------


@ef.trace
def _sum_of(count: Any, queue: Any) -> Any:
    total = 0.0
    while count > 0:
        total = total + queue.dequeue()  # in the loop
        count = count - 1
    return total


def test_a_wait_in_a_loop_of_a_graph(call: Call) -> None:
    """Generated code records no iteration: the event takes it from the stack."""
    queue = ef.Queue(1, ef.tensor(0.0), name="looped")
    totals: list[Any] = []

    def total() -> None:
        count = ef.tensor(3)
        totals.append(call(lambda: _sum_of(count, queue)))

    with recorded(WaitEvent) as log:
        thread = in_thread(total)
        for number in range(3):
            wait = log.blocked("looped", number + 1)
            assert (wait.frame, wait.iteration) == ("while_loop", number)
            assert wait.node
            assert wait.executable > 0
            assert "# in the loop" in wait.source.text
            queue.enqueue(float(number))
        thread.join()
    assert numbers(totals[0]) == 3.0
    assert len({wait.node for wait in log.begun}) == 1


def test_a_wait_has_its_step(call: Call) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="stepped")
    with recorded(WaitEvent, StepEvent) as log:
        thread = in_thread(lambda: call(lambda: queue.dequeue()))
        wait = log.blocked("stepped")
        steps = [e.step for e in log.begun if e.kind == "step" and e.stop is None]
        assert [wait.step] == (steps or [0])
        queue.enqueue(1)
        thread.join()


def test_eager_code_that_a_graph_calls_waits_at_its_own_line() -> None:
    queue = ef.Queue(1, ef.tensor(0), name="within")

    def take() -> Any:
        return queue.dequeue()  # the line of the user

    @ef.trace
    def outer() -> Any:
        return ef.py_call(take, ef.tensor(0).type)

    with recorded(WaitEvent) as log:
        thread = in_thread(outer)
        wait = log.blocked("within")
        assert "# the line of the user" in wait.source.text
        assert (wait.node, wait.executable) == ("", 0)
        queue.enqueue(1)
        thread.join()


# --- waits that end without an element ----------------------------------------------------------


def test_an_end_by_a_timeout(call: Call) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="slow")
    with recorded(WaitEvent, QueueEvent) as log, pytest.raises(ef.errors.WaitTimeoutError):
        call(lambda: queue.dequeue(timeout=0))
    assert [e.error.partition(":")[0] for e in log.events] == ["WaitTimeoutError"] * 2
    assert sorted(e.kind for e in log.events) == ["queue", "wait"]


def test_an_end_by_a_deadline(call: Call) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="slow")
    late = pytest.raises(ef.errors.DeadlineError)
    with recorded(WaitEvent, QueueEvent) as log, late, ef.deadline(0.01):
        call(lambda: queue.dequeue())
    assert {e.kind for e in log.begun} <= {"queue", "wait"}
    assert {id(e) for e in log.begun} == {id(e) for e in log.events}
    assert all(e.error for e in log.events)


def test_an_end_by_closing(call: Call) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="closed")
    with recorded(WaitEvent, QueueEvent) as log:
        thread = in_thread(errors_of(lambda: call(lambda: queue.dequeue())))
        wait = log.blocked("closed")
        queue.close()
        thread.join()
    assert wait.error.startswith("QueueClosedError: ")
    assert {id(e) for e in log.begun} == {id(e) for e in log.events}


def test_an_operation_that_is_refused(call: Call) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="closed")
    queue.close()
    barrier = ef.Barrier(("f32[]",), name="shut")
    barrier.close()
    with recorded(QueueEvent, WaitEvent) as log:
        errors_of(lambda: call(lambda: queue.dequeue()))()
        errors_of(lambda: call(lambda: barrier.insert_many(0, [1], [1.0])))()
    assert [(e.operation, e.error.partition(":")[0]) for e in log.events] == [
        ("dequeue", "QueueClosedError"), ("insert_many", "QueueClosedError"),
    ]  # fmt: skip
    assert log.begun == log.events


# --- no cost for other listeners --------------------------------------------------------------


def test_an_operation_that_need_not_wait_is_no_wait(call: Call) -> None:
    queue = ef.Queue(2, ef.tensor(0), name="quick")
    with recorded(WaitEvent, QueueEvent) as log:
        call(lambda: queue.enqueue(1))
        call(lambda: queue.dequeue())
    assert [(e.kind, e.operation) for e in log.events] == [
        ("queue", "enqueue"), ("queue", "dequeue"),
    ]  # fmt: skip


@pytest.mark.parametrize("other", [QueueEvent, StepEvent])
def test_who_wants_another_kind_costs_waits_nothing(
    call: Call, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="unwatched")
    unwatched = {QueueEvent, WaitEvent, LevelEvent, NodeEvent, OpEvent} - {other}
    refuse_events(monkeypatch, *unwatched)
    with recorded(other) as log, pytest.raises(ef.errors.WaitTimeoutError):
        call(lambda: queue.dequeue(timeout=0))
    assert {e.kind for e in log.events} <= {other.kind}


def test_an_instrument_may_use_the_queue_whose_wait_begins() -> None:
    queue = ef.Queue(1, ef.tensor(0), name="helped")

    class Helper:
        kinds = frozenset({WaitEvent})

        def begin(self, event: Any) -> None:
            queue.enqueue(5)

        def end(self, event: Any) -> None: ...

    ef.events.add_instrument(helper := Helper())
    try:
        assert numbers(queue.dequeue()) == 5
    finally:
        ef.events.remove_instrument(helper)
