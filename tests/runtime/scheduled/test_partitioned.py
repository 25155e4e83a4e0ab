"""Steps over several devices: failures, cancelled steps, and absence of leftovers."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.errors import DeadlineError, KernelError
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.scheduled import scheduled_tier
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.strands import strands
from eagerflow.runtime.strands.edges import EdgeQueue
from eagerflow.runtime.threads import workers
from tests.conftest import running_threads
from tests.ctrl_c import ctrl_c_raises, interrupted, places
from tests.fakes.by_hand import device_by_hand
from tests.placement.scattered import by_scheduler
from tests.runtime.scheduled.scheduled_graphs import Ops, ops

__all__ = ["ops"]  # the fixture


@pytest.fixture(autouse=True)
def _two_devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


@pytest.fixture(autouse=True, params=["strands", "scheduler"])
def by(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs light partitions as strands, or by the scheduler."""
    with nullcontext() if request.param == "strands" else by_scheduler():
        yield request.param


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch, by: str) -> Iterator[None]:
    """Checks that no step of a test, nor a queue of sent values, outlives the test."""
    made: list[weakref.ref[Any]] = []

    class Seen(EdgeQueue):
        __slots__ = ("__weakref__",)

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(weakref.ref(self))

    class Noted(ScheduledStep):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(weakref.ref(self))  # which alone holds its rendezvous

    monkeypatch.setattr(scheduled_tier, "ScheduledStep", Noted)
    monkeypatch.setattr(strands, "EdgeQueue", Seen)
    yield
    gc.collect()
    assert made
    assert not [one for one in made if one() is not None]


def model() -> tuple[Any, ef.Variable, ef.Variable, ef.Variable]:
    """A traced step that counts, and trains a variable on each of two devices."""
    first = ef.Variable(np.full(3, 0.5, np.float32), name="first")
    second = ef.Variable(np.full(3, 0.25, np.float32), device="cpu:1", name="second")
    count = ef.Variable(0.0, name="count")

    @ef.trace
    def step(x: Any) -> Any:
        count.assign_add(1.0)

        def loss(a: Any, b: Any) -> Any:
            h = ef.sin(x * a)
            for _ in range(3):
                h = (ef.sin(h.to("cpu:1") * b)).to("cpu:0") * a
            return (h * h).sum()

        value, (da, db) = ef.value_and_grad(loss, argnums=(0, 1))(first.value, second.value)
        first.assign_sub(0.1 * da)
        second.assign_sub(0.1 * db)
        return value

    return step, first, second, count


def test_a_value_for_which_there_is_no_room_is_told_with_its_line() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        return ef.exp(ef.sin(x).to("async:0")).to("cpu:0")

    ef.hardware.limit_memory(64, "async:0")
    try:
        with pytest.raises(ef.errors.OutOfMemoryError, match="transfer: out of memory") as caught:
            f(ef.ones(32))
        assert "ef.sin(x).to" in str(caught.value)
    finally:
        ef.hardware.limit_memory(None, "async:0")


def test_an_error_on_one_device_ends_the_step(ops: Ops) -> None:
    fails = False

    def kernel(x: Any) -> Any:
        if fails:
            raise FloatingPointError("the device is on fire")
        return np.sin(x)

    ops.add("flaring", kernel)
    x = ef.ones(4)
    seen = ef.Variable(0.0)

    @ef.trace
    def f(x: Any) -> Any:
        seen.assign_add(1.0)
        y = ef.exp(x.to("cpu:1"))
        z = bind(get_op("flaring"), y)  # the line that fails
        return (z.to("cpu:0") + x).sum()

    wanted = f(x)
    fails = True
    with pytest.raises(KernelError, match="on fire") as caught:
        f(x)
    assert "the line that fails" in str(caught.value)
    assert "f32[4]@cpu:1" in str(caught.value)
    fails = False
    assert f(x) == wanted
    assert seen.item() == 3.0


def test_ctrl_c_at_random_instants_of_a_training_step(by: str) -> None:
    step, *variables = model()
    x, threads = ef.ones(3), running_threads()
    first = [v.numpy().copy() for v in variables]
    step(x)
    wanted = [v.numpy().tobytes() for v in variables]
    count = places(lambda: step(x))
    ends: Counter[str] = Counter()
    with ctrl_c_raises():
        for instant in random.Random(0).choices(range(1, count), k=200):
            for variable, value in zip(variables, first, strict=True):
                variable.assign(value)
            try:
                interrupted(lambda: step(x), instant)
            except KeyboardInterrupt as error:
                ends[check_prefix(variables, first, wanted, error)] += 1
    assert sum(ends.values()) > 190
    assert min(ends["nothing"], ends["some"]) > 5, "the instants are not those of a step"
    for variable, value in zip(variables, first, strict=True):
        variable.assign(value)
    step(x)
    assert [v.numpy().tobytes() for v in variables] == wanted
    workers.shared.close()
    assert running_threads() <= threads


