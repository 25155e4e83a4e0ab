"""Light partitions as generators: their work, their waits, and their error messages."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.errors import DeadlineError, KernelError, SchedulerError
from eagerflow.events import NodeEvent, RegionEvent, TransferEvent
from eagerflow.graph import Graph
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.strands import edges as queues
from eagerflow.runtime.strands import strands
from eagerflow.runtime.strands.edges import EdgeQueue
from tests.placement.scattered import by_scheduler
from tests.recorded import recorded
from tests.runtime.scheduled.scheduled_graphs import Ops, ops

__all__ = ["ops"]  # the fixture


@pytest.fixture(autouse=True)
def _two_devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


def halve(x: Any) -> Any:
    while x.sum() > 1:
        x = (x.to("cpu:1") * 0.5).to("cpu:0") - 0.01
    return x


def tier_of(function: Any, *args: Any) -> ScheduledTier:
    made = ScheduledTier(ef.trace(function).graph(*args).optimise(), partitioned=True)
    assert made.strands is not None
    return made


def test_a_loop_is_a_loop_of_python() -> None:
    tier = tier_of(halve, ef.ones(3))
    assert tier.strands is not None
    there = tier.strands.text.split("def strand")[2]
    lines = [line.strip() for line in there.splitlines()]
    assert sum(line.startswith("for ") for line in lines) == 1
    assert sum(line.startswith("while not ") for line in lines) == 2  # the predicate, and x
    assert "break" in there
    (result,) = tier.run([np.ones(3, np.float32)])
    (want,) = tier.step().run([np.ones(3, np.float32)])
    assert np.array_equal(result, want)


def test_branches_in_loops_in_branches() -> None:
    def f(x: Any, n: Any) -> Any:
        if n > 0:
            i = n * 0
            while i < n:
                if (x.to("cpu:1").sum() > 3.0).to("cpu:0"):
                    x = (x.to("cpu:1") * 0.5).to("cpu:0")
                else:
                    for _ in ef.arange(2):
                        x = (x.to("cpu:1") + 1.0).to("cpu:0") + i
                i = i + 1
            return x
        return (x.to("cpu:1") - 1.0).to("cpu:0")

    traced = ef.trace(f)
    for n in (0, 1, 5):
        x, count = ef.ones(2), ef.tensor(n)
        want = f(x, count)
        assert traced(x, count).tolist() == want.tolist()
    with by_scheduler():
        assert ef.trace(f)(ef.ones(2), ef.tensor(5)).tolist() == want.tolist()


@pytest.mark.parametrize(("limit", "most"), [("CREDIT", 3), ("CREDIT_BYTES", 80)])
def test_who_is_far_ahead_waits(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One device makes values, and the other device takes them later."""
    monkeypatch.setattr(queues, limit, most)
    lying, longest = [0], [0]

    class Counted(EdgeQueue):
        def send(self, value: Any) -> None:
            super().send(value)
            lying[0] = len(self.values)
            longest[0] = max(longest[0], lying[0])

    monkeypatch.setattr(strands, "EdgeQueue", Counted)

    def f(x: Any) -> Any:
        total = ef.zeros(10, device="cpu:1")
        for i in ef.arange(50):
            total = total + (x + i.astype(ef.float32)).to("cpu:1")
        return total

    x = ef.ones(10)
    assert ef.trace(f)(x).tolist() == f(x).tolist()
    assert longest[0] == (3 if limit == "CREDIT" else 2)  # two have 80 bytes


