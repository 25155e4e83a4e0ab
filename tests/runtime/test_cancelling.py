"""Steps that are cancelled: by Ctrl-C, by a deadline, by another thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from eagerflow import errors
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from eagerflow.runtime.scheduled.completions import Completion
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.scheduler import rerun
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.threads.clock import AbstractClock
from tests.messages import says
from tests.runtime.graphs import by_scheduler, scheduled
from tests.runtime.scheduled.scheduled_graphs import Ops, X, chain, fan, heavy, open_up, ops

__all__ = ["ops"]  # the fixture

ENDLESS = """graph endless(%x: f32[2]@cpu:0) {
  %y = while_loop(%x) {
    cond=graph (%x: f32[2]@cpu:0) {
      %c = constant() {value=tensor(bool[], (True,))} : bool[]@cpu:0 return %c },
    body=graph (%x: f32[2]@cpu:0) { %y = OP(%x) : f32[2]@cpu:0 return %y }
  } : f32[2]@cpu:0
  return %y }"""


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """Makes Ctrl-C raise, even where the shell that started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Now(AbstractClock):
    """A clock that advances when it is read, and during waits."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float | None] = []

    def now(self) -> float:
        self.time += 0.25
        return self.time

    def wait(self, bell: threading.Lock, seconds: float | None) -> None:
        self.waits.append(seconds)
        self.time += seconds or 0.0


def interrupt_after(count: int) -> Any:
    left = count

    def kernel(x: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGINT)
        return x * 0.5

    return kernel


@pytest.mark.parametrize("whole", [True, False])
def test_an_endless_loop_can_be_interrupted(ops: Ops, whole: bool) -> None:
    ops.add("test_half", interrupt_after(50))
    graph = Graph.parse(ENDLESS.replace("OP", "test_half"))
    runner = by_scheduler(graph) if whole else by_scheduler(graph, open_up)
    with pytest.raises(KeyboardInterrupt):
        runner(X)
    ops.add("test_other", lambda x: x + 1)
    assert by_scheduler(chain("test_other"))(X)[0].tolist() == [2.0, 3.0]


@pytest.mark.parametrize("count", range(1, 6))
def test_ctrl_c_anywhere(ops: Ops, count: int) -> None:
    """Whichever thread is at work then, the step ends, and so do its threads."""
    ops.add("test_half", interrupt_after(count))
    runner = by_scheduler(fan(*["test_half"] * 5), seconds=heavy)
    step = ScheduledStep(scheduled(runner), helpers=2, log=True)
    with suppress(KeyboardInterrupt):  # Ctrl-C may come after the step, if a helper ran the kernel
        step.run([X])
    assert not step._helping
    assert not step._values
    (result,) = ScheduledStep(scheduled(runner), helpers=2).run([X])
    assert result.tolist() == [2.5, 5.0]


def test_threads_stop_between_ops(ops: Ops) -> None:
    """A thread of the pool in an endless loop leaves it when the step is cancelled."""
    inside = threading.Event()

    def spin(x: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
        return x

    def fail(x: Any) -> Any:
        assert inside.wait(30)
        raise errors.TensorValueError("as planned")

    ops.add("test_spin", spin)
    ops.add("test_fail", fail, "fence")  # in the main thread
    text = ENDLESS.replace("OP", "test_spin")
    end = text.rindex("return %y")
    text = f"{text[:end]}%z = test_fail(%x) : f32[2]@cpu:0 return %y, %z }}"
    graph = Graph.parse(text)
    tier = scheduled(by_scheduler(graph, seconds=heavy))
    with pytest.raises(errors.TensorValueError, match="as planned"):
        ScheduledStep(tier, helpers=1, log=True).run([X])


def test_a_deadline_between_ops(ops: Ops) -> None:
    ops.add("test_next", lambda x: x + 1)
    graph = Graph.parse(ENDLESS.replace("OP", "test_next"))
    for runner in (by_scheduler(graph), by_scheduler(graph, open_up)):
        clock = Now()
        with pytest.raises(errors.DeadlineError, match="its deadline has passed"):
            scheduled(runner).step(seconds=10.0, clock=clock).run([X])
        assert 10.0 <= clock.time < 11.0


def test_a_deadline_of_what_waits(ops: Ops) -> None:
    stopped = []
    kept: list[Completion] = []

    def begin(node: Any, inputs: list[Any], completion: Completion) -> Any:
        kept.append(completion)
        return lambda: stopped.append(node.name)

    ops.wait("test_wait", begin)
    clock = Now()
    tier = ScheduledTier(chain("test_wait", "exp"))
    step = tier.step(seconds=10.0, clock=clock, log=True)
    with pytest.raises(errors.DeadlineError, match="its deadline has passed"):
        step.run([X])
    assert stopped == ["v1"]
    kept[0].done(X)  # too late: ignored
    assert 10.0 <= clock.time < 12.0
    assert step.log is not None
    assert step.log[-1][1][-1] == ("finish", "cancelled")


@pytest.mark.parametrize("end", ["cancel", "fail", "leave"])
def test_it_ends_while_a_scheduled_node_is_about_to_wait(
    ops: Ops, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A thread has dequeued the scheduled node, and has not yet registered the wait."""
    begun: list[str] = []
    stopped: list[str] = []

    def begin(node: Any, inputs: list[Any], completion: Completion) -> Any:
        begun.append(node.name)
        return lambda: stopped.append(node.name)

    def late(step: ScheduledStep, *node: Any) -> None:
        if end == "cancel":
            step.cancel("the cell was closed")
        elif end == "fail":
            step._failed(*other[:2], errors.TensorValueError("as planned"))
        else:  # the thread that runs the step got Ctrl-C, and waits for this one
            step._ended = True
        usual(step, *node)

    ops.wait("test_wait", begin)
    usual = ScheduledStep._begin
    monkeypatch.setattr(ScheduledStep, "_begin", late)
    step = ScheduledStep(scheduled(by_scheduler(fan("test_wait", "test_wait"))), wake=lambda: None)
    step.begin([X])
    other = step._light.pop() if end == "fail" else ()
    assert step.serve() == (end != "leave")
    if end == "leave":
        step.end()
    else:
        with pytest.raises(errors.EagerflowError, check=says(r"the cell was closed|as planned")):
            step.take_result()
    assert sorted(stopped) == sorted(begun)
    assert not step._waits


