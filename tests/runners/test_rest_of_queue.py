"""The warning of a runner that ends at a closed queue with elements that it has not taken."""

from __future__ import annotations

import copy
import linecache
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runners.runner import Runner
from tests.resources.queues.modes import numbers, until

_Make = Callable[[Callable[[], object]], Callable[[], object]]


@pytest.fixture(params=["traced", "thread"])
def make(request: Any) -> _Make:
    """Makes a function that runs as a graph, or in a thread of its own."""
    return ef.trace if request.param == "traced" else lambda f: f


@pytest.fixture
def samples() -> ef.Queue:
    queue = ef.Queue(100, "i64[]", name="samples")
    queue.enqueue_many(ef.arange(70))
    return queue


@pytest.fixture
def batches() -> ef.Queue:
    return ef.Queue(9, "i64[n]", name="batches")


def batcher(make: _Make, samples: ef.Queue, batches: ef.Queue) -> Runner:
    run = make(lambda: batches.enqueue(samples.dequeue_many(32)))  # the line
    return ef.spawn(run, closes=batches, name="batcher")


def _close(queue: ef.Queue, runner: Runner) -> None:
    """Close the input of a runner, and wait for the end of the runner."""
    queue.close()
    assert runner.join()


def test_elements_that_are_left_are_told_of_once(
    make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    runner = batcher(make, samples, batches)
    until(lambda: runner.steps == 2)
    with pytest.warns(RuntimeWarning) as told:
        _close(samples, runner)
    (warning,) = told
    assert str(warning.message) == (
        "the runner batcher has ended, and 6 elements are left in the closed queue 'samples': "
        "dequeue_many(32) waits for 32; dequeue_up_to(32) takes the rest"
    )
    assert linecache.getline(warning.filename, warning.lineno).endswith("# the line\n")
    assert (runner.error, runner.steps) == (None, 2)
    assert numbers(samples.dequeue_up_to(32)) == [*range(64, 70)]


def test_elements_that_a_wait_gives_back_are_told_of(
    make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    """The queue is closed while the runner waits, and already holds the last elements."""
    runner = batcher(make, samples, batches)
    until(lambda: samples.resource.waiting(1) == 1 and samples.size() == 0)
    samples.enqueue_many(ef.arange(32 - 6 + 1))
    until(lambda: runner.steps == 3 and samples.resource.waiting(1) == 1)
    with pytest.warns(RuntimeWarning, match="and 1 element is left in the closed queue"):
        _close(samples, runner)
    assert numbers(samples.dequeue()) == 32 - 6


def test_a_warning_that_is_an_error_ends_the_pipeline(
    make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    samples.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner = batcher(make, samples, batches)
        with pytest.raises(errors.RunnerFailedError, match="RuntimeWarning: the runner batcher"):
            list(batches)
        with pytest.raises(RuntimeWarning, match="6 elements are left"):
            runner.join()


@pytest.mark.parametrize("count", [64, 0])
def test_a_queue_that_is_used_up_is_not_told_of(
    count: int, make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    samples.dequeue_many(70 - count)
    samples.close()
    assert batcher(make, samples, batches).join()


def test_a_queue_without_a_rest_is_not_told_of(
    make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    samples.close()
    run = make(lambda: batches.enqueue(samples.dequeue_up_to(32)))
    with ef.spawn(run, closes=batches):
        assert [len(batch) for batch in batches] == [32, 32, 6]


def test_another_consumer_that_waits_takes_the_rest(
    make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    samples.dequeue_many(64)
    other = ef.Queue(9, "i64[n]")
    runner = batcher(make, samples, batches)
    until(lambda: samples.resource.waiting(1) == 1)
    rest = ef.spawn(make(lambda: other.enqueue(samples.dequeue_up_to(32))), closes=other)
    until(lambda: samples.resource.waiting(1) == 2)
    samples.close()
    assert numbers(other.dequeue()) == [*range(64, 70)]
    assert runner.join()
    assert rest.join()


def test_a_runner_that_is_stopped_tells_of_nothing(
    make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    samples.dequeue_many(64)
    with batcher(make, samples, batches):
        until(lambda: samples.resource.waiting(1) == 1)
    samples.close()
    assert samples.size() == 6


def test_a_failure_is_told_and_not_its_rest(
    make: _Make, samples: ef.Queue, batches: ef.Queue
) -> None:
    samples.dequeue_many(64)
    runner = batcher(make, samples, batches)
    until(lambda: samples.resource.waiting(1) == 1)
    with pytest.raises(ZeroDivisionError):
        ef.spawn(lambda: 1 / 0, closes=samples).join()
    with pytest.raises(errors.RunnerFailedError, match="division by zero"):
        runner.join()


def test_the_error_can_be_copied_and_sent(samples: ef.Queue) -> None:
    samples.close()
    with pytest.raises(errors.QueueClosedError) as caught:
        samples.dequeue_many(99)
    assert caught.value.rest.size() == 70
    assert copy.copy(caught.value).rest.size() == 70
    assert pickle.loads(pickle.dumps(caught.value)).rest is None