def test_values_sent_before_a_loop_do_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credit is left when the loop begins, and the values are received after the loop."""
    monkeypatch.setattr(queues, "CREDIT", 2)

    def f(x: Any) -> Any:
        many = [x + float(i) for i in range(5)]
        y = x
        for _ in ef.arange(4):
            y = (y.to("cpu:1") * 2.0).to("cpu:0")
        total = y.to("cpu:1")
        for one in many:
            total = total + one.to("cpu:1")
        return total

    assert ef.trace(f)(ef.ones(2)).tolist() == f(ef.ones(2)).tolist()


def test_an_error_says_the_line_the_iterations_and_what_was_written(ops: Ops) -> None:
    def kernel(x: Any) -> Any:
        if x[0] > 4.0:
            raise FloatingPointError("too hot")
        return x + 1.0

    ops.add("heating", kernel)
    seen = ef.Variable(0.0)

    @ef.trace
    def f(x: Any) -> Any:
        seen.assign_add(1.0)
        for _ in ef.arange(2):
            for _ in ef.arange(3):
                x = bind(get_op("heating"), x.to("cpu:1")).to("cpu:0")  # the line that fails
        return x

    with pytest.raises(KernelError, match="too hot") as caught:
        f(ef.ones(2))
    text = str(caught.value) + "\n".join(caught.value.__notes__)
    assert "the line that fails" in text
    inner, outer = [line for line in text.splitlines() if "in iteration" in line]
    assert "in iteration 1 " in inner
    assert "in iteration 1 " in outer
    assert "had already written" in text
    assert seen.item() == 1.0


def test_a_deadline_ends_a_loop_without_end() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        while x.sum() > 0:
            x = (x.to("cpu:1") * 1.0).to("cpu:0")
        return x

    with pytest.raises(DeadlineError), ef.deadline(0.2):
        f(ef.ones(2))
    assert f(-ef.ones(2)).tolist() == [-1.0, -1.0]


def test_events_are_those_of_the_scheduler() -> None:
    def told() -> list[Any]:
        f = ef.trace(halve)
        f(ef.ones(3))
        with recorded(NodeEvent, RegionEvent, TransferEvent) as log:
            f(ef.ones(3))
        ends = [e for e in log.events if not isinstance(e, RegionEvent)]
        assert len({e.step for e in log.events}) == 1
        return sorted((e.name, e.device, e.frames, type(e).__name__) for e in ends)

    by_strands = told()
    with by_scheduler():
        assert told() == by_strands
    assert any(frames for _, _, frames, _ in by_strands)


def test_what_is_not_needed_any_more_is_let_go_of(ops: Ops) -> None:
    """In a chain over two devices, at most two of the values are alive at once."""
    alive: list[weakref.ref[Any]] = []
    most = [0]

    def kernel(x: Any) -> Any:
        made = x + 1.0
        alive.append(weakref.ref(made))
        most[0] = max(most[0], sum(one() is not None for one in alive))
        return made

    ops.add("counting_up", kernel)

    @ef.trace
    def f(x: Any) -> Any:
        for i in range(10):
            x = bind(get_op("counting_up"), x.to(f"cpu:{i % 2}"))
        return x.to("cpu:0")

    assert f(ef.zeros(4)).tolist() == [10.0] * 4
    assert most[0] <= 2


def test_what_is_sent_and_not_received_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = tier_of(halve, ef.ones(3))
    take = EdgeQueue.take
    monkeypatch.setattr(EdgeQueue, "take", lambda edge: (edge.send(1), take(edge))[1])
    with pytest.raises(SchedulerError, match="that no partition received"):
        tier.run([np.zeros(3, np.float32)])


LOOP_IN_TEXT = """graph f(%x: f32[]@cpu:0) {
  %e = Enter(%x) {frame="w"} : f32[]@cpu:0
  %m = Merge(%e) {back="n"} : f32[]@cpu:0
  %there = transfer(%m) {device=device("cpu:1"), source=device("cpu:0")} : f32[]@cpu:1
  %p = isnan(%m) : bool[]@cpu:0
  %s.0, %s.1 = Switch(%m, %p) : f32[]@cpu:0, f32[]@cpu:0
  %y = exp(%there) : f32[]@cpu:1
  %back = transfer(%y) {device=device("cpu:0"), source=device("cpu:1")} : f32[]@cpu:0
  %z = add(%s.0, %back) : f32[]@cpu:0
  &n: NextIteration(%z)
  %out = Exit(%s.1) : f32[]@cpu:0
  return %out
}"""


def test_what_lies_before_the_question_runs_in_the_last_iteration_too() -> None:
    """The predicate's operands come after code that runs only if there is another iteration."""
    tier = ScheduledTier(Graph.parse(LOOP_IN_TEXT), partitioned=True)
    assert tier.strands is not None
    assert tier.run([np.float32(2.0)]) == tier.step().run([np.float32(2.0)]) == (2.0,)
