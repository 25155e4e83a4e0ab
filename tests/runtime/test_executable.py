"""Executables: tiers, their replacement, and the events and statistics of steps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.op import bind, get_op
from eagerflow.events import (
    NodeEvent,
    RegionEvent,
    StepEvent,
    add_instrument,
    remove_instrument,
    step_of,
)
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from eagerflow.runtime.executable import _executables
from eagerflow.runtime.generated.generated_tier import GeneratedTier
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from tests.recorded import Recorder, recorded, refuse_events
from tests.resources.queues.modes import until
from tests.runtime.graphs import by_scheduler, straight
from tests.runtime.scheduled.scheduled_graphs import (
    Ops,
    X,
    heavy,
    loop_of,
    notes,
    open_up,
    ops,
    same,
)

__all__ = ["ops"]  # the fixture

TEXT = "graph f(%x: f32[n]) { %y = exp(%x) : f32[n] %z = add(%y, %x) : f32[n] return %z }"


@final
class Fake:
    """A tier with a given result, which can be made to wait."""

    name = "fake"
    text = "fake"
    direct = None
    detached = None

    def __init__(self, result: Any) -> None:
        self.result = result
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        self.begun.set()
        assert self.goes_on.wait(60)
        return (self.result,)


# --- tiers --------------------------------------------------------------------------------------


def test_a_tier_is_replaced_between_steps() -> None:
    executable = Executable(Graph.parse(TEXT))
    assert executable.tier.name == "generated"
    (want,) = executable(X)
    executable.tier = Fake(41)
    assert executable(X) == (41,)
    assert (executable.tier.name, executable.text) == ("fake", "fake")
    executable.tier = GeneratedTier(executable.graph, executable.number)
    for _ in range(3):  # the first run takes the long way, the others the direct one
        same(executable(X), [want])
    executable.tier = Fake(42)
    assert executable(X) == (42,)


def test_a_step_keeps_the_tier_that_it_began_with() -> None:
    executable = Executable(Graph.parse(TEXT))
    slow = Fake(1)
    slow.goes_on.clear()
    executable.tier = slow
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(executable(X)))
    thread.start()
    assert slow.begun.wait(60)
    executable.tier = Fake(2)
    assert executable(X) == (2,)
    assert not results
    slow.goes_on.set()
    thread.join()
    assert results == [1]
    assert executable(X) == (2,)  # the end of the old step has restored nothing


def test_tiers_are_replaced_while_many_threads_run_steps() -> None:
    """Each step is run by one tier; after a replacement no thread begins with the old tier."""
    executable = Executable(Graph.parse(TEXT))
    (want,) = executable(X)
    ends = threading.Event()
    wrong: list[Any] = []

    def work() -> None:
        while not ends.is_set():
            (result,) = executable(X)
            if result is not None and not np.array_equal(result, want):
                wrong.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    generated = GeneratedTier(executable.graph, executable.number)
    for _ in range(200):
        executable.tier = Fake(None)
        wrong += [result for result in executable(X) if result is not None]
        executable.tier = generated
        wrong += [result for result in executable(X) if result is None]
    ends.set()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("detached", [False, True])
def test_code_that_a_finaliser_runs_may_make_an_executable(
    detached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection of garbage may come at any time, also while code is generated."""
    executable = Executable(Graph.parse(TEXT))
    made: list[Executable] = []

    def make(*_: object) -> None:
        made.append(Executable(Graph.parse(TEXT)))

    if detached:
        begin = ScheduledTier.__init__

        def slow(tier: ScheduledTier, *args: Any) -> None:
            make()
            begin(tier, *args)

        monkeypatch.setattr(ScheduledTier, "__init__", slow)
    else:
        monkeypatch.setattr(GeneratedTier, "direct", property(make))
    run = (lambda: executable.detached(print)) if detached else (lambda: executable(X))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert len(made) == 1