def check_prefix(
    variables: list[Any], before: list[Any], after: list[bytes], error: KeyboardInterrupt
) -> str:
    """Check updates, each whole or absent as the notes of Ctrl-C say; gives how many were made."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    made = []
    for variable, old, new in zip(variables, before, after, strict=True):
        content = variable.numpy().tobytes()
        assert content in (old.tobytes(), new)
        if content == new:
            made.append(repr(variable.resource))
    if len(made) < len(variables):  # otherwise the step may have been over
        assert all(name in notes for name in made), (made, notes)
    sure = notes.partition("may have written")[0]
    assert all(name in made for name in map(repr, (v.resource for v in variables)) if name in sure)
    return "all" if len(made) == len(variables) else "some" if made else "nothing"


def test_a_device_that_does_not_answer() -> None:
    queue = ef.Queue(2, ef.zeros(3))
    threads = running_threads()

    @ef.trace
    def f(x: Any) -> Any:
        there = ef.exp(x.to("cpu:1"))
        return there, queue.dequeue() + x, (there * 2).to("cpu:0")

    queue.enqueue(ef.ones(3))
    f(ef.ones(3))
    with pytest.raises(DeadlineError), ef.deadline(0.05):
        f(ef.ones(3))
    workers.shared.close()
    assert running_threads() <= threads
    queue.enqueue(ef.ones(3))
    assert f(ef.ones(3))[1].tolist() == [2.0, 2.0, 2.0]


def test_a_runner_over_two_devices() -> None:
    queue = ef.Queue(100, ef.zeros(2, device="cpu:1"))
    count = ef.Variable(0.0)

    @ef.trace
    def produce() -> None:
        queue.enqueue(ef.stack([count.value, count.value + 1.0]).to("cpu:1"))
        count.assign_add(1.0)

    produce()  # a step of this thread, too
    runner = ef.spawn(produce)
    got = [queue.dequeue().tolist() for _ in range(21)]
    runner.stop()
    queue.close(cancel_pending=True)
    runner.join()
    assert got == [[float(i), i + 1.0] for i in range(21)]


def test_a_device_that_stops_holds_up_nobody_past_a_deadline() -> None:
    with device_by_hand(answers=False) as slow:
        there = f"{slow.kind}:0"

        @ef.trace
        def f(x: Any) -> Any:
            return (ef.exp(x.to(there)) * 2.0).to("cpu:1") + x.to("cpu:1")

        with pytest.raises(DeadlineError), ef.deadline(0.05):
            f(ef.zeros(3))
        while slow.pump(100):
            pass
        done = ef.trace(lambda x: (x.to(there) + 1.0).to("cpu:0"))
        with ThreadPoolExecutor(1) as other:
            result = other.submit(done, ef.zeros(3))
            while not result.done():
                slow.pump(100)
        assert result.result().tolist() == [1.0, 1.0, 1.0]


def test_each_step_has_a_rendezvous_of_its_own_number() -> None:
    graph = ef.trace(lambda x: ef.exp(x.to("cpu:1"))).graph(ef.ones(2)).optimise()
    made = scheduled_tier.ScheduledTier(graph, partitioned=True)
    steps = [made.step() for _ in range(3)]
    numbers = [step.rendezvous.step for step in steps if step.rendezvous is not None]
    assert len(set(numbers)) == 3
    for step in steps:
        step.run([np.ones(2, np.float32)])
        assert (step.outcome, step.left) == ("done", [])


def test_keys_name_the_loops_from_outside_inwards(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    @ef.trace
    def f(x: Any) -> Any:
        for i in ef.arange(4):
            for _ in ef.arange(2):
                x = ef.sin(x.to("cpu:1")).to("cpu:0")
            x = x + i
        return x

    keys: list[Key] = []
    send = Rendezvous.send
    monkeypatch.setattr(
        Rendezvous, "send", lambda self, key, *a, **k: keys.append(key) or send(self, key, *a, **k)
    )
    f(ef.ones(2))
    if by == "strands":
        assert keys == []  # an edge of strands is a queue
        return
    paths = [key.path for key in keys if key.edge.endswith("cpu:0")]  # from the inner loop
    assert len(set(paths)) == len(paths) == 8
    assert [max(iteration for _, iteration in frames) for frames in zip(*paths, strict=True)] == [
        3,
        1,
    ]
