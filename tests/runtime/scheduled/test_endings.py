"""A step over several devices leaves its rendezvous and informs the other ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.errors import CancelledError, DeadlineError, KernelError
from eagerflow.events import NodeEvent, RegionEvent, step_of
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.rendezvous.transport import IN_PROCESS
from eagerflow.runtime.scheduled import step_state
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.step import ScheduledStep
from tests.ctrl_c import ctrl_c_raises, interrupted
from tests.messages import says
from tests.runtime.scheduled.scheduled_graphs import Ops, ops

__all__ = ["ops"]  # the fixture

X = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def _two_devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


class NotedTransport:
    """A transport within a process that records the messages for the other ends of steps."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.send = IN_PROCESS.send

    def begin(self, rendezvous: Rendezvous, /) -> None:
        self.heard.append("begin")

    def wanted(self, rendezvous: Rendezvous, *where: Any) -> None:
        pass

    def abort(self, rendezvous: Rendezvous, error: Exception, /) -> None:
        self.heard.append(error)

    def end(self, rendezvous: Rendezvous, /) -> None:
        self.heard.append("end")
        assert rendezvous.wanted() == []


@pytest.fixture
def told() -> Iterator[NotedTransport]:
    made = NotedTransport()

    def meet(step: int, routes: Any, executable: int, *, transport: Any) -> Rendezvous:
        return Rendezvous(step, routes, executable, transport=made)

    with patch.object(step_state, "Rendezvous", meet):
        yield made


def tier_of(function: Any) -> ScheduledTier:
    graph = ef.trace(function).graph(ef.ones(3)).optimise()
    return ScheduledTier(graph, partitioned=True)


def there_and_back(x: Any) -> Any:
    return ef.exp(x.to("cpu:1")).to("cpu:0") + x


def waiting(queue: ef.Queue) -> ScheduledTier:
    """The tier of a step in which one device receives a value that waits for a queue."""
    return tier_of(lambda x: (queue.dequeue() * x).to("cpu:1") + x.to("cpu:1"))


def test_success(told: NotedTransport) -> None:
    step = tier_of(there_and_back).step()
    step.run([X])
    assert told.heard == ["begin", "end"]
    assert step.left == []


def test_failure(told: NotedTransport, ops: Ops) -> None:
    def kernel(x: Any) -> Any:
        raise FloatingPointError("the device is on fire")

    ops.add("burning", kernel)
    tier = tier_of(lambda x: bind(get_op("burning"), x.to("cpu:1")).to("cpu:0") + x)
    with pytest.raises(KernelError, match="on fire") as caught:
        tier.step().run([X])
    assert told.heard == ["begin", caught.value, "end"]


def test_deadline(told: NotedTransport) -> None:
    tier = waiting(ef.Queue(1, ef.zeros(3)))
    with pytest.raises(DeadlineError) as caught:
        tier.step(seconds=0.01).run([X])
    assert told.heard == ["begin", caught.value, "end"]


def test_cancelled_without_a_caller(told: NotedTransport) -> None:
    step = ScheduledStep(waiting(ef.Queue(1, ef.zeros(3))), wake=lambda: None)
    step.begin([X])
    step.serve()
    step.cancel("nobody wants it")
    with pytest.raises(CancelledError, check=says("nobody wants it")) as caught:
        step.take_result()
    assert told.heard == ["begin", caught.value, "end"]


def test_one_that_is_dropped_before_it_has_an_end(told: NotedTransport) -> None:
    step = ScheduledStep(waiting(ef.Queue(1, ef.zeros(3))), wake=lambda: None)
    step.begin([X])
    step.end()
    start, error, end = told.heard
    assert (start, end) == ("begin", "end")
    assert isinstance(error, CancelledError)


def test_ctrl_c_at_any_instant(told: NotedTransport) -> None:
    tier = tier_of(there_and_back)
    stopped = 0
    with ctrl_c_raises():
        for instant in range(30, 400, 3):
            told.heard.clear()
            step = tier.step()
            try:
                interrupted(lambda step=step: step.run([X]), instant)
            except KeyboardInterrupt:
                stopped += 1
                assert told.heard[-1:] == ["end"]
                if step.outcome != "done":
                    assert any(isinstance(x, CancelledError) for x in told.heard)
            assert step.left == []
    assert stopped > 30


def test_steps_have_numbers_though_nobody_listens() -> None:
    seen: list[int] = []
    assert not NodeEvent.listeners
    assert not RegionEvent.listeners

    def note(x: Any) -> Any:
        seen.append(step_of.step)
        return x

    @ef.trace
    def f(x: Any) -> Any:
        y = ef.py_call(note, "f32[3]", x)
        return ef.exp(y.to("cpu:1")).to("cpu:0")

    f(ef.ones(3))
    f(ef.ones(3))
    first, second = seen
    assert 0 < first < second
    assert step_of.step == 0
