"""Kinds of queues: the order of their elements, and the padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.resources.queues.modes import Call, Waiting, numbers, row

# --- shuffle ----------------------------------------------------------------------------------


def shuffled(seed: int | None, count: int = 20) -> list[int]:
    queue = ef.Queue(None, ef.tensor(0), kind="shuffle", seed=seed)
    queue.enqueue_many(ef.arange(count))
    elements: list[int] = numbers(queue.dequeue_many(count))
    return elements


@row("shuffle-seed")
def test_shuffle() -> None:
    assert shuffled(1) == shuffled(1) != shuffled(2)
    assert sorted(shuffled(None)) == list(range(20)) != shuffled(None)
    first = [shuffled(seed, 4)[0] for seed in range(400)]
    assert all(60 < first.count(i) < 140 for i in range(4))


@row("shuffle-minimum", "shuffle-close")
def test_some_stay_to_choose_from(call: Call) -> None:
    queue = ef.Queue(10, ef.tensor(0), kind="shuffle", min_after_dequeue=3, seed=0)
    queue.enqueue_many([0, 1, 2])
    waiting = Waiting(lambda: call(queue.dequeue), queue)
    assert waiting.waits
    queue.enqueue(3)
    elements = [numbers(waiting.result())]
    many = Waiting(lambda: call(lambda: queue.dequeue_many(2)), queue)
    assert numbers(queue.size()) == 3
    queue.close()
    elements += numbers(many.result()) + numbers(queue.dequeue_up_to(9))
    assert sorted(elements) == [0, 1, 2, 3]


# --- priority ---------------------------------------------------------------------------------


def by_priority(capacity: int | None = None) -> ef.Queue:
    return ef.Queue(capacity, ef.tensor(0), kind="priority")


@row("priority-order", "priority-ties")
def test_the_lowest_comes_first(call: Call) -> None:
    queue = by_priority()
    call(lambda: queue.enqueue(1, priority=5))
    call(lambda: queue.enqueue_many([2, 3, 4], priority=[-7, 5, 2**62]))
    call(lambda: queue.enqueue_many([5, 6], priority=-7))
    call(lambda: queue.enqueue(7, priority=ef.tensor(5)))
    assert numbers(call(queue.dequeue)) == 2
    assert numbers(call(lambda: queue.dequeue_many(6))) == [5, 6, 1, 3, 7, 4]


@row("priority-many")
def test_the_lowest_of_all_that_were_there(call: Call) -> None:
    queue = by_priority()
    many = Waiting(lambda: call(lambda: queue.dequeue_many(3)), queue)
    queue.enqueue_many([1, 2], priority=[9, 8])
    assert numbers(queue.size()) == 2  # the waiting take holds none: a lower number may come
    queue.enqueue(3, priority=0)
    assert numbers(many.result()) == [3, 2, 1]
    up_to = Waiting(lambda: call(lambda: queue.dequeue_up_to(3)), queue)
    queue.enqueue_many([1, 2], priority=[9, 8])
    queue.close()
    assert numbers(up_to.result()) == [2, 1]


@row("priority-given")
def test_priorities_are_for_priority_queues(call: Call) -> None:
    queue, plain = by_priority(), ef.Queue(3, ef.tensor(0))
    with pytest.raises(errors.TensorValueError, match="a priority is for priority queues"):
        call(lambda: queue.enqueue(1))
    with pytest.raises(errors.TensorValueError, match="a priority is for priority queues"):
        call(lambda: plain.enqueue(1, priority=1))
    with pytest.raises(errors.DTypeError):
        call(lambda: queue.enqueue(1, priority=1.5))
    with pytest.raises(errors.ShapeError):
        call(lambda: queue.enqueue(1, priority=[1]))
    with pytest.raises(errors.ShapeError, match="as many priorities as elements"):
        call(lambda: queue.enqueue_many([1, 2, 3], priority=[1, 2]))
    assert numbers(queue.size()) == 0


@row("priority-room")
def test_a_full_priority_queue(call: Call) -> None:
    """A waiting producer does not overtake elements in the queue."""
    queue = by_priority(2)
    queue.enqueue_many([1, 2], priority=[5, 6])
    producer = Waiting(lambda: call(lambda: queue.enqueue(3, priority=0)), queue, 0)
    assert numbers(queue.dequeue()) == 1
    assert producer.result() is None
    assert numbers(queue.dequeue_many(2)) == [3, 2]


# --- padding ----------------------------------------------------------------------------------


@row("padding-fill", "padding-one")
def test_smaller_ones_are_filled_up(call: Call) -> None:
    queue = ef.Queue(5, (ef.zeros((1, 1)), ef.tensor(0)), kind="padding")
    for rows, columns in ((2, 1), (1, 3), (0, 2)):
        call(lambda r=rows, c=columns: queue.enqueue((ef.ones((r, c)), r)))
    call(lambda: queue.enqueue((ef.ones((4, 4)), 4)))
    x, n = call(lambda: queue.dequeue_many(3))
    assert numbers(n) == [2, 1, 0]
    expected = np.zeros((3, 2, 3), np.float32)
    expected[0, :2, :1] = expected[1, :1, :3] = 1
    assert numbers(x) == expected.tolist()
    assert call(queue.dequeue)[0].shape == (4, 4)  # an element alone is not padded


@row("padding-shape")
def test_sizes_that_may_differ_have_names(call: Call) -> None:
    queue = ef.Queue(5, "f32[n,2]", kind="padding")
    call(lambda: queue.enqueue_many(ef.ones((2, 3, 2))))
    for wrong in (ef.ones((3, 3)), ef.ones(2)):
        with pytest.raises(errors.ShapeError, match="another shape"):
            call(lambda wrong=wrong: queue.enqueue(wrong))
    call(lambda: queue.enqueue(ef.ones((1, 2))))
    queue.close()
    assert call(lambda: queue.dequeue_up_to(9)).shape == (3, 3, 2)


@row("padding-none")
def test_no_elements_have_no_size(call: Call) -> None:
    queue = ef.Queue(5, "f32[n,2]", kind="padding")
    assert call(lambda: queue.dequeue_many(0)).shape == (0, 0, 2)


def test_sizes_of_elements_in_later_ops() -> None:
    """In a trace the sizes of dequeued elements are symbolic dims."""
    queue = ef.Queue(5, "f32[n]", kind="padding")

    @ef.trace
    def mean() -> Any:
        batch = queue.dequeue_many(2)
        return batch.sum(axis=1) / batch.shape[1]

    for sizes in ((1, 2), (4, 3)):
        for size in sizes:
            queue.enqueue(ef.ones(size))
        assert numbers(mean()) == [size / max(sizes) for size in sizes]
    assert len(mean.traces) == 1
