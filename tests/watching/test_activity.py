"""Activity of programs as a watcher gathers it: queues, waits, retraces and the like."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.events import LevelEvent, TransferEvent
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.watching import Watcher
from eagerflow.watching.activity import Activity
from tests.recorded import recorded


def test_the_flow_through_a_queue() -> None:
    activity = Activity()
    queue = ef.Queue(5, ef.tensor(0), name="letters")
    events.add_instrument(activity)
    try:
        queue.enqueue_many([1, 2, 3])
        queue.dequeue()
        queue.dequeue_many(2)
        queue.enqueue(4)
        queue.close()
    finally:
        events.remove_instrument(activity)
    activity.collect()
    known = activity.queues["letters"]
    assert (known.put, known.taken, known.level.depth) == (4, 3, 1)
    assert known.level.closed


def test_who_waits_and_since_when() -> None:
    activity = Activity()
    queue = ef.Queue(1, ef.tensor(0), name="letters")
    events.add_instrument(activity)
    thread = threading.Thread(target=queue.dequeue)
    thread.start()
    try:
        while not (waits := activity.waiting):
            pass
        activity.collect()
        assert [(w.name, w.operation, w.thread) for w in waits] == [
            ("letters", "dequeue", thread.ident)
        ]
        assert not activity.waits
    finally:
        queue.enqueue(1)
        thread.join()
        events.remove_instrument(activity)
    activity.collect()
    (known,) = activity.waits.values()
    assert (known.name, known.operation, known.count, known.starves) == (
        "letters",
        "dequeue",
        1,
        True,
    )
    assert known.seconds > 0
    assert activity.waiting == []


def test_retraces_have_their_reason() -> None:
    activity = Activity()

    @ef.trace
    def f(x):
        return x + 1

    events.add_instrument(activity)
    try:
        f(ef.zeros(2))
        f(ef.zeros((2, 2)))
    finally:
        events.remove_instrument(activity)
    activity.collect()
    assert activity.traced == {"f": 2}
    assert activity.traces[0].reason == "the first call"


def test_transfers_that_go_on_and_those_that_ended() -> None:
    activity = Activity()
    moved = TransferEvent(name="x", device="cpu:1", origin="cpu:0", nbytes=8, start=1.0)
    activity.begin(moved)
    activity.collect()
    assert activity.moving == [moved]
    moved.stop = 3.0
    activity.end(moved)
    activity.collect()
    assert activity.moving == []
    (known,) = activity.transfers.values()
    assert (known.count, known.nbytes, known.seconds) == (1, 8, 2.0)


def test_what_is_remembered_is_bounded() -> None:
    activity = Activity()
    for i in range(6000):
        activity.brief_wait((f"queue {i}", "dequeue", 0, "", "", 1, 0.0, 1.0, 1))
        activity.brief_level((f"queue {i}", "fifo", 0, 0, 0, 0, False, 0.0, -1))
    activity.collect()
    assert len(activity.waits) == len(activity.queues) == 4096
    assert "queue 5999" in activity.queues


def test_elements_are_counted_that_never_lay_in_the_queue() -> None:
    activity = Activity()
    events.add_instrument(activity)
    try:
        taken, put = ef.Queue(1, "f32[]", name="taken"), ef.Queue(1, "f32[]", name="put")
        taker = threading.Thread(target=lambda: [taken.dequeue() for _ in range(5)])
        putter = threading.Thread(target=lambda: [put.enqueue(1.0) for _ in range(5)])
        taker.start()
        putter.start()
        for left in range(4, -1, -1):
            while not taken.resource.level().consumers:
                pass
            taken.enqueue(1.0)
            while left and not put.resource.level().producers:
                pass
            put.dequeue()
        taker.join()
        putter.join()
        activity.collect()
    finally:
        events.remove_instrument(activity)
    counts = {name: (known.put, known.taken) for name, known in activity.queues.items()}
    assert counts == {"taken": (5, 5), "put": (5, 5)}


def test_of_a_fast_queue_few_levels_are_reported_and_each_element_is_counted() -> None:
    """The depth is the present one at each look, and a slow queue reports each change again."""
    watcher = Watcher()
    watcher._run = lambda: None  # type: ignore[method-assign]
    queue = ef.Queue(5, "f32[]", name="fast")
    queue.enqueue(0.0)
    with watcher:
        told = []
        for changes in (500, 500, 500, 2, 2, 2):
            before = watcher.activity.told
            for _ in range(changes):
                queue.enqueue(1.0)
                queue.dequeue()
            watcher.collect()
            told.append(watcher.activity.told - before)
            known = watcher.activity.queues["fast"]
            assert known.level.depth == 1
        queue.enqueue(1.0)
        watcher.collect()
    assert told[0] == 1000
    assert all(few < 40 for few in told[1:])
    assert told[-1] in (4, 5)
    assert (known.put, known.taken, known.level.depth) == (1507, 1506, 2)


def test_of_many_waits_those_that_are_reported_stand_for_all() -> None:
    """Producer and consumer alternate, and wait for one and three milliseconds."""
    watcher, queue = Watcher(), ef.Queue(5, "f32[]", name="both").resource
    watcher._run = lambda: None  # type: ignore[method-assign]
    with watcher:
        queue.told_every = 8
        for i in range(8000):
            operation, seconds = (("enqueue", 1e-3), ("dequeue", 3e-3))[i % 2]
            if waits := queue.count_wait():
                watcher.brief_wait(("both", operation, 0, "", "", 1, 0.0, seconds, waits))
        watcher.collect()
    assert watcher.activity.counts[1] < 1300
    known = {wait.operation: wait for wait in watcher.activity.waits.values()}
    assert known["enqueue"].count == pytest.approx(4000, rel=0.15)
    assert known["enqueue"].seconds == pytest.approx(4.0, rel=0.15)
    assert known["dequeue"].seconds == pytest.approx(12.0, rel=0.15)


def test_elements_are_counted_from_the_beginning_of_watching() -> None:
    watcher, queue = Watcher(), ef.Queue(5, "f32[]", name="counted")
    watcher._run = lambda: None  # type: ignore[method-assign]
    queue.enqueue_many([1.0, 2.0, 3.0])
    for count in (1, 2):
        with watcher:
            queue.enqueue(4.0)
            queue.dequeue()
            watcher.collect()
        queue.enqueue(5.0)
        queue.dequeue()
        known = watcher.activity.queues["counted"]
        assert (known.put, known.taken) == (count, count)


def test_an_instrument_that_comes_later_hears_of_each_change() -> None:
    watcher, queue = Watcher(), ef.Queue(5, "f32[]", name="heard")
    watcher._run = lambda: None  # type: ignore[method-assign]
    with watcher:
        for _ in range(2):
            for _ in range(500):
                queue.enqueue(1.0)
                queue.dequeue()
            watcher.collect()
        assert queue.resource.told_every > 1
        with recorded(LevelEvent) as log:
            queue.enqueue_many([1.0, 2.0])
            queue.dequeue()
    assert [event.depth for event in log.of("level")] == [2, 1]


def test_an_element_is_counted_that_came_before_its_consumer_could_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    activity, queue = Activity(), ef.Queue(1, "f32[]", name="early")
    begin = AbstractAttempt.begin

    def begin_and_be_served(attempt: AbstractAttempt, *args: Any) -> None:
        begin(attempt, *args)
        monkeypatch.undo()
        queue.enqueue(1.0)

    monkeypatch.setattr(AbstractAttempt, "begin", begin_and_be_served)
    events.add_instrument(activity)
    try:
        assert float(queue.dequeue()) == 1.0
        activity.collect()
    finally:
        events.remove_instrument(activity)
    assert (activity.queues["early"].put, activity.queues["early"].taken) == (1, 1)