def test_what_is_set_while_a_tier_is_asked_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = Executable(Graph.parse(TEXT))
    direct = GeneratedTier.direct.fget
    assert direct is not None

    def late(tier: GeneratedTier) -> Any:
        if executable.tier.name == "generated":
            executable.tier = Fake(41)
        return direct(tier)

    monkeypatch.setattr(GeneratedTier, "direct", property(late))
    executable(X)
    assert executable(X) == (41,)


def test_a_tier_that_was_set_takes_the_short_way_and_can_be_taken_back() -> None:
    executable = Executable(Graph.parse(TEXT))
    (want,) = executable(X)
    own = executable.tier
    executable.tier = mine = GeneratedTier(executable.graph, executable.number)
    same(executable(X), [want])
    assert executable._direct is mine.direct
    executable.tier = Fake(41)
    assert executable(X) == (41,)
    del executable.tier
    assert executable.tier is own
    same(executable(X), [want])
    assert executable._direct is own.direct


@final
class Counting:
    """A tier that counts the steps that an inner tier runs."""

    name = "counting"
    text = ""
    direct = None

    def __init__(self, inner: ScheduledTier) -> None:
        self.inner = inner
        self.steps = self.spawned = 0

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        self.steps += 1
        return self.inner.run(inputs)

    def detached(self, *args: Any, **kwargs: Any) -> Any:
        self.spawned += 1
        return self.inner.detached(*args, **kwargs)


def test_a_tier_that_was_set_runs_spawned_steps() -> None:
    results = ef.Queue(100, ef.tensor(0.0))

    @ef.trace
    def step() -> None:
        results.enqueue(ef.tensor(1.0))

    step()
    (executable,) = [e for e in _executables.values() if e.graph.name == "step"]
    own = executable.tier
    executable.tier = mine = Counting(ScheduledTier(executable.graph, executable.number))
    with recorded(StepEvent) as log:
        with ef.spawn(step):
            results.dequeue_many(50)
        assert mine.spawned >= 49  # one element was there before
    assert {event.tier for event in log.of("step")} == {"counting"}
    assert mine.steps == 0
    executable.tier = Fake(())  # a tier without detached steps: they are scheduled
    with recorded(StepEvent) as log, ef.spawn(step):
        results.dequeue_many(50)
    assert {event.tier for event in log.of("step")} == {"scheduled"}
    del executable.tier
    assert executable.tier is own
    with recorded(StepEvent) as log, ef.spawn(step):
        results.dequeue_many(50)
    assert {event.tier for event in log.of("step")} == {"scheduled"}


def test_kernels_and_tiers(add_kernel: Any) -> None:
    """A kernel that is registered anew counts from the next step on, whatever ran the last step."""
    for executable in (Executable(Graph.parse(TEXT)), straight(Graph.parse(TEXT))):
        executable(X)
        add_kernel("exp", lambda xp, x: x * 0 + 41)
        same(executable(X), [X + 41])


# --- events -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["generated", "scheduled", "opened"])
def test_steps_regions_and_nodes_know_each_other(way: str) -> None:
    graph, given = loop_of(lambda x, i: ef.exp(-x), 3)
    whole = {"scheduled": lambda node: True, "opened": open_up}
    executable = straight(graph) if way == "generated" else by_scheduler(graph, whole[way], heavy)
    with recorded(StepEvent, RegionEvent, NodeEvent) as log:
        executable(*given)
        executable(*given)
    first, second = log.of("step")
    assert (first.executable, first.parent, first.error) == (executable.number, 0, "")
    assert first.tier == ("generated" if way == "generated" else "scheduled")
    assert 0 < first.step < second.step
    assert {e.step for e in log.events} == {first.step, second.step}
    for event in (*log.of("region"), *log.of("node")):
        step = first if event.step == first.step else second
        assert step.start <= event.start <= event.stop <= step.stop
        assert event.executable == executable.number
    iterations = [e.frames for e in log.of("node", "exp") if e.step == first.step]
    assert iterations == [(("while_loop", i),) for i in range(3)]
    assert log.begun[0] is first


