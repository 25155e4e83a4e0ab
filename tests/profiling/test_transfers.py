"""Events of moves between devices: eagerly and in graphs, with bytes and both devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.events import NodeEvent, StepEvent, TransferEvent
from eagerflow.profiling.chrome_trace import to_chrome
from tests.recorded import recorded, refuse_events


@pytest.fixture(autouse=True)
def _two_devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


def test_an_eager_move() -> None:
    x = ef.zeros((2, 3))
    with recorded(TransferEvent) as recorder:
        y = x.to("cpu:1")  # the move
        y.to("cpu:1")
        ef.to_device(y, "cpu:0")
    there, back = recorder.of("transfer")
    assert recorder.begun == [there, back]
    assert (there.origin, there.device, there.nbytes) == ("cpu:0", "cpu:1", 24)
    assert (back.origin, back.device, back.nbytes) == ("cpu:1", "cpu:0", 24)
    assert "# the move" in there.source.text
    assert (there.step, there.node, there.executable) == (0, "", 0)


def test_moves_in_a_loop_of_a_graph() -> None:
    @ef.trace
    def f(x: Any, n: Any) -> Any:
        while n > 0:
            x = (x.to("cpu:1") + 1.0).to("cpu:0")  # both ways
            n = n - 1
        return x

    x, n = ef.zeros(4), ef.tensor(2)
    f(x, n)
    with recorded(TransferEvent, StepEvent) as recorder:
        assert f(x, n).numpy().tolist() == [2.0] * 4
    all_moves = recorder.of("transfer")
    (step,) = recorder.of("step")
    moves = [e for e in all_moves if e.nbytes == 16]
    assert [(e.origin, e.device) for e in moves] == [("cpu:0", "cpu:1"), ("cpu:1", "cpu:0")] * 2
    predicates = [e.iteration for e in all_moves if e.nbytes == 1]  # the moves of the predicate
    assert predicates == [0, 1, 2]
    assert {(e.step, e.executable) for e in moves} == {(step.step, step.executable)}
    assert [e.iteration for e in moves] == [0, 0, 1, 1]
    assert len({e.node for e in moves}) == 2
    assert all("# both ways" in e.source.text for e in moves)
    assert all(step.start <= e.start <= e.stop <= step.stop for e in moves)


def test_a_profile_counts_the_moves_of_a_graph_as_those_of_eager_code() -> None:
    def f(x: Any) -> Any:
        with ef.device("cpu:1"):
            y = ef.exp(x)
        with ef.device("cpu:0"):
            return y + x

    x, traced = ef.zeros((2, 3)), ef.trace(f)
    traced(x)
    with ef.profile() as eagerly:
        f(x)
    with ef.profile() as in_a_graph:
        traced(x)
    moves = {("transfer", "cpu:1", 1, 24), ("transfer", "cpu:0", 1, 24)}
    for profile in (eagerly, in_a_graph):
        rows = {(r.name, r.device, r.calls, r.nbytes) for r in profile.table()}
        assert rows == moves | {("exp", "cpu:1", 1, 24), ("add", "cpu:0", 1, 24)}
    nodes = [e for e in in_a_graph.events if isinstance(e, NodeEvent) and e.name == "transfer"]
    assert {(e.step, e.scope, e.detail) for e in nodes} == {
        (nodes[0].step, "", "f32[2,3]@cpu:1"), (nodes[0].step, "", "f32[2,3]@cpu:0"),
    }  # fmt: skip
    assert [e.source.text for e in nodes] == ["y = ef.exp(x)", "return y + x"]


def test_moves_that_a_device_makes_later_belong_to_the_step_that_asked() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        with ef.device("async:0"):
            y = ef.exp(x)
        with ef.device("cpu:0"):
            return y + x

    x = ef.zeros((2, 3))
    f(x)
    with recorded(TransferEvent, NodeEvent, StepEvent) as recorder, ef.profile() as profile:
        f(x)
    (step,) = recorder.of("step")
    moves = [e for e in recorder.events if e.name == "transfer"]
    assert {(e.step, e.kind, e.device, e.nbytes) for e in moves} == {
        (step.step, kind, device, 24)
        for kind in ("transfer", "node") for device in ("async:0", "cpu:0")
    }  # fmt: skip
    assert {e.caller or e.thread for e in moves} == {step.thread}
    rows = {(row.device, row.calls) for row in profile.table() if row.name == "transfer"}
    assert rows == {("async:0", 1), ("cpu:0", 1)}


def test_a_move_that_fails() -> None:
    x = ef.zeros(3)
    backend = type(x.device.backend)

    def refuse(*args: Any) -> Any:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch, recorded(TransferEvent) as recorder:
        patch.setattr(backend, "copy_to_peer", refuse)
        with pytest.raises(ef.errors.OutOfMemoryError):
            x.to("cpu:1")
    (event,) = recorder.events
    assert event.error == "MemoryError"


def test_who_does_not_want_moves_is_told_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_events(monkeypatch, TransferEvent)
    x = ef.zeros(3)
    with recorded(StepEvent, NodeEvent):
        x.to("cpu:1")
        ef.trace(lambda x: x.to("cpu:1"))(x)


def test_arrows_between_devices_in_a_trace() -> None:
    with ef.profile() as p:
        ef.zeros(3).to("cpu:1")
    rows = to_chrome(p.events)["traceEvents"]
    names = {r["tid"]: r["args"]["name"] for r in rows if r["name"] == "thread_name"}
    start, finish = [r for r in rows if r["ph"] in ("s", "f")]
    assert (start["ph"], finish["ph"], start["id"]) == ("s", "f", finish["id"])
    assert [names[r["tid"]] for r in (start, finish)] == ["cpu:0", "cpu:1"]
    whole = [r for r in rows if r["ph"] == "X" and r["cat"] == "transfer"]
    assert {names[r["tid"]] for r in whole} == {"MainThread", "cpu:0", "cpu:1"}
    assert {(r["args"]["from"], r["args"]["device"], r["args"]["bytes"]) for r in whole} == {
        ("cpu:0", "cpu:1", 12)
    }
