"""Steps of one waiting op: they hold no thread, and give back what nobody has received."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

import eagerflow as ef
from eagerflow.errors import CancelledError, QueueClosedError
from eagerflow.runtime.scheduled.detached import Result
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.waiting_steps import WaitingStep, is_one_wait


@pytest.fixture
def queue() -> ef.Queue:
    return ef.Queue(3, "f32[]")


@pytest.fixture
def tier(queue: ef.Queue) -> ScheduledTier:
    return ScheduledTier(ef.trace(lambda: queue.dequeue()).graph(), 1)


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def begun(tier: ScheduledTier) -> tuple[WaitingStep, list[Result]]:
    told: list[Result] = []
    step = WaitingStep(tier, 7, told.append)
    step.begin([])
    return step, told


def test_graphs_of_one_wait(queue: ef.Queue, tier: ScheduledTier) -> None:
    assert is_one_wait(tier)
    for other in (lambda: queue.size(), lambda: queue.dequeue() + 1, lambda: None):
        assert not is_one_wait(ScheduledTier(ef.trace(other).graph(), 1))
    mutex = ef.Mutex()

    def locked() -> None:
        with mutex:
            pass

    assert not is_one_wait(ScheduledTier(ef.trace(locked).graph(), 1))


def test_it_waits_without_a_thread(queue: ef.Queue, tier: ScheduledTier) -> None:
    _, told = begun(tier)
    assert not told
    queue.enqueue(2.0)
    assert [float(x) for x in told[0]()] == [2]


def test_its_error_names_the_line_and_the_node(queue: ef.Queue, tier: ScheduledTier) -> None:
    queue.close()
    _, told = begun(tier)
    with pytest.raises(QueueClosedError) as caught:
        told[0]()
    assert "queue.dequeue()" in str(caught.value.source)
    assert "%queue_dequeue" in caught.value.__notes__[0]


def test_a_cancelled_wait_takes_nothing(queue: ef.Queue, tier: ScheduledTier) -> None:
    reason = "as the test asks"
    step, told = begun(tier)
    step.cancel(reason)
    with pytest.raises(CancelledError, match=reason):
        told[0]()
    queue.enqueue(2.0)
    assert queue.size().item() == 1


def test_it_gives_back_after_its_end(queue: ef.Queue, tier: ScheduledTier) -> None:
    queue.enqueue_many([2.0, 3.0])
    step, told = begun(tier)
    assert queue.size().item() == 1
    for _ in range(2):  # the second call has no effect
        step.cancel("enough")
        assert queue.size().item() == 2
    assert queue.dequeue_many(2).tolist() == [2, 3]
    assert len(told) == 1


def test_one_cancelled_before_it_begins_does_not_run(queue: ef.Queue, tier: ScheduledTier) -> None:
    queue.enqueue(2.0)
    told: list[Result] = []
    step = WaitingStep(tier, 7, told.append)
    step.cancel("enough")
    step.begin([])
    assert len(told) == 1
    assert queue.size().item() == 1


@pytest.mark.parametrize("waits", [False, True])
def test_its_element_is_freed_with_it(
    waits: bool, queue: ef.Queue, tier: ScheduledTier, no_collection: None
) -> None:
    if not waits:
        queue.enqueue(2.0)
    step, told = begun(tier)
    if waits:
        queue.enqueue(2.0)
    element = weakref.ref(told.pop()()[0])
    assert element() is not None
    del step
    assert element() is None