def test_steps_and_regions_say_on_which_devices_they_are() -> None:
    with ef.config(cpu_devices=2), recorded(StepEvent, RegionEvent) as log:
        ef.trace(lambda x: x * 2)(ef.ones(2, device="cpu:1"))
        ef.trace(lambda x: (x * 2, ef.exp(x.to("cpu:1"))))(ef.ones(2))
    single, several = log.of("step")
    assert (single.device, single.devices) == ("cpu:1", ("cpu:1",))
    assert (several.device, several.devices) == ("", ("cpu:0", "cpu:1"))
    assert [(e.device, e.devices) for e in log.of("region")] == [
        (device, (device,)) for device in ("cpu:1", "cpu:0", "cpu:1")
    ]


def test_a_scan_backwards_is_counted_as_errors_count_it() -> None:
    @ef.trace
    def f(xs: Any) -> Any:
        return ef.scan(lambda c, x: (ef.exp(c) * x, c), ef.tensor(0.0), xs, reverse=True)

    graph = f.graph(ef.ones(3))
    for executable in (straight(graph), by_scheduler(graph, open_up)):
        with recorded(NodeEvent) as log:
            executable(*[np.ones(v.type.shape, np.float32) for v in graph.inputs])
        assert [e.iteration for e in log.of("node", "exp")] == [2, 1, 0]


def test_a_loop_has_one_name_whatever_runs_it() -> None:
    """The name in events and in errors, also for a graph that is called twice."""

    def until(x: Any, end: Any) -> Any:
        return ef.while_loop(
            lambda i, x: i < end, lambda i, x: (i + 1, ef.exp(x) * x[i]), (ef.tensor(0), x)
        )[1]

    @ef.trace
    def f(x: Any, end: Any) -> Any:
        with ef.name_scope("first"):
            x = ef.call(until, x, end)
        return ef.call(until, x, end)

    frames, told = list[Any](), list[Any]()
    graph = f.graph(ef.ones(2), ef.tensor(2))
    for executable in (straight(graph), by_scheduler(graph, open_up)):
        with recorded(NodeEvent) as log:
            executable(X, np.array(2))
        frames.append([e.frames for e in log.of("node", "exp")])
        with pytest.raises(errors.TensorIndexError) as raised:
            executable(X, np.array(3))
        told.append([note for note in notes(raised.value) if "iteration" in note])
    assert [[number for _, number in loops] for loops in frames[0]] == [[0], [1], [0], [1]]
    assert len(told[0]) == 1
    assert (frames[0], told[0]) == (frames[1], told[1])


def test_the_device_of_a_step_is_where_it_was_made() -> None:
    with ef.config(cpu_devices=2):
        executable = Executable(Graph.parse(TEXT))
        with recorded(StepEvent) as log, ef.device("cpu:1"):
            executable(X)
    assert [e.device for e in log.of("step")] == ["cpu:0"]


def test_a_step_in_a_step() -> None:
    inner = ef.trace(lambda x: x * 2)

    @ef.trace
    def outer(x: Any) -> Any:
        return ef.py_call(inner, "f32[]", x) + 1

    outer(ef.tensor(1.0))
    with recorded(StepEvent, NodeEvent) as log:
        outer(ef.tensor(1.0))
    within, around = log.of("step")
    assert (within.parent, around.parent) == (around.step, 0)
    (multiply,), (add,) = log.of("node", "multiply"), log.of("node", "add")
    assert (multiply.step, add.step) == (within.step, around.step)


def test_an_error_is_told_by_step_and_region() -> None:
    executable = Executable(Graph.parse(TEXT))
    with recorded(StepEvent, RegionEvent) as log, pytest.raises(TypeError):
        executable()
    assert [e.kind for e in log.events] == ["region", "step"]
    assert all(e.error.startswith("TypeError") for e in log.events)


