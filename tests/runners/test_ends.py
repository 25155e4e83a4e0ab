"""Ends of runners: queues that they close, and runners that cannot be stopped."""

from __future__ import annotations

import re
import threading
import warnings
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runners import runner as runners
from eagerflow.runners.closing import _users
from tests.resources.queues.modes import Waiting, numbers, until


@pytest.fixture(params=["traced", "thread"])
def make(request: Any) -> Any:
    """Makes a function that runs as a graph, or in a thread of its own."""
    return ef.trace if request.param == "traced" else lambda f: f


# --- closing ----------------------------------------------------------------------------------


def test_a_loop_over_a_queue_ends_when_it_is_closed(make: Any) -> None:
    source, out = ef.Queue(9, ef.tensor(0)), ef.Queue(2, ef.tensor(0))
    source.enqueue_many([1, 2, 3])
    source.close()
    ef.spawn(make(lambda: out.enqueue(source.dequeue() * 2)), closes=out)
    assert [int(x) for x in out] == [2, 4, 6]


def test_a_loop_over_a_queue_tells_of_the_runner_that_failed(make: Any) -> None:
    source, out = ef.Queue(9, ef.tensor(0)), ef.Queue(9, ef.tensor(0))
    source.enqueue(0)
    ef.spawn(make(lambda: out.enqueue(ef.tensor([1, 2])[source.dequeue() + 5])), closes=out)
    with pytest.raises(errors.RunnerFailedError) as caught:
        list(out)
    assert "ended with" in str(caught.value)


def test_a_loop_that_ends_with_a_closed_queue_lets_a_failure_through(make: Any) -> None:
    """The usual loop of a consumer: the end of the data leaves it, half of the data does not."""

    def read(count: int, fails: bool) -> list[int]:
        out, left, got = ef.Queue(9, ef.tensor(0)), iter(range(count)), list[int]()

        def produce() -> None:
            number = next(left, None)
            if number is None:
                raise OSError("the disk is gone") if fails else StopIteration
            out.enqueue(number)

        def consume() -> None:
            with ef.spawn(produce, closes=out):
                while True:
                    try:
                        got.append(int(take()))
                    except errors.QueueClosedError:
                        return

        take = make(out.dequeue)
        consume()
        return got

    assert read(3, fails=False) == [0, 1, 2]
    with pytest.raises(errors.RunnerFailedError, match="OSError: the disk is gone") as caught:
        read(3, fails=True)
    assert not isinstance(caught.value, errors.QueueClosedError)


def test_a_second_close_is_no_failure(make: Any) -> None:
    """What it asks for is so; the failure is quoted."""
    out, barrier = ef.Queue(9, ef.tensor(0)), ef.Barrier(("i64[]",))
    with pytest.raises(ZeroDivisionError):
        ef.spawn(lambda: 1 / 0, closes=[out, barrier]).join()
    for close in (make(out.close), make(barrier.close)):
        with pytest.raises(errors.QueueClosedError, match=r"already closed(.|\n)*division by zero"):
            close()


def test_a_trace_cannot_go_over_a_queue() -> None:
    queue = ef.Queue(9, ef.tensor(0))
    with pytest.raises(errors.TraceError, match="cannot iterate over"):
        ef.trace(lambda: [x + 1 for x in queue])()


def test_its_queue_is_closed_when_there_is_no_more(make: Any) -> None:
    source, out = ef.Queue(9, ef.tensor(0)), ef.Queue(9, ef.tensor(0))
    consumer = Waiting(lambda: out.dequeue_up_to(9), out)
    runner = ef.spawn(make(lambda: out.enqueue(source.dequeue() * 2)), closes=[out])
    source.enqueue_many([1, 2, 3])
    source.close()
    assert runner.join()
    assert numbers(consumer.result()) == [2, 4, 6]
    assert out.closed


def test_an_error_closes_and_cancels(make: Any) -> None:
    source, out = ef.Queue(9, ef.tensor(0)), ef.Queue(1, ef.tensor(0.0))
    out.enqueue(7.0)
    other = Waiting(lambda: out.enqueue(8.0), out, 0)

    @make
    def produce() -> None:
        i = source.dequeue()
        out.enqueue(ef.tensor([1.0, 2.0])[i])

    runner = ef.spawn(produce, closes=out)
    source.enqueue(5)
    with pytest.raises(errors.TensorIndexError):
        runner.join()
    with pytest.raises(errors.RunnerFailedError, match="enqueue: the queue was closed while"):
        other.result()
    assert numbers(out.dequeue()) == 7.0
    with pytest.raises(errors.RunnerFailedError):
        out.dequeue()


