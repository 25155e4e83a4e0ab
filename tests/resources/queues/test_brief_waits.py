"""Waits in brief, for instruments that need no record of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.events import AbstractEvent, BriefWait, WaitEvent
from eagerflow.extending import FifoStore, QueueState, begin_told
from tests.recorded import recorded
from tests.resources.queues.modes import Waiting, until


class Brief:
    """An instrument that hears of waits in brief alone."""

    kinds = frozenset({WaitEvent})

    def __init__(self) -> None:
        self.heard: list[BriefWait] = []
        self.brief_wait = self.heard.append

    def begin(self, event: AbstractEvent) -> None:
        raise AssertionError("it is told in brief")

    def end(self, event: AbstractEvent) -> None:
        raise AssertionError("it is told in brief")


@pytest.fixture
def brief() -> Iterator[Brief]:
    made = Brief()
    ef.events.add_instrument(made)
    yield made
    ef.events.remove_instrument(made)


def test_a_thread_that_sleeps(brief: Brief) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="letters")
    with recorded(WaitEvent) as records:
        consumer = Waiting(queue.dequeue, queue)
        queue.enqueue(1)
        consumer.result()
    ((*told, start, stop, _),) = brief.heard
    (record,) = records.of("wait", "letters")
    assert told == ["letters", "dequeue", 0, "", "", record.thread]
    assert record.start <= start + 1e-2
    assert start < stop


def test_a_node_of_a_graph(brief: Brief) -> None:
    queue = ef.Queue(1, ef.tensor(0), name="letters")

    @ef.trace
    def take() -> ef.Tensor:
        return queue.dequeue() + 1

    consumer = Waiting(take, queue)
    queue.enqueue(1)
    consumer.result()
    number = take.latest().executable.number
    assert [told[:5] for told in brief.heard] == [
        ("letters", "dequeue", number, "queue_dequeue", "")
    ]


def test_a_runner_that_holds_no_thread(brief: Brief) -> None:
    queue = ef.Queue(1, "f32[]", name="letters")

    @ef.trace
    def write() -> None:
        queue.enqueue(ef.zeros(()))

    with ef.spawn(write, name="writer"):
        until(lambda: queue.resource.level().producers)
        queue.dequeue()
        until(lambda: brief.heard)
        queue.close(cancel_pending=True)
    number = write.latest().executable.number
    assert brief.heard[0][:6] == ("letters", "enqueue", number, "queue_enqueue", "writer", 0)


def test_an_attempt_with_a_callback(brief: Brief) -> None:
    queue, ended = QueueState(1, FifoStore(), name="words"), list[Any]()
    begin_told(queue.enqueue("at once"), lambda: ended.append(1))
    assert brief.heard == []
    begin_told(queue.enqueue("late"), lambda: ended.append(2))
    queue.take_at_once()
    assert ended == [1, 2]
    assert [told[:3] for told in brief.heard] == [("words", "enqueue", 0)]


def test_what_need_not_wait_is_not_told(brief: Brief) -> None:
    queue = ef.Queue(1, ef.tensor(0))
    queue.enqueue(1)
    ef.trace(queue.dequeue)()
    assert brief.heard == []


def test_a_wait_in_progress_has_the_name_of_its_runner() -> None:
    queue = ef.Queue(1, "f32[]", name="letters")
    with ef.spawn(lambda: queue.dequeue(), name="reader"):
        until(lambda: queue.resource.level().consumers)
        (wait,) = [one for one in ef.events.open_waits() if one.name == "letters"]
        queue.close()
    assert wait.runner == "reader"
