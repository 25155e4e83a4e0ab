"""Events of random programs on queues: complete, also after waits, failures and cancellation."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.events import (
    KINDS,
    ElementEvent,
    LevelEvent,
    NodeEvent,
    OpEvent,
    QueueEvent,
    RegionEvent,
    SkipEvent,
    StepEvent,
    TakeEvent,
    WaitEvent,
)
from tests.recorded import Recorder, recorded

#: events without a beginning
INSTANTS = (NodeEvent, OpEvent, LevelEvent, ElementEvent, TakeEvent, SkipEvent)
#: operations on one of two queues
OPERATIONS = ("enqueue", "enqueue_many", "dequeue", "dequeue_many", "close", "fail")
#: ways in which a thread runs its operations
WAYS = ("eager", "traced", "unordered", "loop")

Work = Sequence[tuple[str, int]]


def check(recorder: Recorder) -> None:
    """Check the invariants of all events, which hold for any program."""
    begun, ended = Counter(map(id, recorder.begun)), Counter(map(id, recorder.events))
    assert max([*begun.values(), *ended.values()], default=1) == 1
    assert not [e for e in recorder.begun if isinstance(e, INSTANTS)]
    lasting = {id(e) for e in recorder.events if not isinstance(e, INSTANTS)}
    assert lasting == set(begun)
    assert all(e.stop is not None and e.start <= e.stop for e in recorder.events)
    _nest(recorder)
    _steps(recorder)


def _nest(recorder: Recorder) -> None:
    """Check that in each thread the event that began last ends first."""
    opened: dict[int, list[Any]] = {}
    for how, event in recorder.told:
        if isinstance(event, INSTANTS) or event.thread <= 0:  # of a runner, or of no thread
            continue
        stack = opened.setdefault(event.thread, [])
        if how == "begin":
            stack.append(event)
        else:
            assert stack.pop() is event
    assert not any(opened.values())


def _steps(recorder: Recorder) -> None:
    """Check that events of a step lie between its beginning and its end."""
    steps = {e.step: e for e in recorder.begun if isinstance(e, StepEvent)}
    assert len(steps) == len([e for e in recorder.begun if isinstance(e, StepEvent)])
    going = {0}
    for how, event in recorder.told:
        if isinstance(event, StepEvent):
            assert event.parent in going
            (going.add if how == "begin" else going.discard)(event.step)
        else:
            assert event.step in going, (how, event)
    assert going == {0}


# --- programs ---------------------------------------------------------------------------------


def perform(work: Work, queues: Sequence[ef.Queue]) -> None:
    """Perform the operations of one thread; in a traced function, trace them."""
    for operation, which in work:
        queue = queues[which]
        if operation == "enqueue":
            queue.enqueue(ef.tensor(1))
        elif operation == "enqueue_many":
            queue.enqueue_many(ef.tensor([1, 2, 3]))
        elif operation == "dequeue":
            queue.dequeue()
        elif operation == "dequeue_many":
            queue.dequeue_many(2)
        elif operation == "close":
            queue.close()
        else:
            ef.py_call(_fail, None)


def _fail() -> None:
    raise ZeroDivisionError


def in_the_way(way: str, work: Work, queues: Sequence[ef.Queue]) -> Callable[[], Any]:
    """A function that performs the operations in one of `WAYS`."""
    if way == "eager":
        return lambda: perform(work, queues)
    if way == "traced":
        return ef.trace(lambda: perform(work, queues))
    if way == "unordered":

        def unordered() -> None:
            with ef.unordered():
                perform(work, queues)

        return ef.trace(unordered)

    @ef.trace
    def looped(n: Any) -> None:
        while n > 0:
            perform(work, queues)
            n = n - 1

    return lambda: looped(ef.tensor(2))


works = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 1)), min_size=1, max_size=4)


@pytest.mark.parametrize("nodes", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    threads=st.lists(st.tuples(st.sampled_from(WAYS), works), min_size=1, max_size=3),
    runner=st.none() | works,
)
def test_threads_on_two_queues(
    nodes: bool, threads: list[tuple[str, Work]], runner: Work | None
) -> None:
    """Threads often deadlock: then the queues are closed, and each wait ends with an error."""
    queues = [ef.Queue(2, ef.tensor(0), name=name) for name in "ab"]
    kinds = KINDS if nodes else KINDS - {NodeEvent, OpEvent}
    with recorded(*kinds) as recorder:
        ready = threading.Barrier(len(threads) + 1)

        def run(call: Callable[[], Any]) -> None:
            ready.wait()
            with suppress(ef.errors.EagerflowError, ZeroDivisionError):
                call()

        calls = [in_the_way(way, work, queues) for way, work in threads]
        started = [threading.Thread(target=run, args=(call,)) for call in calls]
        for thread in started:
            thread.start()
        background = None
        if runner is not None:
            background = ef.spawn(in_the_way("traced", runner, queues), name="background")
        ready.wait()
        if background is not None:
            background.cancel()
        for queue in queues:  # whatever the other threads are doing
            queue.resource.cancel_and_close()
        for thread in started:
            thread.join(60)
            assert not thread.is_alive()
        if background is not None:
            with suppress(ef.errors.EagerflowError, ZeroDivisionError):
                background.stop()
    check(recorder)


@settings(max_examples=30, deadline=None)
@given(way=st.sampled_from(WAYS), work=works, seconds=st.sampled_from([0.0, 0.001, 0.005]))
def test_a_deadline_at_any_moment(way: str, work: Work, seconds: float) -> None:
    queues = [ef.Queue(1, ef.tensor(0), name=name) for name in "ab"]
    call = in_the_way(way, work, queues)
    late = suppress(ef.errors.EagerflowError, ZeroDivisionError)
    with recorded() as recorder, late, ef.deadline(seconds):
        call()
    check(recorder)
    failed = [e for e in recorder.events if isinstance(e, StepEvent | RegionEvent) and e.error]
    assert all(e.stop is not None for e in failed)


@settings(max_examples=30, deadline=None)
@given(way=st.sampled_from(WAYS), work=works)
def test_who_listens_while_others_are_at_work(way: str, work: Work) -> None:
    """An instrument added halfway hears of complete events only."""
    queues = [ef.Queue(1, ef.tensor(0), name=name) for name in "ab"]
    call = in_the_way(way, work, queues)

    def run() -> None:
        with suppress(ef.errors.EagerflowError, ZeroDivisionError):
            call()

    with recorded(WaitEvent, QueueEvent) as early:
        thread = threading.Thread(target=run)
        thread.start()
        with recorded(WaitEvent, QueueEvent) as late:
            for queue in queues:
                queue.resource.cancel_and_close()
            thread.join(60)
            assert not thread.is_alive()
    for recorder in (early, late):
        assert {id(e) for e in recorder.begun} == {id(e) for e in recorder.events}
        _nest(recorder)
