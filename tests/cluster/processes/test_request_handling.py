"""A server's work for a session: requests in order, and none that was aborted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
from eagerflow.cluster.processes.open_steps import OpenStep
from eagerflow.cluster.processes.request_handling import TaskWork
from eagerflow.cluster.processes.server_grants import ServerGrants
from eagerflow.cluster.protocol.message_heads import ErrorHead, TypeHead, step_number
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import Eager, MakeResource, Register, RunStep
from eagerflow.cluster.protocol.values import encode_value
from eagerflow.runtime.rendezvous.station import Station
from eagerflow.runtime.scheduled.detached import DetachedStep

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

    def run_here(self, job: Callable[..., object], /, *inputs: Any) -> None:
        self.submit(job, *inputs)


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


def test_a_step_that_was_aborted_gives_no_results_even_if_it_has_run(
    work: TaskWork, told: SimpleQueue[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The abort comes as the step begins, and its last node has run before it is noted."""
    work.do(SESSION, Register(3, 1, {}, {}, {}), [GRAPHS["heavy"].encode()])
    assert told.get(timeout=30)[-1] is None
    ended, runs = Event(), OpenStep.runs
    take = DetachedStep._take_result

    def late(opened: OpenStep, step: Any) -> None:
        work.abort(SESSION, STEP, ErrorHead("CancelledError", "enough"))
        assert ended.wait(30)
        runs(opened, step)

    def results(step: DetachedStep) -> Any:
        made = take(step)
        ended.set()
        return made

    monkeypatch.setattr(OpenStep, "runs", late)
    monkeypatch.setattr(DetachedStep, "_take_result", results)
    frames: list[Any] = []
    work.do(SESSION, RunStep(4, STEP, 1, feeds(frames)), frames)
    assert "enough" in told.get(timeout=30)[-1].wrong


@pytest.mark.parametrize("kind", ["TaskLost", "CancelledError"])
def test_what_a_step_that_has_ended_has_sent_to_a_lost_task_is_dropped(
    kind: str, work: TaskWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And any other abort lets a wait that has ended give back what it has taken."""
    called: list[tuple[str, int]] = []
    session = work._session(SESSION)
    monkeypatch.setattr(work._transport, "fail", lambda step, _: called.append(("fail", step)))
    monkeypatch.setattr(session, "give_back", lambda step, _: called.append(("give back", step)))
    work.abort(SESSION, STEP, ErrorHead(kind, "worker:0 is lost"))
    assert called == [("fail" if kind == "TaskLost" else "give back", STEP)]


# --- queues ------------------------------------------------------------------------------------


def queue(number: int, name: str, container: str = "default", **other: Any) -> MakeResource:
    given = {"kind": "fifo", "types": (TypeHead("float32", (2,)),), "capacity": 3} | other
    kind, types = given.pop("kind"), given.pop("types")
    return MakeResource(number, container, name, kind, types, "cpu:0", **given)


def asked(work: TaskWork, told: SimpleQueue[tuple[Any, ...]], message: Any, session: int) -> Any:
    """The error of a request; None if it was done."""
    work.do(session, message, [])
    return told.get(timeout=30)[-1]


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ({"kind": "mutex"}, "TensorValueError"),
        ({"kind": "__class__"}, "TensorValueError"),
        ({"types": ()}, "TensorValueError"),
        ({"types": (TypeHead("object", ()),)}, "ProtocolError"),
        ({"types": (TypeHead("list", ()),)}, "ProtocolError"),
        ({"types": (TypeHead("float32", ("os.system()",)),)}, "DimError"),
        ({"kind": "shuffle", "least": 3}, "TensorValueError"),
        ({"container": "&files"}, "ResourceError"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(
    other: dict[str, Any], kind: str, work: TaskWork, told: SimpleQueue[tuple[Any, ...]]
) -> None:
    error = asked(work, told, queue(2, "q", **other), SESSION)
    assert error.kind == kind
    assert asked(work, told, queue(3, "q"), SESSION) is None


def test_a_device_that_the_task_has_not_announced_has_no_queue(
    work: TaskWork, told: SimpleQueue[tuple[Any, ...]]
) -> None:
    error = asked(work, told, replace(queue(2, "q"), device="gpu:0"), SESSION)
    assert error.kind == "DeviceError"


@pytest.mark.parametrize("container", ["default", "shared"])
def test_resources_are_limited(
    container: str, work: TaskWork, told: SimpleQueue[tuple[Any, ...]]
) -> None:
    work._limits = Limits(resources=2)
    for i in range(2):
        assert asked(work, told, queue(2, f"q{i}", container), SESSION + i) is None
        assert asked(work, told, queue(3, f"q{i}", container), SESSION + i) is None  # joins
    error = asked(work, told, queue(4, "q2", container), SESSION)
    assert (error is None) == (container == "default")
    error = asked(work, told, queue(5, "q3", "another"), SESSION)
    assert (error is None) == (container == "default")
    work.free(SESSION)
    assert asked(work, told, queue(2, "q3"), SESSION) is None


def test_a_queue_belongs_to_its_session(work: TaskWork, told: SimpleQueue[tuple[Any, ...]]) -> None:
    assert asked(work, told, queue(2, "q"), SESSION) is None
    for session in (SESSION, SESSION + 1):
        size = '%x = queue_size() {resource=@q, device=device("cpu:0")} : i64[]'
        text = f'graph "f"() {{ {size} return %x }}'
        work.do(session, Register(3, 1, {}, {"q": ("default", "q")}, {}), [text.encode()])
        error = told.get(timeout=30)[-1]
        assert (error is None) == (session == SESSION)
