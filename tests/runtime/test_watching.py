"""Watching steps, regions, waits and queues does not change the code that runs; nodes do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.events import (
    DEFAULT_KINDS,
    AbstractEvent,
    LevelEvent,
    NodeEvent,
    QueueEvent,
    RegionEvent,
    StepEvent,
    TraceEvent,
    TransferEvent,
    WaitEvent,
)
from eagerflow.graph import Graph
from eagerflow.runtime import Executable, generated_or_scheduled
from tests.recorded import recorded, refuse_events

WIDE = """graph wide(%x: f32[n]) {
  %a = exp(%x) : f32[n]
  %b = sin(%x) : f32[n]
  %c = add(%a, %b) : f32[n]
  return %c }"""
LARGE = 300_000  # exp of so many elements is estimated at 2 ms
WATCHED = (StepEvent, RegionEvent, WaitEvent, QueueEvent, LevelEvent, TransferEvent, TraceEvent)


def momentum() -> Callable[[], Any]:
    """A step with a chain, a function of its own that may write into its operands."""
    weight, mean = [ef.Variable(ef.ones((200, 200))) for _ in range(2)]
    g = ef.ones((200, 200))

    @ef.trace
    def step(g: Any) -> Any:
        new = mean.assign_add((g - mean.value) * 0.1)
        weight.assign_sub(ef.sqrt(ef.square(new) + 1) * 0.01)
        return new

    step(g)
    assert "def chain1(" in step.ir("python")
    return lambda: step(g)


def codes_of(run: Callable[[], Any]) -> list[CodeType]:
    """The code objects of generated functions that a call runs in this thread."""
    codes: list[CodeType] = []

    def look(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith("<program "):
            codes.append(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(before)
    return codes


@pytest.mark.parametrize("kinds", [(kind,) for kind in WATCHED] + [WATCHED, tuple(DEFAULT_KINDS)])
def test_the_same_code_runs_while_somebody_looks(kinds: tuple[type[AbstractEvent], ...]) -> None:
    step = momentum()
    alone = codes_of(step)
    assert [code.co_name for code in alone] == ["run", "chain1"]
    with recorded(*kinds):
        watched = codes_of(step)
    assert [id(code) for code in watched] == [id(code) for code in alone]


def test_who_wants_nodes_has_other_code_run() -> None:
    step = momentum()
    alone = codes_of(step)
    with recorded(NodeEvent) as log:
        watched = codes_of(step)
    assert "chain1" not in [code.co_name for code in watched]
    assert [e.name for e in log.of("node")] == [
        "read", "subtract", "multiply", "assign_add", "square", "add", "sqrt", "multiply",
        "assign_sub",
    ]  # fmt: skip
    assert [id(code) for code in codes_of(step)] == [id(code) for code in alone]


@pytest.fixture
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.mark.usefixtures("_two_cores")
def test_the_choice_goes_on_while_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    # the scheduled tier counts as faster
    monkeypatch.setattr(generated_or_scheduled, "_GAIN", float("inf"))
    program, x = Executable(Graph.parse(WIDE)), np.linspace(-1, 1, LARGE, dtype=np.float32)
    runs = 2 * (generated_or_scheduled._TIMED_RUNS + 1)
    with recorded(*WATCHED) as log:
        for _ in range(runs + 1):
            program(x)
    steps = log.of("step")
    tiers = [e.tier for e in steps]
    assert set(tiers[:runs]) == {"generated", "scheduled"}
    assert tiers[runs] == program.tier.name == "scheduled"
    regions = log.of("region")
    assert {e.step for e in regions} == {e.step for e in steps}
    last = [e for e in regions if e.step == steps[-1].step]
    assert len({e.region for e in last}) == len(last) == 3


@pytest.mark.usefixtures("_two_cores")
def test_nodes_are_no_measure_of_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_or_scheduled, "_GAIN", float("inf"))
    program, x = Executable(Graph.parse(WIDE)), np.linspace(-1, 1, LARGE, dtype=np.float32)
    with recorded(StepEvent, NodeEvent) as log:
        for _ in range(3 * (generated_or_scheduled._TIMED_RUNS + 1)):
            program(x)
    assert len({e.tier for e in log.of("step")}) == 1  # no choice was made from these times


# --- steps ------------------------------------------------------------------------------------


def test_steps_nest() -> None:
    inner = ef.trace(lambda x: x + 1)

    @ef.trace
    def outer(x: Any) -> Any:
        return ef.py_call(lambda y: inner(y), ef.zeros(2).type, x) * 2

    outer(ef.zeros(2))
    with recorded(StepEvent) as log:
        outer(ef.zeros(2))
    within, around = log.of("step")
    assert (within.parent, around.parent) == (around.step, 0)
    assert log.begun == [around, within]
    assert around.start <= within.start <= within.stop <= around.stop


def test_a_step_that_fails_tells_its_end() -> None:
    @ef.trace
    def failing(x: Any) -> Any:
        return ef.py_call(lambda y: 1 // 0, x.type, x)

    with recorded(StepEvent, RegionEvent) as log, pytest.raises(ZeroDivisionError):
        failing(ef.zeros(2))
    assert {id(e) for e in log.begun} == {id(e) for e in log.events}
    assert all(e.error.startswith("ZeroDivisionError") for e in log.events)
    assert log.of("step")


def test_a_step_that_is_cancelled_tells_its_end() -> None:
    queue = ef.Queue(1, ef.tensor(0), name="never")
    with recorded(StepEvent, WaitEvent) as log:
        runner = ef.spawn(ef.trace(queue.dequeue), name="taker")
        log.blocked("never")
        (step,) = log.begun[:1]
        assert (step.kind, step.stop, step.runner) == ("step", None, "taker")
        runner.stop()
    assert {id(e) for e in log.begun} == {id(e) for e in log.events}
    assert all(e.error for e in log.events)


# --- without watchers -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(ef.events.KINDS, key=lambda kind: kind.kind))
def test_no_record_is_made_that_nobody_wants(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The instrument listens to all other kinds of event."""
    queue = ef.Queue(1, ef.tensor(0.0), name="few")

    def work() -> None:
        f = ef.trace(lambda x: queue.dequeue() + x.to("cpu:0"))
        thread = threading.Thread(target=lambda: queue.enqueue(1.0))
        thread.start()
        f(ef.tensor(1.0))
        thread.join()
        with ef.spawn(f, ef.tensor(1.0)):
            queue.enqueue(2.0)

    refuse_events(monkeypatch, kind)
    with recorded(*({*DEFAULT_KINDS} - {kind})) as log:
        work()
    assert log.events
    assert kind not in {type(e) for e in log.events}


def test_nobody_listens_and_nothing_is_allocated() -> None:
    step, queue = momentum(), ef.Queue(2, ef.tensor(0))
    one = ef.tensor(1)

    def run(times: int) -> None:
        for _ in range(times):
            step()
            queue.enqueue(one)
            queue.dequeue()

    def kept() -> int:
        before = sys.getallocatedblocks()
        run(200)
        return sys.getallocatedblocks() - before

    run(20)
    assert min(kept() for _ in range(5)) < 100  # a kernel that comes meanwhile stays
