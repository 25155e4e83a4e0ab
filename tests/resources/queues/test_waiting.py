"""The table of queues: waits of producers and consumers, and the effect of closing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says
from tests.resources.queues.modes import SHOWN, Call, Waiting, drained, numbers, row, rows, until
from tests.source_tree import ROOT

PUT, TAKE = 0, 1


def queue_of(*values: int, capacity: int = 3, **how: Any) -> ef.Queue:
    queue = ef.Queue(capacity, ef.tensor(0), **how)
    if values:
        queue.enqueue_many(list(values))
    return queue


def put(queue: ef.Queue, *values: int) -> None:
    for value in values:
        queue.enqueue(value)


# --- waiting ----------------------------------------------------------------------------------


@row("full")
def test_enqueue_waits_for_room(call: Call) -> None:
    queue = queue_of(1, 2, 3)
    waiting = Waiting(lambda: call(lambda: queue.enqueue(4)), queue, PUT)
    assert waiting.waits
    assert numbers(queue.dequeue()) == 1
    assert waiting.result() is None
    assert list(drained(queue)) == [2, 3, 4]


@row("empty")
def test_dequeue_waits_for_an_element(call: Call) -> None:
    queue = queue_of()
    waiting = Waiting(lambda: call(queue.dequeue), queue)
    assert waiting.waits
    queue.enqueue(5)
    assert numbers(waiting.result()) == 5


@row("order")
def test_who_asks_first_is_served_first(call: Call) -> None:
    queue = queue_of()
    waiting = [Waiting(lambda: call(queue.dequeue), queue) for _ in range(3)]
    put(queue, 1, 2, 3)
    assert [numbers(w.result()) for w in waiting] == [1, 2, 3]
    put(queue, 1, 2, 3)
    producers = [Waiting(lambda i=i: call(lambda: queue.enqueue(i)), queue, PUT) for i in (4, 5, 6)]
    assert [numbers(queue.dequeue()) for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert [w.result() for w in producers] == [None] * 3


@row("head-of-line")
def test_nobody_overtakes_who_waits_for_many(call: Call) -> None:
    queue = queue_of()
    many = Waiting(lambda: call(lambda: queue.dequeue_many(2)), queue)
    one = Waiting(lambda: call(queue.dequeue), queue)
    queue.enqueue(1)
    assert many.waits
    assert one.waits
    put(queue, 2, 3)
    assert numbers(many.result()) == [1, 2]
    assert numbers(one.result()) == 3


@row("timeout")
@pytest.mark.parametrize("seconds", [0, 0.01])
def test_a_timeout_leaves_all_as_it_was(call: Call, seconds: float) -> None:
    empty, full = queue_of(), queue_of(1, 2, 3)
    for late in (
        lambda: empty.dequeue(timeout=seconds),
        lambda: empty.dequeue_many(2, timeout=seconds),
        lambda: empty.dequeue_up_to(2, timeout=seconds),
        lambda: full.enqueue(4, timeout=seconds),
        lambda: full.enqueue_many([4, 5], timeout=seconds),
    ):
        with pytest.raises(errors.WaitTimeoutError, match=f"still waits after {seconds} seconds"):
            call(late)
    assert list(drained(full)) == [1, 2, 3]
    empty.enqueue(1)
    assert list(drained(empty)) == [1]


@row("timeout")
def test_a_timeout_tells_how_many_elements_are_in(call: Call) -> None:
    queue = queue_of(1)
    with pytest.raises(errors.WaitTimeoutError, match="; 2 of its 5 elements were put in"):
        call(lambda: queue.enqueue_many([2, 3, 4, 5, 6], timeout=0.01))
    assert list(drained(queue)) == [1, 2, 3]


@row("timeout")
def test_who_need_not_wait_is_not_late(call: Call) -> None:
    queue = queue_of(1, 2)
    assert numbers(call(lambda: queue.dequeue(timeout=0))) == 1
    call(lambda: queue.enqueue(3, timeout=0))
    call(lambda: queue.close(timeout=0))
    assert list(drained(queue)) == [2, 3]


@row("gives-back")
def test_who_gives_up_gives_back(call: Call) -> None:
    queue = queue_of(1, 2)
    with pytest.raises(errors.WaitTimeoutError):
        call(lambda: queue.dequeue_many(3, timeout=0.01))
    assert list(drained(queue)) == [1, 2]


@row("size")
def test_size_counts_what_is_in(call: Call) -> None:
    queue = queue_of(1, 2, 3)
    assert numbers(call(queue.size)) == 3
    producer = Waiting(lambda: queue.enqueue(4), queue, PUT)
    assert numbers(call(queue.size)) == 3
    assert numbers(queue.dequeue_many(4)) == [1, 2, 3, 4]
    assert producer.result() is None
    consumer = Waiting(lambda: queue.dequeue_many(2), queue)
    queue.enqueue(5)
    assert numbers(call(queue.size)) == 0  # the waiting consumer holds it
    queue.enqueue(6)
    assert numbers(consumer.result()) == [5, 6]


# --- many -------------------------------------------------------------------------------------


@row("enqueue-many-over-capacity")
def test_more_than_there_is_room_for(call: Call) -> None:
    queue = queue_of(capacity=2)
    producer = Waiting(lambda: call(lambda: queue.enqueue_many([1, 2, 3, 4, 5])), queue, PUT)
    assert numbers(queue.size()) == 2
    assert producer.waits
    assert [numbers(queue.dequeue()) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert producer.result() is None


@row("enqueue-many-together")
def test_many_stay_together(call: Call) -> None:
    queue = queue_of(capacity=2)
    first = Waiting(lambda: call(lambda: queue.enqueue_many([1, 2, 3])), queue, PUT)
    second = Waiting(lambda: call(lambda: queue.enqueue_many([11, 12, 13])), queue, PUT)
    assert numbers(queue.dequeue_many(6)) == [1, 2, 3, 11, 12, 13]
    assert first.result() is second.result() is None


@row("enqueue-many-none")
def test_no_elements_at_all(call: Call) -> None:
    none = ef.zeros(0, dtype="int64")
    full = queue_of(1, 2, 3)
    call(lambda: full.enqueue_many(none))
    full.close()
    call(lambda: full.enqueue_many(none))
    assert list(drained(full)) == [1, 2, 3]


@row("dequeue-many-none")
def test_none_are_there_at_once(call: Call) -> None:
    queue = ef.Queue(3, {"x": ef.zeros((2, 1)), "n": ef.tensor(0)})
    blocked = Waiting(queue.dequeue, queue)
    for _ in range(2):
        batches = call(lambda: (queue.dequeue_many(0), queue.dequeue_up_to(0)))
        assert [batch["x"].shape for batch in batches] == [(0, 2, 1)] * 2
        assert [batch["n"].shape for batch in batches] == [(0,)] * 2
        queue.close(cancel_pending=True)
    with pytest.raises(errors.QueueClosedError):
        blocked.result()


@row("dequeue-many-over-capacity")
def test_more_than_there_can_be_at_once(call: Call) -> None:
    queue = queue_of(capacity=2)
    consumer = Waiting(lambda: call(lambda: queue.dequeue_many(5)), queue)
    queue.enqueue_many([1, 2, 3, 4, 5, 6])
    assert numbers(consumer.result()) == [1, 2, 3, 4, 5]
    assert list(drained(queue)) == [6]


@row("up-to-open")
def test_up_to_waits_as_long_as_it_is_open(call: Call) -> None:
    queue = queue_of(1)
    consumer = Waiting(lambda: call(lambda: queue.dequeue_up_to(3)), queue)
    queue.enqueue(2)
    assert consumer.waits
    queue.enqueue(3)
    assert numbers(consumer.result()) == [1, 2, 3]


# --- closing ----------------------------------------------------------------------------------


@row("close-then-dequeue")
def test_what_is_in_can_be_taken(call: Call) -> None:
    queue = queue_of(1, 2)
    call(queue.close)
    assert numbers(call(queue.dequeue)) == 1
    with pytest.raises(errors.QueueClosedError, match="has too few elements") as caught:
        call(lambda: queue.dequeue_many(3))
    assert caught.value.hint == "dequeue_up_to(3) takes what is left"
    assert numbers(call(lambda: queue.dequeue_many(1))) == [2]
    for take in (queue.dequeue, lambda: queue.dequeue_up_to(3)):
        with pytest.raises(errors.QueueClosedError, match="is closed and empty") as caught:
            call(take)
        assert "for x in queue, ends without an error" in str(caught.value.hint)


@row("close-while-dequeue-waits")
def test_closing_ends_those_who_wait(call: Call) -> None:
    queue = queue_of()
    waiting = [Waiting(lambda: call(queue.dequeue), queue) for _ in range(3)]
    queue.enqueue(1)
    queue.close()
    assert numbers(waiting[0].result()) == 1
    for late in waiting[1:]:
        with pytest.raises(errors.QueueClosedError):
            late.result()


@row("close-then-enqueue")
def test_nothing_comes_in_any_more(call: Call) -> None:
    queue = queue_of(1)
    queue.close()
    for late in (lambda: queue.enqueue(2), lambda: queue.enqueue_many([2, 3])):
        with pytest.raises(errors.QueueClosedError, match="the queue is closed"):
            call(late)
    assert list(drained(queue)) == [1]


@row("close-behind-enqueues")
def test_closing_waits_for_those_before(call: Call) -> None:
    queue = queue_of(1, 2, 3)
    before = Waiting(lambda: queue.enqueue_many([4, 5]), queue, PUT)
    closing = Waiting(lambda: call(queue.close), queue, PUT)
    after = Waiting(lambda: call(lambda: queue.enqueue(6)), queue, PUT)
    assert not queue.closed
    assert [numbers(queue.dequeue()) for _ in range(2)] == [1, 2]
    assert before.result() is None
    assert closing.result() is None
    assert queue.closed
    with pytest.raises(errors.QueueClosedError):
        after.result()
    assert list(drained(queue)) == [3, 4, 5]


@row("close-behind-enqueues")
def test_closing_can_be_late(call: Call) -> None:
    queue = queue_of(1, 2, 3)
    before = Waiting(lambda: queue.enqueue(4), queue, PUT)
    with pytest.raises(errors.WaitTimeoutError):
        call(lambda: queue.close(timeout=0.01))
    assert not queue.closed
    assert numbers(queue.dequeue()) == 1
    assert before.result() is None


@row("close-cancel-pending")
def test_closing_cancels_those_who_wait_to_put(call: Call) -> None:
    queue = queue_of(1, 2)
    many = Waiting(lambda: call(lambda: queue.enqueue_many([3, 4, 5])), queue, PUT)
    one = Waiting(lambda: call(lambda: queue.enqueue(6)), queue, PUT)
    call(lambda: queue.close(cancel_pending=True))
    for waiting in (many, one):
        with pytest.raises(errors.CancelledError, match="was closed while it waited") as caught:
            waiting.result()
        assert isinstance(caught.value, errors.QueueClosedError)
    assert list(drained(queue)) == [1, 2, 3]  # elements in the queue stay


@row("close-cancel-pending")
def test_a_close_that_waits_is_through(call: Call) -> None:
    queue = queue_of(1, 2, 3)
    producer = Waiting(lambda: queue.enqueue(4), queue, PUT)
    closing = Waiting(lambda: call(queue.close), queue, PUT)
    call(lambda: queue.close(cancel_pending=True))
    assert closing.result() is None
    with pytest.raises(errors.CancelledError):
        producer.result()


@row("close-twice")
def test_closing_twice(call: Call) -> None:
    queue = queue_of()
    call(queue.close)
    with pytest.raises(errors.QueueClosedError, match="already closed"):
        call(queue.close)
    call(lambda: queue.close(cancel_pending=True))
    call(lambda: queue.close(cancel_pending=True))


@row("too-few-left")
def test_too_few_stay_where_they_are(call: Call) -> None:
    queue = queue_of(1, 2)
    queue.close()
    with pytest.raises(errors.QueueClosedError, match="3 elements, of which there are 2"):
        call(lambda: queue.dequeue_many(3))
    assert numbers(call(lambda: queue.dequeue_many(2))) == [1, 2]


@row("too-few-left")
def test_too_few_go_back_when_it_is_closed(call: Call) -> None:
    queue = queue_of(capacity=2)
    many = Waiting(lambda: call(lambda: queue.dequeue_many(5)), queue)
    after = Waiting(lambda: call(queue.dequeue), queue)
    queue.enqueue_many([1, 2, 3])
    assert numbers(queue.size()) == 0
    queue.close()
    with pytest.raises(errors.QueueClosedError):
        many.result()
    assert numbers(after.result()) == 1
    assert list(drained(queue)) == [2, 3]


@row("up-to-closed", "up-to-none-left")
def test_what_is_left_will_do(call: Call) -> None:
    queue = queue_of(1, 2)
    first = Waiting(lambda: call(lambda: queue.dequeue_up_to(4)), queue)
    second = Waiting(lambda: call(lambda: queue.dequeue_up_to(4)), queue)
    queue.enqueue(3)
    queue.close()
    assert numbers(first.result()) == [1, 2, 3]
    with pytest.raises(errors.QueueClosedError, check=says("dequeue_up_to")):
        second.result()
    with pytest.raises(errors.QueueClosedError):
        call(lambda: queue.dequeue_up_to(1))


@row("failed-run")
def test_a_failed_run_of_a_graph_gives_up_its_places() -> None:
    """One op of a step fails: another op's wait is given up, and it holds no element."""
    queue, other = queue_of(1), queue_of()

    @ef.trace
    def step() -> Any:
        with ef.unordered():
            a = queue.dequeue_many(2)
            b = other.dequeue()
        return a, b

    waiting = Waiting(step, queue)
    until(lambda: other.resource.waiting(TAKE) == 1)
    other.close()
    with pytest.raises(errors.QueueClosedError):
        waiting.result()
    assert queue.resource.waiting(TAKE) == 0
    assert list(drained(queue)) == [1]


def test_every_row_of_the_table_has_a_test() -> None:
    for folder in ("resources/queues", "runners"):
        for file in (ROOT / "tests" / folder).glob("test_*.py"):
            import_module(f"tests.{folder.replace('/', '.')}.{file.stem}")
    assert sorted(SHOWN) == sorted(rows())