def test_looking_at_steps_and_regions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code runs, and the code that emits events of nodes is not even made."""
    executable = Executable(Graph.parse(TEXT))
    with recorded(StepEvent, RegionEvent) as log:
        executable(X)
    tier = executable.tier
    assert isinstance(tier, GeneratedTier)
    assert tier._region._versions.keys() == {"plain"}
    assert [e.kind for e in log.events] == ["region", "step"]
    assert executable._direct is tier.direct
    refuse_events(monkeypatch)
    executable(X)


# --- statistics ---------------------------------------------------------------------------------


def test_statistics_of_a_function_whose_ops_wait_beside_each_other() -> None:
    a, b = ef.Queue(None, ef.tensor(0.0)), ef.Queue(None, ef.tensor(0.0))

    @ef.trace
    def f() -> Any:
        with ef.unordered():
            return ef.exp(a.dequeue()) + b.dequeue()

    for queue in (a, b):
        queue.enqueue_many([0.0, 0.0])
    f()
    assert [e.executable.tier.name for e in f._lookup.cache.entries()] == ["scheduled"]
    with f.stats() as stats:
        f()
    counts = sorted((row.op, row.count) for row in stats.table())
    assert counts == [("add", 1), ("exp", 1), ("queue_dequeue", 1), ("queue_dequeue", 1)]


def test_statistics_count_the_gradient() -> None:
    f = ef.trace(lambda x: ef.exp(x).sum())
    gradient = ef.grad(f)
    gradient(X)
    with f.stats() as stats:
        gradient(X)
    counts = {row.op: row.count for row in stats.table()}
    assert counts["exp"] == 1
    assert counts["multiply"] == 1


def test_statistics_of_a_function_that_is_spawned() -> None:
    numbers = ef.Queue(None, ef.tensor(0.0))

    @ef.trace
    def f() -> None:
        ef.exp(numbers.dequeue())

    @ef.trace
    def g() -> None:
        squares.enqueue(ef.sin(numbers.dequeue()))

    squares = ef.Queue(None, ef.tensor(0.0))
    numbers.enqueue_many([1.0, 2.0, 3.0])
    with (
        g.stats() as stats, f.stats() as others, recorded(StepEvent) as log,
        ef.spawn(g, name="sines") as runner,
    ):  # fmt: skip
        until(lambda: runner.steps == 3)
    counts = {row.op: row.count for row in stats.table()}
    assert counts == {"queue_dequeue": 3, "sin": 3, "queue_enqueue": 3}
    assert not others.table()
    steps = [e for e in log.of("step") if not e.error]
    assert [(e.tier, e.runner, e.thread) for e in steps] == [("scheduled", "sines", 0)] * 3
    (last,) = [e for e in log.begun if e not in steps]
    assert "CancelledError" in last.error


def test_a_detached_step_that_fails_tells_so() -> None:
    numbers = ef.Queue(None, ef.tensor(0))
    numbers.enqueue(7)
    failing = ef.trace(lambda: ef.zeros(3)[numbers.dequeue()])
    with recorded(StepEvent) as log:
        runner = ef.spawn(failing)
        with pytest.raises(errors.TensorIndexError):
            runner.join(60)
    assert [e.error.partition(":")[0] for e in log.of("step")] == ["TensorIndexError"]


def test_a_listener_that_comes_within_a_loop_leaves_no_iteration_behind(ops: Ops) -> None:
    recorder = Recorder({NodeEvent})

    def join(x: Any) -> Any:
        add_instrument(recorder)
        return x

    ops.add("test_join", join, "fence")
    graph, given = loop_of(lambda x, i: bind(get_op("test_join"), ef.exp(x)), 2)
    try:
        by_scheduler(graph, open_up)(*given)
        assert step_of.frames == ()
    finally:
        remove_instrument(recorder)


def test_a_detached_step_that_cannot_begin_has_an_end() -> None:
    done: list[Any] = []
    with recorded(StepEvent) as log:
        step = Executable(Graph.parse(TEXT)).detached(done.append)
        with pytest.raises(ValueError, match="shorter"):
            step.begin([])
    (event,) = log.of("step")
    assert event.error.startswith("ValueError")
    assert not done
