"""A server's work for a session: requests in order, and none that was aborted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
from eagerflow.cluster.processes.request_handling import TaskWork
from eagerflow.cluster.processes.server_grants import ServerGrants
from eagerflow.cluster.protocol.message_heads import ErrorHead, step_number
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.cluster.protocol.messages import Eager, Register, RunStep
from eagerflow.cluster.protocol.values import encode_value
from eagerflow.runtime.rendezvous.station import Station

SESSION = 5
STEP = step_number(SESSION, 1)
#: partitions of light steps, and of steps that go to the pool
GRAPHS = {
    "light": 'graph "f"(%c: bool[], %x: f32[2]) { %y = add(%x, %x) : f32[2]@cpu:0 return %y }',
    "heavy": 'graph "f"(%c: bool[], %x: f32[2]) { %y = cond(%c, %x) {branches=(graph(%x: f32[2]) '
    "{ return %x }, graph(%x: f32[2]) { return %x })} : f32[2]@cpu:0 return %y }",
}


class Owner(ThreadPoolExecutor):
    """Stands in for the thread that owns the sockets."""

    def run_here(self, job: Callable[[], object], /) -> None:
        self.submit(job)


@pytest.fixture
def told() -> SimpleQueue[tuple[Any, ...]]:
    return SimpleQueue()


@pytest.fixture
def work(told: SimpleQueue[tuple[Any, ...]]) -> Iterator[TaskWork]:
    station = Station("ps:0", lambda device: "ps:0", lambda *what: None, lambda: None)
    with Owner(1) as owner:
        yield TaskWork(
            "ps:0", station, lambda *what: told.put(what), owner, LIMITS, ServerGrants(), str,
            AnnouncedDevices("ps:0"), lambda *what: None,
        )  # fmt: skip


@pytest.fixture
def busy(work: TaskWork) -> Iterator[Event]:
    """Keeps the session busy with an earlier request until the event is set."""
    goes_on, session = Event(), work._session(SESSION)
    session._takes_long = lambda message: True  # type: ignore[method-assign]
    session.in_order(goes_on.wait, Eager(2, ()))
    yield goes_on
    goes_on.set()


def feeds(frames: list[Any]) -> tuple[Any, ...]:
    """The feeds of both partitions."""
    return tuple(encode_value(x, frames) for x in (np.array(True), np.ones(2, np.float32)))


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("aborted", [False, True])
def test_a_step_that_is_aborted_before_it_begins_does_not_run(
    kind: str, aborted: bool, work: TaskWork, busy: Event, told: SimpleQueue[tuple[Any, ...]]
) -> None:
    work.do(SESSION, Register(3, 1, {}, {}, {}), [GRAPHS[kind].encode()])
    assert told.get(timeout=30)[-1] is None
    frames: list[Any] = []
    work.do(SESSION, RunStep(4, STEP, 1, feeds(frames)), frames)
    if aborted:
        work.abort(SESSION, STEP, ErrorHead("CancelledError", "enough"))
    busy.set()
    _, number, results, _, error = told.get(timeout=30)
    assert number == 4
    if aborted:
        assert error.kind == "CancelledError"
        assert "enough" in error.wrong
    else:
        assert error is None
        assert len(results) == 1
    assert not work._steps


@pytest.mark.parametrize("kind", GRAPHS)
def test_an_abort_may_come_while_a_step_begins(
    kind: str, work: TaskWork, told: SimpleQueue[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running step is aborted, or none runs at all: the request is answered in either case."""
    work.do(SESSION, Register(3, 1, {}, {}, {}), [GRAPHS[kind].encode()])
    assert told.get(timeout=30)[-1] is None
    session = work._session(SESSION)
    check = session.check

    def abort(stream: int) -> None:
        work.abort(SESSION, STEP, ErrorHead("CancelledError", "enough"))
        check(stream)

    monkeypatch.setattr(session, "check", abort)
    frames: list[Any] = []
    work.do(SESSION, RunStep(4, STEP, 1, feeds(frames)), frames)
    error = told.get(timeout=30)[-1]
    assert "enough" in error.wrong
    assert not work._steps
