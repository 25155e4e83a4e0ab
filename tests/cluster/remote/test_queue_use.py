"""Queues of tasks in use: runners that fill them, training, readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import ResourceError, RunnerFailedError
from eagerflow.runtime.threads import workers
from tests.cluster.remote.queues_at_tasks import left, queue_of
from tests.cluster.remote.waiting import open_steps, watching
from tests.cluster.test_clusters import comes
from tests.cluster.warm import warm
from tests.resources.queues.modes import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[ef.cluster.Cluster]:
    with ef.cluster.local({"ps": 1, "worker": 2}) as made, watching(made):
        warm(made)
        yield made


def test_a_runner_fills_a_queue_that_a_step_drains(cluster: ef.cluster.Cluster) -> None:
    numbers, squares = queue_of(), queue_of(capacity=2)

    @ef.trace
    def square() -> None:
        x = numbers.dequeue()
        with ef.device("worker:0"):
            y = x * x
        squares.enqueue(y.to("ps:0"))

    drain = ef.trace(lambda: squares.dequeue())
    with ef.spawn(square, closes=squares) as runner:
        numbers.enqueue_many([1.0, 2.0, 3.0])
        assert [drain().item() for _ in range(3)] == [1, 4, 9]
        until(lambda: open_steps() > 0 and workers.shared._waiting == len(workers.shared))
    assert not runner.running
    assert squares.closed
    assert comes(lambda: open_steps() == 0)


def test_a_runner_of_python_stops_in_a_wait(cluster: ef.cluster.Cluster) -> None:
    queue, out = queue_of(), queue_of()
    with ef.spawn(lambda: out.enqueue(queue.dequeue()), closes=out) as runner:
        queue.enqueue(1.0)
        assert out.dequeue().item() == 1
        until(lambda: open_steps() > 0)
    assert runner.steps == 1
    assert out.closed
    queue.enqueue(2.0)
    assert left(queue) == [2]


def test_the_failure_of_a_runner_is_quoted_where_its_queue_is_read(
    cluster: ef.cluster.Cluster,
) -> None:
    queue = queue_of()
    runner = ef.spawn(lambda: 1 / 0, closes=queue)
    with pytest.raises(ZeroDivisionError):
        runner.join()
    with pytest.raises(RunnerFailedError) as caught:
        list(queue)
    assert "ended with ZeroDivisionError: division by zero" in str(caught.value)
    assert "runner = ef.spawn(lambda: 1 / 0, closes=queue)" in str(caught.value)


def test_a_runner_waits_for_both_processes(cluster: ef.cluster.Cluster) -> None:
    """A step with functions of Python holds no thread either, and stops in either part."""
    queue, here = queue_of(), ef.Queue(3, "f32[]")

    @ef.trace
    def step() -> None:
        x = queue.dequeue()
        here.enqueue(ef.py_call(lambda v: v + 1, "f32[]", x.to("cpu:0")))

    with ef.spawn(step) as runner:
        queue.enqueue_many([1.0, 2.0, 3.0, 4.0])
        assert [here.dequeue().item() for _ in range(4)] == [2, 3, 4, 5]
        until(lambda: runner.steps == 4 and open_steps() > 0)
    assert open_steps() == 0


def test_synchronous_training_through_queues(cluster: ef.cluster.Cluster) -> None:
    """Each worker gives one gradient for a token of its own; their sum is plain training."""
    data = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    target = data @ np.array([1.0, -2.0, 0.5], np.float32)
    w = ef.Variable(ef.zeros(3), device="ps:0", name="w")
    gradients = ef.Queue(4, "f32[3]", device="ps:0", name="gradients")
    tokens = [ef.Queue(4, "i64[]", device="ps:0", name=f"tokens-{i}") for i in range(2)]

    def worker(i: int) -> Any:
        with ef.device(f"worker:{i}"):
            x, y = ef.tensor(data[i::2]), ef.tensor(target[i::2])

        @ef.trace
        def step() -> None:
            tokens[i].dequeue()
            with ef.device(f"worker:{i}"):
                g = ef.grad(lambda v: ((x @ v - y) ** 2).sum())(w.value)
            gradients.enqueue(g.to("ps:0"))

        return step

    @ef.trace
    def update() -> None:
        with ef.device("ps:0"):
            w.assign_sub(gradients.dequeue_many(2).sum(0) * 0.02)

    with ef.spawn(worker(0)), ef.spawn(worker(1)):
        for _ in range(20):
            for queue in tokens:
                queue.enqueue(0)
            update()
    v = np.zeros(3, np.float32)
    for _ in range(20):
        v -= 0.02 * 2 * data.T @ (data @ v - target)
    np.testing.assert_allclose(w.numpy(), v, rtol=1e-3, atol=1e-4)


def test_a_reader_takes_names_from_a_queue_of_this_process(cluster: ef.cluster.Cluster) -> None:
    names = ef.Queue(3, "bytes[]", device="ps:0")
    with pytest.raises(ResourceError, match="queue of names is at a task"):
        ef.io.TextLineReader(names)
