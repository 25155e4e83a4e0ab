"""`Runner.stop` breaks off the work of a plain function: a graph, a loop of ops, a gradient."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.interpreter import stack
from eagerflow.core.monitors import Brake, Timing, monitored, monitors
from eagerflow.events import AbstractEvent, StepEvent, step_of
from eagerflow.runners import Runner
from eagerflow.runtime.threads import deadline
from tests.resources.queues.modes import numbers, until

ONE = ef.tensor(1.0)
Body = Callable[[], Any]


def _python(body: Body) -> None:
    while True:
        body()


def _eager_loop(body: Body) -> None:
    ef.while_loop(lambda x: x > 0, lambda x: (body(), x * 1.0)[1], ONE)


@ef.trace
def _count_for_ever(count: ef.Variable, x: ef.Tensor) -> ef.Tensor:
    while x > 0:
        count.assign_add(1)
        x = x * 1.0
    return x


def _in_order(count: ef.Variable) -> None:
    _count_for_ever(count, ONE)


def _in_a_composition(count: ef.Variable) -> None:
    ef.grad(lambda x: _count_for_ever(count, x))(ONE)


def _by_scheduler(count: ef.Variable) -> None:
    """The executor runs a graph of which parts wait without a thread."""
    queue = ef.Queue(2, ONE)
    queue.enqueue_many([1.0, 1.0])

    @ef.trace
    def both() -> ef.Tensor:
        with ef.unordered():
            x = queue.dequeue() + queue.dequeue()
        return _count_for_ever(count, x)

    both()


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    before = stack.total, stack.monitored, deadline.blocks.count
    yield
    assert (stack.total, stack.monitored, deadline.blocks.count) == before


@pytest.mark.parametrize("run", [_in_order, _in_a_composition, _by_scheduler])
@pytest.mark.parametrize("late", [False, True])  # within an `ef.deadline`
def test_a_graph_is_broken_off(run: Callable[[ef.Variable], None], late: bool) -> None:
    count = ef.Variable(0)
    with ef.deadline(600.0 if late else 1e6):
        runner = ef.spawn(lambda: run(count))
        until(lambda: numbers(count.value) > 3)
        assert runner.stop(timeout=30)
    assert (runner.steps, runner.error) == (0, None)
    assert not runner.running


@pytest.mark.parametrize("run", [_python, _eager_loop])
def test_a_loop_of_ops_is_broken_off(run: Callable[[Body], None]) -> None:
    values: list[ef.Tensor] = []
    runner = ef.spawn(lambda: run(lambda: values.append(ONE * 2.0)))
    until(lambda: len(values) > 3)
    assert runner.stop(timeout=30)
    assert runner.error is None


def test_the_end_of_a_block_breaks_it_off() -> None:
    count = ef.Variable(0)
    with ef.spawn(lambda: _in_order(count)) as runner:
        until(lambda: numbers(count.value) > 3)
    assert not runner.running


def test_others_go_on() -> None:
    """Each op of the stopped thread gets the error; other threads are not affected."""
    told: list[BaseException] = []
    stopped, go = threading.Event(), threading.Event()
    count = ef.Variable(0)
    triple = ef.trace(lambda x: ef.exp(x) * 3)

    def work() -> None:
        for action in (lambda: _in_order(count), lambda: ONE * 2.0, lambda: triple(ONE)):
            try:
                action()
            except errors.CancelledError as error:
                told.append(error)
        stopped.set()
        go.wait()

    def other() -> None:
        for _ in range(3):
            count.assign_add(0)
            triple(ONE)

    triple(ONE)
    with ef.spawn(other) as second:
        runner = ef.spawn(work)
        until(lambda: numbers(count.value) > 3)
        runner.cancel()
        assert stopped.wait(30)
        steps = second.steps
        until(lambda: second.steps > steps)
        assert numbers(ef.grad(lambda x: (x * x) + triple(x) * 0)(ONE)) == 2.0
        go.set()
        assert runner.join(30)
    assert [str(error).splitlines()[0] for error in told] == [
        "the step was cancelled",
        "the step was cancelled: its runner was stopped",
        "the step was cancelled",
    ]


def test_what_closes_is_closed_all_the_same() -> None:
    """The runner's end is no part of the stopped run: it may use ops."""
    queue, ends = ef.Queue(2, ONE), []

    class Closes:
        def close(self) -> None:
            ends.append((ONE + 1.0).item())

    runner = ef.spawn(lambda: _python(lambda: ONE * 2.0), closes=[queue, Closes()])
    assert runner.stop(timeout=30)
    assert queue.closed
    assert ends == [2.0]


def test_a_brake_is_no_monitor_of_graphs() -> None:
    """Monitors of ops have graphs replayed op by op; a brake does not."""
    timing = Timing()
    with Brake(RuntimeError) as brake:
        assert list(monitors()) == []
        with monitored(timing):
            assert list(monitors()) == [timing]
            brake.pull()
            brake.pull()
            with pytest.raises(RuntimeError):
                ONE * 2.0
    brake.pull()  # the thread has left the block
    assert (ONE * 2.0).item() == 2.0
    assert step_of.stopped is None


def test_an_instrument_that_hears_of_a_step_may_stop_its_runner() -> None:
    queue, runners = ef.Queue(2, ONE), list[Runner]()

    class Stops:
        kinds = frozenset({StepEvent})

        def begin(self, event: AbstractEvent) -> None:
            for runner in runners:
                runner.cancel()

        def end(self, event: AbstractEvent) -> None:
            """Ignored."""

    instrument = Stops()
    runners.append(ef.spawn(ef.trace(lambda: queue.dequeue())))
    ef.events.add_instrument(instrument)
    try:
        queue.enqueue_many([1.0, 1.0])  # the second step is stopped when it begins
        assert runners[0].join(30)
    finally:
        ef.events.remove_instrument(instrument)
    assert runners[0].steps == 1
    assert numbers(queue.size()) == 1


def test_a_queue_that_closes_ends_any_number_of_waits() -> None:
    """The ends of the waits are not nested calls."""
    queue = ef.Queue(1, ef.tensor(0))

    @ef.trace
    def take() -> Any:
        return queue.dequeue()

    runners = [ef.spawn(take) for _ in range(sys.getrecursionlimit())]
    queue.close()
    for runner in runners:
        runner.join()
    assert not any(runner.running for runner in runners)
