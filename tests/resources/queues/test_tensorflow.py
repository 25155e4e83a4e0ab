"""TensorFlow's behaviour as the tables describe it, checked against TensorFlow itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peer


class Session:
    """Runs TensorFlow operations; an error is given by its name."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self._session = tf.Session()

    def run(self, op: Any, seconds: float = 20.0) -> Any:
        options = self.tf.RunOptions(timeout_in_ms=int(seconds * 1000))
        try:
            return self._session.run(op, options=options)
        except self.tf.errors.OpError as error:
            return type(error).__name__

    def later(self, op: Any, seconds: float = 20.0) -> Any:
        """Run an operation in a thread; gives a function that waits for it and has its result."""
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(self.run(op, seconds)))
        thread.start()
        thread.join(0.3)  # nothing reports that the thread waits

        def end() -> Any:
            thread.join()
            return results[0]

        return end

    def queue(self, capacity: int, *values: int) -> Any:
        queue = self.tf.FIFOQueue(capacity, self.tf.int64, shapes=[()])
        self.run(queue.enqueue_many([list(values)]))
        return queue


@pytest.fixture
def session() -> Iterator[Session]:
    tf = pytest.importorskip("tensorflow.compat.v1")
    with tf.Graph().as_default():
        yield Session(tf)


def test_closing(session: Session) -> None:
    queue = session.queue(1, 1)
    enqueue, close = session.later(queue.enqueue(2)), session.later(queue.close())
    assert session.run(queue.close(cancel_pending_enqueues=True)) is None
    assert (enqueue(), close()) == ("CancelledError", "CancelledError")
    assert session.run(queue.close()) == "CancelledError"
    assert session.run(queue.close(cancel_pending_enqueues=True)) is None
    assert session.run(queue.enqueue(3)) == "CancelledError"
    assert session.run(queue.enqueue_many([np.zeros(0, np.int64)])) is None
    assert session.run(queue.dequeue_many(2)) == "OutOfRangeError"
    assert session.run(queue.dequeue_many(0)).shape == (0,)
    assert session.run(queue.dequeue_up_to(9)).tolist() == [1]
    assert session.run(queue.dequeue_up_to(9)) == "OutOfRangeError"


def test_waiting(session: Session) -> None:
    queue = session.queue(2)
    many, one = session.later(queue.dequeue_many(3)), session.later(queue.dequeue())
    session.run(queue.enqueue_many([[1, 2, 3, 4]]))
    assert (many().tolist(), one()) == ([1, 2, 3], 4)
    enqueue = session.later(queue.enqueue_many([[1, 2, 3]]))
    close, after = session.later(queue.close()), session.later(queue.enqueue(4))
    assert [session.run(queue.dequeue()) for _ in range(3)] == [1, 2, 3]
    assert (enqueue(), close(), after()) == (None, None, "CancelledError")


def test_a_dequeue_that_is_late_drops_what_it_held(session: Session) -> None:
    queue = session.queue(5, 1, 2)
    assert session.run(queue.dequeue_many(3), 0.5) == "DeadlineExceededError"
    assert session.run(queue.size()) == 0


def test_shuffle_and_priority(session: Session) -> None:
    tf = session.tf
    shuffle = tf.RandomShuffleQueue(10, 2, tf.int64, shapes=[()])
    session.run(shuffle.enqueue_many([[1, 2, 3]]))
    many = session.later(shuffle.dequeue_many(3))
    assert session.run(shuffle.size()) == 2
    session.run(shuffle.close())
    assert sorted(many()) == [1, 2, 3]
    assert session.run(tf.RandomShuffleQueue(2, 2, tf.int64).size()) == "InvalidArgumentError"
    priority = tf.PriorityQueue(5, [tf.int64], [()])
    session.run(priority.enqueue_many([[5, 1, 3], [50, 10, 30]]))
    many = session.later(priority.dequeue_many(4))
    assert session.run(priority.size()) == 3
    session.run(priority.close())
    assert many() == "OutOfRangeError"
    assert session.run(priority.dequeue_up_to(9)) == "OutOfRangeError"
    assert session.run(priority.size()) == 0


def test_accumulators(session: Session) -> None:
    tf = session.tf
    sums = tf.ConditionalAccumulator(tf.float32, shape=())
    assert session.run(sums.take_grad(0)) == "InvalidArgumentError"
    for value in (1.0, 2.0, 6.0):
        session.run(sums.apply_grad(value, local_step=0))
    assert session.run(sums.take_grad(2)) == 3.0
    session.run(sums.apply_grad(1.0, local_step=0))  # stale
    session.run(sums.apply_grad(8.0, local_step=5))
    assert session.run(sums.take_grad(1)) == 8.0
    rows = tf.SparseConditionalAccumulator(tf.float32, shape=(4,))

    def add(values: list[float], indices: list[int], step: int) -> None:
        slices = tf.IndexedSlices(tf.constant(values), tf.constant(indices, tf.int64))
        session.run(rows.apply_indexed_slices_grad(slices, local_step=step))

    add([1.0, 2.0], [0, 3], 0)
    add([5.0], [3], 0)
    mean = session.run(rows.take_indexed_slices_grad(2))
    assert (mean.values.tolist(), mean.indices.tolist()) == ([1.0, 3.5], [0, 3])
    add([5.0, 1.0], [3, 3], 1)
    assert session.run(rows.take_indexed_slices_grad(1)).indices.tolist() == [3, 3]


def test_barriers(session: Session) -> None:
    from tensorflow.python.ops.data_flow_ops import Barrier

    def barrier() -> Any:
        return Barrier((session.tf.float32,) * 2, shapes=((), ()))

    one = barrier()
    for i in (0, 1):
        session.run(one.insert_many(i, ["a"], [1.0]))
    take = session.later(one.take_many(3), 2.0)
    session.run(one.insert_many(0, ["b"], [1.0]))
    session.run(one.close())
    session.run(one.insert_many(1, ["b"], [1.0]))
    assert take() == "DeadlineExceededError"  # though no value can come any more
    two = barrier()
    session.run(two.insert_many(0, ["a"], [1.0]))
    assert session.run(two.insert_many(0, ["c", "a"], [1.0, 2.0])) == "InvalidArgumentError"
    assert session.run(two.incomplete_size()) == 2
    session.run(two.close())
    assert session.run(two.insert_many(0, ["z"], [1.0])) == "CancelledError"
    assert session.run(two.close()) == "CancelledError"
    assert session.run(two.close(cancel_pending_enqueues=True)) is None
    assert session.run(two.close(cancel_pending_enqueues=True)) == "CancelledError"
