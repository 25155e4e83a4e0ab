"""The queues between the stages of a pipeline: levels, events, and ends."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.data.base.orders import generator, words_of
from eagerflow.data.sources.memory import IterableStage
from eagerflow.data.stages.shuffle import BufferCursor
from eagerflow.resources.queue_kinds import ShuffleStore
from eagerflow.resources.queue_state import QueueState
from eagerflow.watching import Watcher
from eagerflow.watching.diagnosing.queue_causes import queue_causes
from tests.data.functions import seven
from tests.data.test_pipelines import values
from tests.data.workers.test_parallel import becomes, counted, numbers
from tests.exploring import examples
from tests.recorded import Recorder, recorded, refuse_events


def until(holds: Callable[[], bool]) -> None:
    """Let other threads run until a condition holds."""
    while not holds():
        os.sched_yield()


def ours() -> list[str]:
    """The names of the running threads of pipelines."""
    return [t.name for t in threading.enumerate() if t.name.startswith("eagerflow-")]


def queue_of(iterator: Any, name: str) -> QueueState:
    """A queue of a pipeline that is being read, by its label."""
    (queue,) = [q for q in iterator._cursor.queues if q.label == name]
    return queue


class Item:
    """An element that is counted while alive."""

    def __init__(self, alive: weakref.WeakSet[Any]) -> None:
        alive.add(self)


# --- levels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [1, 3])
def test_prefetch_holds_as_many_as_it_was_told(ahead: int) -> None:
    """Elements in the queue, one that waits for room, and the one that was taken last."""
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = 0

    def items() -> Iterator[Item]:
        nonlocal most
        for _ in range(50):
            item = Item(alive)
            most = max(most, len(alive))
            yield item
            del item

    iterator = iter(Dataset.from_iterable(items).prefetch(ahead))
    count = 0
    for item in iterator:
        if count < 40:  # a slow consumer: the producer makes all it may
            queue = queue_of(iterator, "prefetch")
            until(lambda queue=queue: queue.size() == ahead and queue.waiting(0) == 1)
        count += 1
        del item
    assert count == 50
    assert ahead + 1 <= most <= ahead + 2
    del iterator
    gc.collect()
    assert becomes(lambda: not alive)


@pytest.mark.parametrize("ordered", [True, False])
def test_workers_hold_two_elements_each(ordered: bool) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    made, most, lock = [0], [0], threading.Lock()

    def make(x: ef.Tensor) -> Item:
        with lock:
            made[0] += 1
            item = Item(alive)
            most[0] = max(most[0], len(alive))
        return item

    dataset = counted(60).map(make, workers=3, ordered=ordered)
    iterator = iter(dataset)
    for count in range(1, 51):
        item = next(iterator)
        until(lambda count=count: made[0] >= count + 5)  # the workers make all they may
        assert made[0] <= count + 5
        del item
    iterator.close()
    assert most[0] <= 6 + 1 + 3  # ahead, taken, and what each worker has just handed over
    assert becomes(lambda: not alive and not ours())


def test_a_shuffle_buffer_holds_its_size() -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = [0]

    def items() -> Iterator[Item]:
        for _ in range(30):
            most[0] = max(most[0], len(alive) + 1)
            yield Item(alive)

    for item in Dataset.from_iterable(items).shuffle(7, seed=0):
        assert item in alive
        del item
    assert most[0] <= 7 + 1
    assert not alive


# --- a fast producer --------------------------------------------------------------------------


PIPELINES: dict[str, Callable[[], Dataset]] = {
    "prefetch": lambda: counted(30).prefetch(2),
    "map(<lambda>)": lambda: numbers(30).map(lambda x: x + 1, workers=2),
    "batches": lambda: numbers(60).map(lambda x: x + 1, workers=2).batch(2).prefetch(2),
}


@pytest.mark.parametrize("which", PIPELINES)
def test_the_consumer_never_waits_for_a_faster_producer(which: str) -> None:
    """With a step slower than its producer, each next element is ready in time."""
    name = "prefetch" if which == "batches" else which
    with recorded() as log:
        iterator = iter(PIPELINES[which]())
        for taken, _ in enumerate(iterator, start=1):
            queue = queue_of(iterator, name)  # the step, in which the producer gets ahead
            left = 30 - taken
            until(lambda queue=queue, left=left: queue.size() >= min(2, left))
            until(lambda queue=queue, left=left: queue.store.available(False) >= min(1, left))
    takes = log.of("take", name)
    assert len(takes) == 30
    assert [e.waited for e in takes[1:]] == [0.0] * 29
    assert all(e.depth >= 1 for e in takes[1:])
    made = log.of("element", name)
    assert len(made) == 30


def test_a_slow_producer_is_seen_in_the_events() -> None:
    """A starved consumer: takes wait at depth 0, and the stage below makes elements slowly."""
    gate = threading.Semaphore(0)

    def slow(x: ef.Tensor) -> ef.Tensor:
        gate.acquire()
        return x

    with recorded() as log:
        iterator = iter(counted(5).map(slow).prefetch(2))
        reader = threading.Thread(target=lambda: list(iterator))
        reader.start()
        until(lambda: "prefetch" in [e.name for e in log.of("level")])
        for taken in range(5):
            until(lambda: queue_of(iterator, "prefetch").waiting(1) == 1)
            gate.release()
            until(lambda taken=taken: len(log.of("take")) > taken)
        reader.join()
    takes = log.of("take", "prefetch")
    assert all(0 < e.waited <= e.seconds and e.depth == 0 for e in takes)
    assert {level for level in log.levels("prefetch") if level[1]} == set()  # no producer waited


# --- events -----------------------------------------------------------------------------------


def test_elements_depths_and_mistakes_are_events() -> None:
    with recorded() as log:
        dataset = Dataset.from_tensors(np.zeros((20, 3), "f4")).map(lambda x: x + 1, workers=2)
        for _ in dataset.batch(4).prefetch(2):
            pass
        values(numbers(9).map(seven, on_error="skip"))
    for name in ("map(<lambda>)", "prefetch"):
        for kind in ("element", "take"):
            events = log.of(kind, name)
            assert [e.nbytes for e in events] == [48] * 5
            assert all(0 <= e.waited <= e.seconds for e in events)
    assert len({e.thread for e in log.of("element", "map(<lambda>)")}) <= 2
    assert {e.thread for e in log.of("take", "prefetch")} == {threading.get_ident()}
    assert all(0 <= e.depth <= 2 for e in log.of("take", "prefetch"))
    queues = {e.name: (e.resource, e.capacity) for e in log.of("level")}
    assert queues == {"map(<lambda>)": ("sequence", 4), "prefetch": ("fifo", 2)}
    assert log.of("level", "prefetch")[-1].closed
    (skipped,) = log.of("skip")
    assert (skipped.name, skipped.error) == ("map(seven)", "KeyError('seven')")


def test_a_shuffle_buffer_tells_how_it_fills() -> None:
    with recorded() as log:
        values(counted(6).shuffle(4, seed=0))
    depths = [depth for depth, _, _ in log.levels("shuffle")]
    assert depths == [1, 2, 3, 4, 3, 4, 3, 4, 3, 2, 1, 0]
    assert {e.capacity for e in log.of("level", "shuffle")} == {4}


def test_back_pressure_is_seen_in_the_events() -> None:
    with recorded() as log:
        iterator = iter(counted(9).prefetch(2))
        next(iterator)
        until(lambda: queue_of(iterator, "prefetch").waiting(0) == 1)
        iterator.close()
    assert (2, 1, 0) in log.levels("prefetch")
    assert log.levels("prefetch")[-1] == (0, 0, 0)


@pytest.mark.parametrize("is_watched_first", [True, False])
def test_a_full_buffer_is_no_fault(is_watched_first: bool) -> None:
    """The trainer computes all the time, and the producer waits for room: nothing is to be said."""
    watcher = Watcher()
    watcher._run = lambda: None  # type: ignore[method-assign]  # no thread looks
    iterator = iter(counted(9).prefetch(2))
    with ExitStack() as stack:
        if is_watched_first:
            stack.enter_context(watcher)
        next(iterator)
        until(lambda: queue_of(iterator, "prefetch").waiting(0) == 1)
        if not is_watched_first:
            stack.enter_context(watcher)
        watcher.collect()
        (wait,) = watcher.activity.waiting
        assert (wait.operation, wait.runner) == ("enqueue", "prefetch")
        assert queue_causes(watcher, perf_counter() + 60) == []
        iterator.close()


def test_nobody_listens_and_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_events(monkeypatch)
    dataset = counted(20).shuffle(4, seed=0).map(lambda x: x, workers=2).prefetch(2)
    assert sorted(values(dataset)) == list(range(20))


def test_iterators_show_their_queues() -> None:
    iterator = iter(counted(9).shuffle(4, seed=0).map(lambda x: x, workers=2).prefetch(2))
    assert "epoch 0; shuffle: 0 of 4; map(<lambda>): 0 of 4; prefetch: 0 of 2>" in repr(iterator)
    next(iterator)
    until(lambda: queue_of(iterator, "prefetch").waiting(0) == 1)
    assert "prefetch: 2 of 2, 1 waiting to put>" in repr(iterator)
    shown = iterator._repr_html_()
    assert '<progress max="2" value="2"></progress>' in shown
    assert "<td>map(&lt;lambda&gt;)</td>" in shown
    iterator.close()
    assert repr(iterator).endswith("epoch 0>")


def test_queues_of_repeats_and_pairs_are_shown() -> None:
    two = Dataset.zip(counted(3).shuffle(2, seed=0), counted(3).prefetch(1)).repeat(2)
    assert "; shuffle: 0 of 2; prefetch: 0 of 1>" in repr(iter(two))


# --- ends -------------------------------------------------------------------------------------


def blocked(iterator: Any) -> bool:
    """Whether the producer waits for room."""
    return queue_of(iterator, "prefetch").waiting(0) == 1


def test_closing_while_the_producer_waits_for_room_drops_what_is_held() -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def items() -> Iterator[Item]:
        while True:
            yield Item(alive)

    iterator = iter(Dataset.from_iterable(items).prefetch(3))
    next(iterator)
    until(lambda: blocked(iterator))
    queue = queue_of(iterator, "prefetch")
    assert len(alive) >= 4
    iterator.close()
    assert queue.size() == 0
    assert becomes(lambda: not ours() and not alive)


def test_a_forgotten_iterator_whose_producer_waits_is_collected() -> None:
    def begun() -> tuple[Any, list[Any]]:
        iterator = iter(counted(9).map(lambda x: x, workers=2).prefetch(1))
        next(iterator)
        until(lambda: blocked(iterator))
        cursor: Any = iterator._cursor
        return weakref.ref(cursor), [weakref.ref(queue) for queue in cursor.queues]

    cursor, queues = begun()
    gc.collect()
    assert cursor() is None
    assert becomes(lambda: not ours() and not any(queue() for queue in queues))


def test_stopping_a_runner_that_waits_for_a_pipeline() -> None:
    """The runner waits in an ordinary queue, so `Runner.stop` ends the wait."""
    gate = threading.Event()

    def slow(x: ef.Tensor) -> ef.Tensor:
        gate.wait()
        return x

    iterator = iter(counted(9).map(slow).prefetch(1))
    runner = ef.spawn(lambda: next(iterator), name="reader")
    until(lambda: iterator._cursor is not None and bool(iterator._cursor.queues))
    until(lambda: queue_of(iterator, "prefetch").waiting(1) == 1)
    runner.stop()
    assert not runner.running
    gate.set()
    iterator.close()
    assert becomes(lambda: not ours())


# --- the shuffle queue ------------------------------------------------------------------------


@settings(max_examples=examples(30))
@given(
    count=st.integers(0, 40), size=st.integers(1, 12), seed=st.integers(0, 9),
    threads=st.integers(1, 3),
)  # fmt: skip
def test_a_shuffle_queue_that_is_full_before_it_gives_has_the_order_of_the_buffer(
    count: int, size: int, seed: int, threads: int
) -> None:
    """Whatever the threads do: elements arrive in order, and each draw is among ``size``."""
    buffer = BufferCursor(IterableStage(range(count)).cursor(0), size, generator(seed))
    expected = [x.item() for x in iter(lambda: next_of(buffer), None)]

    words = words_of(generator(seed))
    store = ShuffleStore(size - 1, lambda most: next(words) % most)
    queue = QueueState(size, store, "shuffle")
    given_, lock = iter(range(count)), threading.Lock()

    def produce() -> None:
        while True:
            with lock:
                element = next(given_, None)
                if element is not None:
                    queue.enqueue(element).wait()
            if element is None:
                return

    producers = [threading.Thread(target=produce) for _ in range(threads)]

    def close() -> None:
        for producer in producers:
            producer.join()
        queue.close().wait()

    closer = threading.Thread(target=close)
    for thread in (*producers, closer):
        thread.start()
    elements = [queue.dequeue().wait()[0] for _ in range(count)]
    closer.join()
    assert elements == expected


def next_of(buffer: BufferCursor) -> Any:
    try:
        return buffer.next()
    except StopIteration:
        return None


def depths(log: Recorder, name: str) -> list[int]:
    return [e.depth for e in log.of("level", name)]


def test_events_of_one_queue_are_in_order() -> None:
    with recorded() as log:
        values(counted(50).prefetch(4))
    events = log.of("level", "prefetch")
    assert all(a.start <= b.start for a, b in pairwise(events))
    assert all(abs(a - b) <= 1 for a, b in pairwise(depths(log, "prefetch")))
