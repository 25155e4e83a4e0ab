"""Deadlines (`ef.deadline`) of waits, steps and background runners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runtime.threads import deadline
from tests.resources.queues.modes import Call, Waiting, drained, numbers, row, until

#: short, so that each test reaches its deadline soon
SOON = 0.05


@pytest.fixture
def ended() -> Any:
    """Checks the error of a call; at the end, that no deadline is active any more."""

    def check(call: Callable[[], object]) -> str:
        with pytest.raises(errors.DeadlineError, match="its deadline has passed") as caught:
            call()
        assert isinstance(caught.value, TimeoutError)
        return str(caught.value)

    yield check
    assert not deadline.active()


def soon(call: Callable[[], object]) -> Callable[[], object]:
    """A function that makes the call under a deadline."""

    def limited() -> object:
        with ef.deadline(SOON):
            return call()

    return limited


def waits() -> list[tuple[str, Callable[[], object], Any, int]]:
    """A wait of each kind: its op, the call, the resource, and its wait queue there."""
    empty, full, mutex = ef.Queue(2, ef.tensor(0)), ef.Queue(1, ef.tensor(0)), ef.Mutex()
    sums, barrier = ef.Accumulator(ef.tensor(0.0)), ef.Barrier(("f32[]",))
    padding = ef.Queue(2, "f32[n]", kind="padding")
    full.enqueue(1)
    holder = threading.Thread(target=mutex.acquire)
    holder.start()
    holder.join()
    return [
        ("dequeue", empty.dequeue, empty.resource, 1),
        ("dequeue_many", lambda: empty.dequeue_many(3), empty.resource, 1),
        ("dequeue_up_to", lambda: padding.dequeue_up_to(3), padding.resource, 1),
        ("enqueue", lambda: full.enqueue(2), full.resource, 0),
        ("enqueue_many", lambda: full.enqueue_many([2, 3]), full.resource, 0),
        ("take", lambda: sums.take(1), sums.resource, 0),
        ("take_many", lambda: barrier.take_many(1), barrier.resource.ready, 1),
        ("acquire", mutex.acquire, mutex.resource, 0),
    ]


@row("deadline")
def test_every_wait_ends(call: Call, ended: Any) -> None:
    for what, wait, resource, line in waits():
        told = ended(soon(lambda wait=wait: call(wait)))
        assert resource.waiting(line) == 0, what
        assert what in told or "the step was cancelled" in told


def test_what_was_taken_goes_back(call: Call, ended: Any) -> None:
    queue = ef.Queue(5, ef.tensor(0))
    queue.enqueue_many([1, 2])
    ended(soon(lambda: call(lambda: queue.dequeue_many(3))))
    assert list(drained(queue)) == [1, 2]


def test_the_shorter_of_deadline_and_timeout_counts(call: Call, ended: Any) -> None:
    queue = ef.Queue(5, ef.tensor(0))
    with ef.deadline(60), pytest.raises(errors.WaitTimeoutError):
        call(lambda: queue.dequeue(timeout=0.01))
    ended(soon(lambda: call(lambda: queue.dequeue(timeout=60))))


def test_who_need_not_wait_gets_it(call: Call) -> None:
    queue = ef.Queue(5, ef.tensor(0))
    queue.enqueue(7)
    with ef.deadline(60):
        assert numbers(call(queue.dequeue)) == 7


def test_beside_each_other(ended: Any) -> None:
    """Unordered, both wait at once and both end; the one that was served gives its element back."""
    queue, other = ef.Queue(5, ef.tensor(0)), ef.Queue(5, ef.tensor(0))

    @ef.trace
    def both() -> Any:
        with ef.unordered():
            return queue.dequeue_many(2), other.dequeue()

    queue.enqueue(1)
    ended(soon(both))
    assert list(drained(queue)) == [1]
    assert queue.resource.waiting(1) == other.resource.waiting(1) == 0


def test_in_python_that_a_graph_calls(ended: Any) -> None:
    queue = ef.Queue(5, ef.tensor(0))
    ended(soon(ef.trace(lambda: ef.py_call(queue.dequeue, "i64[]"))))
    assert queue.resource.waiting(1) == 0


def test_an_atomic_section_lets_go(ended: Any) -> None:
    queue, mutex = ef.Queue(5, ef.tensor(0)), ef.Mutex()

    @ef.trace
    def section() -> Any:
        with mutex:
            return queue.dequeue()

    ended(soon(section))
    assert repr(mutex) == "Mutex(free)"


def test_a_loop_of_waits(ended: Any) -> None:
    """As when a run fails, elements of earlier iterations are lost; those of the last are kept."""
    queue = ef.Queue(9, ef.tensor(0))

    @ef.trace
    def endless() -> Any:
        total = ef.tensor(0)
        while total < 1000:
            total = total + queue.dequeue_many(2).sum()
        return total

    queue.enqueue_many([999, 1])
    endless()  # compiles
    queue.enqueue_many([1, 2, 3])
    ended(soon(endless))
    assert list(drained(queue)) in ([3], [1, 2, 3])  # all three if no iteration had time


# --- runners ----------------------------------------------------------------------------------


@pytest.fixture(params=["traced", "thread"])
def make(request: Any) -> Any:
    """Makes a function that runs as a graph, or in a thread of its own."""
    return ef.trace if request.param == "traced" else lambda f: f


@pytest.mark.parametrize("waits", [True, False])
def test_runners_have_the_deadline_of_their_block(make: Any, waits: bool, ended: Any) -> None:
    queue, count = ef.Queue(5, ef.tensor(0)), ef.Variable(0)
    work = make(queue.dequeue if waits else lambda: count.assign_add(1))
    with ef.deadline(SOON):
        runner = ef.spawn(work)
    ended(runner.join)
    assert queue.resource.waiting(1) == 0
    assert not runner.running


def test_runners_that_end_before(make: Any) -> None:
    queue = ef.Queue(5, ef.tensor(0))
    queue.enqueue_many([1, 2])
    queue.close()
    with ef.deadline(1000):
        assert ef.spawn(make(queue.dequeue)).join()
        with ef.spawn(make(ef.Queue(5, ef.tensor(0)).dequeue)):
            pass
    until(lambda: not [t for t in threading.enumerate() if t.name == "eagerflow-timers"])


def test_waiting_for_a_runner_ends(make: Any, ended: Any) -> None:
    queue = ef.Queue(5, ef.tensor(0))
    with ef.spawn(make(queue.dequeue), name="taker") as runner:
        assert "the runner taker, which goes on" in ended(soon(runner.join))
        with ef.deadline(60):
            assert not runner.join(timeout=0.01)
        queue.close()
        assert runner.join(timeout=60)
    with ef.deadline(1e-9):
        assert runner.join()  # it need not wait


def test_stopping_one_that_waits_for_another() -> None:
    queue = ef.Queue(5, ef.tensor(0))

    def outer() -> None:
        with ef.spawn(ef.trace(queue.dequeue)) as inner:
            inner.join()

    with ef.spawn(outer) as runner:
        until(lambda: queue.resource.waiting(1) == 1)
    assert runner.error is None
    assert queue.resource.waiting(1) == 0


def test_a_runner_is_not_begun_too_late(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    count = ef.Variable(0)
    work = make(lambda: count.assign_add(1))
    with ef.deadline(1e-9), pytest.raises(errors.DeadlineError):
        ef.spawn(work).join()


# --- waits within a run that is stopped ---------------------------------------------------------


def test_stopping_reaches_all_that_its_run_waits_for() -> None:
    """Waits in Python that a graph calls, and in graphs that Python calls, end as well."""
    queue = ef.Queue(5, ef.tensor(0))

    @ef.trace
    def both() -> Any:
        with ef.unordered():
            return queue.dequeue() + queue.dequeue()

    def in_a_graph(f: Callable[[], Any]) -> Any:
        return ef.trace(lambda: ef.py_call(f, "i64[]"))

    for work in (lambda: both(), in_a_graph(queue.dequeue), in_a_graph(both),
                 in_a_graph(in_a_graph(queue.dequeue)), lambda: in_a_graph(both)()):  # fmt: skip
        with ef.spawn(work) as runner:
            until(lambda: queue.resource.waiting(1) > 0)
        assert not runner.running
        assert runner.error is None
        assert queue.resource.waiting(1) == 0


def test_an_error_ends_what_python_waits_for_in_the_same_run() -> None:
    queue, other = ef.Queue(5, ef.tensor(0)), ef.Queue(5, ef.tensor(0))

    @ef.trace
    def beside() -> Any:
        with ef.unordered():
            return other.dequeue(), other.dequeue(), ef.py_call(queue.dequeue, "i64[]")

    waiting = Waiting(beside, queue)
    until(lambda: other.resource.waiting(1) == 2)
    other.close()
    with pytest.raises(errors.QueueClosedError):
        waiting.result()
    assert queue.resource.waiting(1) == 0