def test_a_deadline_that_is_kept() -> None:
    runner = by_scheduler(chain("exp", "sin"), open_up)
    results = scheduled(runner).step(seconds=10.0, clock=Now()).run([X])
    assert results[0].tobytes() == Executable(chain("exp", "sin"))(X)[0].tobytes()


def test_somebody_else_cancels(ops: Ops) -> None:
    steps: list[ScheduledStep] = []

    def begin(node: Any, inputs: list[Any], completion: Completion) -> None:
        thread = threading.Thread(target=lambda: steps[0].cancel("the cell was closed"))
        thread.start()

    ops.wait("test_wait", begin)
    runner = by_scheduler(chain("exp", "test_wait", "sin"), open_up)
    steps.append(scheduled(runner).step(log=True))
    with pytest.raises(errors.CancelledError, check=says("the cell was closed")):
        steps[0].run([np.ones(2, np.float32)])
    assert rerun(scheduled(runner).plan, steps[0].log or []).outcome == "cancelled"


def test_a_step_that_is_cancelled_on_the_way_to_a_wait(
    ops: Ops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread cancels when the scheduled node is neither in a queue nor waits yet."""
    begun: list[Any] = []
    ops.wait("test_wait", lambda *args: begun.append(args))
    before = ScheduledStep._begin

    def begin(step: ScheduledStep, *args: Any) -> None:
        step.cancel("the cell was closed")
        before(step, *args)

    monkeypatch.setattr(ScheduledStep, "_begin", begin)
    step = scheduled(by_scheduler(chain("exp", "test_wait", "sin"), open_up)).step(log=True)
    with pytest.raises(errors.CancelledError, check=says("the cell was closed")):
        step.run([np.ones(2, np.float32)])
    assert begun == []