def test_who_waits_is_told_of_the_error(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    numbers_, out = ef.Queue(9, ef.tensor(0)), ef.Queue(1, ef.tensor(0.0))
    barrier = ef.Barrier((ef.tensor(0.0), ef.tensor(0.0)))

    @make
    def produce() -> None:
        out.enqueue(ef.tensor([1.0, 2.0])[numbers_.dequeue()])  # the line

    runner = ef.spawn(produce, name="source", closes=[out, barrier])
    one = Waiting(lambda: out.dequeue(), out)
    two = Waiting(lambda: barrier.take_many(2), barrier)
    numbers_.enqueue(5)
    for call in (
        one.result, two.result, out.dequeue, lambda: out.enqueue(1.0), ef.trace(out.dequeue),
        lambda: barrier.take_many(1), lambda: barrier.insert_many(0, [1], [1.0]),
    ):  # fmt: skip
        with pytest.raises(errors.RunnerFailedError, match=", as a runner failed\n") as caught:
            call()
        text = str(caught.value)
        assert text.count("  the runner source ended with TensorIndexError: ") == 1
        assert re.search(r"\n    at: .*test_ends.py:\d+ in .*produce: .*# the line$", text)
        assert "runner source" not in "".join(getattr(caught.value, "__notes__", ()))
        cause = caught.value.__cause__
        assert isinstance(cause, errors.TensorIndexError)
        assert (cause.__traceback__, "# the line" in str(cause)) == (None, True)
    with pytest.raises(errors.TensorIndexError):
        runner.join()


def test_a_queue_that_ends_well_tells_of_no_error(make: Any) -> None:
    out = ef.Queue(1, ef.tensor(0.0))
    ef.spawn(make(lambda: out.enqueue(1.0)), closes=out).stop()
    with pytest.raises(errors.QueueClosedError) as caught:
        out.dequeue_many(9)
    assert not any("runner" in n for n in getattr(caught.value, "__notes__", ()))
    assert caught.value.__cause__ is None


def test_the_cause_of_a_closed_queue_keeps_no_frames() -> None:
    """An error of Python's own names its line in a note; an error without a copy is only quoted."""

    class OddError(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__("odd")

    for error, kind in ((OSError("disk"), OSError), (OddError(1, 2), type(None))):
        out = ef.Queue(1, ef.tensor(0.0))

        def fail(error: Exception = error) -> None:
            raise error  # the line

        runner = ef.spawn(fail, closes=out, name="source")
        with pytest.raises(type(error)):
            runner.join()
        with pytest.raises(errors.RunnerFailedError) as caught:
            out.dequeue()
        cause = caught.value.__cause__
        assert type(cause) is kind
        assert cause is not error
        if cause is not None:
            assert cause.__traceback__ is None
            assert [note.endswith("raise error  # the line") for note in cause.__notes__] == [True]


def test_one_that_is_stopped_closes(make: Any) -> None:
    """The stop does not wait for elements of other producers, which still go in."""
    source, out = ef.Queue(9, ef.tensor(0)), ef.Queue(1, ef.tensor(0))
    out.enqueue(7)
    other = Waiting(lambda: out.enqueue(8), out, 0)
    with ef.spawn(make(lambda: out.enqueue(source.dequeue())), closes=[out]):
        pass
    assert not out.closed
    assert numbers(out.dequeue_many(2)) == [7, 8]
    other.result()
    assert out.closed


def test_the_last_of_several_closes(make: Any) -> None:
    """All is read by then: runners that ended earlier have put their elements in."""
    source, out = ef.Queue(3, ef.tensor(0)), ef.Queue(5, ef.tensor(0))

    @make
    def copy() -> None:
        out.enqueue(source.dequeue())

    copies = [ef.spawn(copy, closes=[out]) for _ in range(4)]
    copies[0].stop()
    assert not out.closed
    left = iter(range(50))
    feeder = ef.spawn(lambda: source.enqueue(next(left)), closes=source)
    assert sorted(numbers(out.dequeue_up_to(99))) == list(range(50))
    assert all(one.join() for one in copies)
    assert feeder.join()
    assert (feeder.steps, out.closed, _users) == (50, True, {})


def test_a_holder_keeps_open_what_runners_with_inputs_of_their_own_share() -> None:
    """As in ``docs/queues.md``: else the first runner may end before the next is spawned."""
    out, spawned = ef.Queue(9, ef.tensor(0)), ef.Queue(1, ef.tensor(0))
    holder = ef.spawn(spawned.dequeue, closes=out)
    for part in ([], [1], [2, 3]):
        left = iter(part)
        feeder = ef.spawn(lambda left=left: out.enqueue(next(left)), closes=out)
        assert feeder.join()  # before the next runner is spawned
        assert not out.closed
    spawned.close()
    assert holder.join()
    assert (numbers(out.dequeue_up_to(9)), out.closed, _users) == ([1, 2, 3], True, {})


def test_an_iterator_that_is_used_up_is_an_end() -> None:
    out = ef.Queue(None, ef.tensor(0))
    left = iter([1, 2])
    runner = ef.spawn(lambda: out.enqueue(next(left)), closes=out)
    assert runner.join()
    assert (runner.steps, runner.error, out.closed) == (2, None, True)


def test_barriers_and_whatever_can_be_closed() -> None:
    class File:
        closed = 0

        def close(self) -> None:
            self.closed += 1

    barrier, closed, file = ef.Barrier(("i64[]",)), ef.Queue(3, "i64[]"), File()
    closed.close()
    left = iter(list[int]())
    assert ef.spawn(lambda: next(left), closes=(barrier, closed, file)).join()
    assert file.closed == 1
    with pytest.raises(errors.QueueClosedError):
        barrier.insert_many(0, [1], [1])


def test_closing_can_fail() -> None:
    class File:
        def close(self) -> None:
            raise OSError("the disk is full")

    left = iter(list[int]())
    runner = ef.spawn(lambda: next(left), closes=File())
    with pytest.raises(OSError, match="the disk is full"):
        runner.join()


def test_a_runner_that_never_began_closes_nothing() -> None:
    out = ef.Queue(3, ef.tensor(0))
    with pytest.raises(errors.ShapeError):
        ef.spawn(ef.trace(lambda x: x + ef.zeros(3)), ef.zeros(2), closes=out)
    with pytest.raises(errors.TraceError, match="cannot be closed"):
        ef.spawn(lambda: None, closes=[out, 3])
    with pytest.raises(errors.TraceError, match="not a function"):
        ef.spawn(None, closes=out)
    assert not out.closed
    assert not _users


# --- runners that cannot be stopped -----------------------------------------------------------


def test_python_code_that_waits_for_something_else(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message names the line; the block ends when the wait is over."""
    inside, go = threading.Event(), threading.Event()

    def work() -> None:
        inside.set()
        go.wait()  # the line

    if make is ef.trace:
        runner = ef.spawn(ef.trace(lambda: ef.py_call(work, None)), name="stuck")
    else:
        runner = ef.spawn(work, name="stuck")
    assert inside.wait(30)
    assert not runner.stop(timeout=0)
    told: list[str] = []

    def warn(text: str, kind: type[Warning], stacklevel: int) -> None:
        told.append(text)
        go.set()

    monkeypatch.setattr(runners, "_PATIENCE", 0.0)
    monkeypatch.setattr(warnings, "warn", warn)
    with runner:
        pass
    assert not runner.running
    assert "the runner stuck was stopped and goes on, at " in told[0]
    assert "go.wait()  # the line" in told[0]


def test_a_call_of_a_step_with_free_waits_can_be_stopped() -> None:
    queue = ef.Queue(2, ef.tensor(0))

    @ef.trace
    def free() -> Any:
        with ef.unordered():
            return queue.dequeue(), queue.dequeue()

    for call in (free, ef.trace(lambda: ef.py_call(queue.dequeue, ef.tensor(0)))):
        runner = ef.spawn(lambda call=call: call())
        until(lambda: queue.resource.waiting(1) > 0)
        runner.stop()
        assert queue.resource.waiting(1) == 0
