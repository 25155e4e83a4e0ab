"""Waits of strands for events from outside: elements of queues, and heavy regions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.errors import CancelledError, DeadlineError, KernelError
from eagerflow.events import NodeEvent, QueueEvent, WaitEvent
from eagerflow.graph.ir import Node
from eagerflow.runtime.scheduled import scheduled_tier as tiers
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.strands import run as running
from eagerflow.runtime.threads.deadline import ends_when
from eagerflow.runtime.threads.workers import shared
from tests.ctrl_c import ctrl_c_raises, interrupted
from tests.messages import points_at
from tests.placement.scattered import by_scheduler
from tests.recorded import recorded
from tests.resources.queues.modes import Waiting
from tests.runtime.scheduled.scheduled_graphs import Ops, ops

__all__ = ["ops"]  # the fixture

PATIENCE = 20.0  # seconds after which a test that hangs fails


@pytest.fixture(autouse=True)
def _two_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tiers, "worker_count", lambda: 2)
    with ef.config(cpu_devices=2):
        yield


def taker(queue: ef.Queue) -> Any:
    def f(x: Any, n: Any) -> Any:
        i = n * 0
        while i < n:
            x = (x.to("cpu:1") * 0.5).to("cpu:0") + queue.dequeue()  # the line that waits
            i = i + 1
        return x

    return ef.trace(f)


def tier_of(function: Any, *args: Any, heavy: str = "") -> ScheduledTier:
    def seconds(node: Node) -> float:
        return 1.0 if heavy and node.op.startswith(heavy) else 0.0

    graph = ef.trace(function).graph(*args).optimise()
    return ScheduledTier(graph, partitioned=True, seconds=seconds)


# --- ops that wait ------------------------------------------------------------------------------


def test_a_strand_waits_for_an_element() -> None:
    queue = ef.Queue(4, "f32[2]")
    f = taker(queue)
    waiting = Waiting(lambda: f(ef.zeros(2), ef.tensor(3)), queue)
    for i in range(3):
        queue.enqueue(ef.full(2, float(i)))
    assert waiting.result().tolist() == [2.5, 2.5]
    assert queue.size().item() == 0
    assert "run.begin(" in tier_text(f)


def tier_text(f: ef.function.TracedFunction) -> str:
    tier = tier_of(f.function if hasattr(f, "function") else f, ef.zeros(2), ef.tensor(3))
    assert tier.strands is not None
    return tier.strands.text


def test_what_waits_ends_at_the_deadline_and_takes_nothing() -> None:
    queue = ef.Queue(4, "f32[2]")
    f = taker(queue)
    queue.enqueue(ef.ones(2))
    f(ef.zeros(2), ef.tensor(1))  # traces it
    with (
        ef.deadline(0.3),
        pytest.raises(DeadlineError, check=points_at("# the line that waits")) as caught,
    ):
        f(ef.zeros(2), ef.tensor(1))
    assert any("queue_dequeue" in note for note in caught.value.__notes__)
    assert queue.resource.waiting(1) == 0
    queue.enqueue(ef.ones(2))
    assert f(ef.zeros(2), ef.tensor(1)).tolist() == [1.0, 1.0]


def test_a_closed_queue_ends_the_step_with_the_line_and_the_iteration() -> None:
    queue = ef.Queue(4, "f32[2]")
    queue.enqueue(ef.ones(2))
    queue.close()
    with pytest.raises(
        ef.errors.QueueClosedError, check=points_at("# the line that waits")
    ) as caught:
        taker(queue)(ef.zeros(2), ef.tensor(5))
    assert any("in iteration 1 " in note for note in caught.value.__notes__)


def test_a_thread_that_is_told_to_end_does_not_wait_on() -> None:
    queue, stopped = ef.Queue(4, "f32[2]"), threading.Event()
    f = taker(queue)

    def call() -> None:
        with ends_when(stopped.is_set):
            f(ef.zeros(2), ef.tensor(1))

    waiting = Waiting(call, queue)
    stopped.set()
    queue.enqueue(ef.ones(2))  # the waiter wakes, and hears of it
    with pytest.raises(CancelledError):
        waiting.result()


def test_ops_in_no_order_are_left_to_the_scheduler() -> None:
    first, second = ef.Queue(1, "f32[]"), ef.Queue(1, "f32[]")

    def f(x: Any) -> Any:
        with ef.unordered():
            second.enqueue(x * 2.0)
            return (first.dequeue().to("cpu:1") * 1.0).to("cpu:0")

    assert tier_of(f, ef.tensor(1.0)).strands is None


def test_events_of_waits_are_those_of_the_scheduler() -> None:
    def told() -> list[Any]:
        queue = ef.Queue(4, "f32[2]", name="rows")
        f = taker(queue)
        for _ in range(4):
            queue.enqueue(ef.ones(2))
        f(ef.zeros(2), ef.tensor(2))
        with recorded(NodeEvent, QueueEvent, WaitEvent) as seen:
            f(ef.zeros(2), ef.tensor(2))
        return sorted((type(e).__name__, e.name, e.device, e.frames) for e in seen.events)

    by_strands = told()
    assert any(kind == "QueueEvent" for kind, *_ in by_strands)
    with by_scheduler():
        assert told() == by_strands


# --- heavy regions ------------------------------------------------------------------------------


def stages(n: int) -> Any:
    def f(x: Any) -> Any:
        total = ef.zeros((), device="cpu:1")
        for _ in ef.arange(n):
            x = bind(get_op("heavy_first"), x)
            total = total + bind(get_op("heavy_second"), x.to("cpu:1"))  # the line that fails
        return total.to("cpu:0")

    return f


def test_iterations_of_two_stages_overlap(ops: Ops) -> None:
    """The second stage of each iteration meets the first stage of the next iteration."""
    meeting, done = threading.Barrier(2), [0, 0]

    def stage(which: int, alone: int) -> Any:
        def kernel(x: Any) -> Any:
            done[which] += 1
            if done[which] != alone:
                meeting.wait(PATIENCE)
            return x + 1.0

        return kernel

    ops.add("heavy_first", stage(0, 1))
    ops.add("heavy_second", stage(1, 4))
    tier = tier_of(stages(4), ef.tensor(0.0), heavy="heavy")
    assert tier.strands is not None
    assert tier.parallel
    assert tier.run([np.float32(0.0)]) == (14.0,)
    assert done == [4, 4]


def test_a_heavy_region_that_fails_says_the_line_and_the_iteration(ops: Ops) -> None:
    def kernel(x: Any) -> Any:
        if x > 2.0:
            raise FloatingPointError("too hot")
        return x

    ops.add("heavy_first", lambda x: x + 1.0)
    ops.add("heavy_second", kernel)
    tier = tier_of(stages(6), ef.tensor(0.0), heavy="heavy")
    with pytest.raises(KernelError, check=points_at("# the line that fails")) as caught:
        tier.run([np.float32(0.0)])
    notes = caught.value.__notes__
    assert any("heavy_second" in note for note in notes)
    assert any("in iteration 2 " in note for note in notes)


def test_what_can_run_at_once_on_one_device_is_left_to_the_scheduler(ops: Ops) -> None:
    ops.add("heavy_first", lambda x: x + 1.0)

    def f(x: Any) -> Any:
        for _ in ef.arange(2):
            x = bind(get_op("heavy_first"), x) + bind(get_op("heavy_first"), x * 2.0)
            x = (x.to("cpu:1") * 0.5).to("cpu:0")
        return x

    assert tier_of(f, ef.tensor(0.0), heavy="heavy").strands is None


def test_ctrl_c_in_a_wait_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ef.Queue(4, "f32[2]")
    f = taker(queue)
    queue.enqueue(ef.ones(2))
    assert f(ef.zeros(2), ef.tensor(1)).tolist() == [1.0, 1.0]

    def pressed(run: running.StrandRun) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(running.StrandRun, "_sleep", pressed)
        with pytest.raises(KeyboardInterrupt):
            f(ef.zeros(2), ef.tensor(1))
    assert queue.resource.waiting(1) == 0
    queue.enqueue(ef.ones(2))
    assert queue.size().item() == 1


def test_ctrl_c_at_any_place_leaves_nothing_behind(ops: Ops) -> None:
    queue, threads = ef.Queue(10, "f32[]"), set(threading.enumerate())
    ops.add("heavy_first", lambda x: x + 1.0)

    def f(x: Any, n: Any) -> Any:
        i = n * 0
        while i < n:
            x = (bind(get_op("heavy_first"), x).to("cpu:1") * 0.5).to("cpu:0") + queue.dequeue()
            i = i + 1
        return x

    tier, given = tier_of(f, ef.tensor(0.0), ef.tensor(2), heavy="heavy"), np.float32(0.0)
    assert tier.strands is not None
    stopped = 0
    with ctrl_c_raises():
        for instant in range(1, 250, 3):
            queue.enqueue_many(ef.ones(2))
            try:
                interrupted(lambda: tier.run([given, np.int64(2)]), instant)
            except KeyboardInterrupt:
                stopped += 1
            assert queue.resource.waiting(1) == 0
            left = int(queue.size().item())
            assert left <= 2
            if left:
                queue.dequeue_many(left)
    assert stopped > 20
    queue.enqueue_many(ef.ones(2))
    assert tier.run([given, np.int64(2)]) == (2.25,)
    shared.close()
    assert set(threading.enumerate()) <= threads
