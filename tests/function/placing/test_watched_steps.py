"""Observed steps: the times of ops on every device, and the numbers of iterations of loops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.function.placing import watched_steps
from eagerflow.function.placing.automatic import traits
from eagerflow.function.placing.watched_steps import Seen, StepWatcher
from eagerflow.graph import Graph
from eagerflow.hardware import register_backend, registry
from eagerflow.placement.automatic.cost_model import CostModel
from eagerflow.placement.automatic.executor_steps import predict
from eagerflow.placement.automatic.rates import MachineRates
from eagerflow.placement.automatic.sites import site_of
from eagerflow.runtime import Executable
from eagerflow.runtime.observed_step import Observation
from eagerflow_kernels.asynchronous import AsyncBackend
from tests.fakes.timed_devices import define_pause, forget_pause


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    with ef.config(cpu_devices=2, threads=1):
        yield


def looped(other: str) -> Any:
    """A loop of loops, the outer one over two devices."""

    @ef.trace
    def f(x: Any, n: Any) -> Any:
        def inner(j: Any, y: Any) -> Any:
            return j + 1, ef.sin(y)

        def outer(i: Any, y: Any) -> Any:
            with ef.device(other):
                y = ef.exp(y * 0.5)
            with ef.device("cpu:0"):
                y = y * 0.25
            return i + 1, ef.while_loop(lambda j, y: j < 3, inner, (ef.tensor(0), y))[1]

        return ef.while_loop(lambda i, y: i < n, outer, (ef.tensor(0), ef.exp(x)))[1].sum()

    return f


def watched(f: Any, args: list[Any], steps: int = 3) -> Seen:
    f(*args)
    seen = Seen()
    for _ in range(steps):
        with StepWatcher(f.latest().executable, seen):
            f(*args)
    return seen


@pytest.mark.parametrize("other", ["cpu:0", "cpu:1"])
def test_iterations_of_loops_are_learned(other: str) -> None:
    f = looped(other)
    args = [ef.ones(4), ef.tensor(5)]
    known = watched(f, args).observed()
    assert sorted(known.iterations.values()) == [3, 5]
    graph = f.graph(*args)
    (loop,) = [n for n in graph.nodes if n.op == "while_loop"]
    assert known.iterations[site_of(loop)] == 5
    guessed, learned = (
        predict(graph, CostModel(MachineRates(), observed=seen), traits()).seconds
        for seen in (None, known)
    )
    assert learned < guessed / 20  # 15 iterations of the inner loop, not 10,000


def test_iterations_that_change_are_a_median() -> None:
    f = looped("cpu:0")
    seen = watched(f, [ef.ones(4), ef.tensor(5)], 1)
    for count in (9, 8, 0, 9):
        with StepWatcher(f.latest().executable, seen):
            f(ef.ones(4), ef.tensor(count))
    assert sorted(seen.observed().iterations.values()) == [3, 8]


@pytest.fixture
def sleepy() -> Iterator[None]:
    define_pause(time.sleep)
    register_backend(AsyncBackend("sleepy", devices=1))
    yield
    forget_pause()
    registry._backends.pop("sleepy")
    registry._devices.pop("sleepy:0")


def test_kernels_of_devices_that_work_later_are_timed(sleepy: None) -> None:
    kind = "f32[4]@sleepy:0"
    text = f"%y = pause(%x) {{seconds=0.02, shape=(4,)}} : {kind}"
    graph = Graph.parse(f"graph f(%x: {kind}) {{ {text} %z = exp(%y) : {kind} return %z }}")
    executable, seen = Executable(graph), Seen()
    value = ef.ones(4, device="sleepy:0")._data
    with StepWatcher(executable, seen):
        executable(value)
    times = {site.op: seconds for (site, _), seconds in seen.observed().nodes.items()}
    assert times["pause"] > 0.01  # issuing it takes some microseconds; this thread may be late
    (pause, _) = graph.nodes
    costs = CostModel(MachineRates(), observed=seen.observed())
    device = ef.hardware.as_device("sleepy:0")
    assert costs.seconds(pause, device) > 0.01  # time of the device
    assert costs.call(pause, device) < 1e-3  # time of the host


def test_the_least_of_what_executables_take_counts() -> None:
    graph = Graph.parse("graph f(%x: f32[4]) { %y = exp(%x) : f32[4] return %y }")
    seen, key = Seen(), (site_of(graph.nodes[0]), "cpu")
    for number, times in ((1, (3.0, 1.0, 2.0)), (2, (9.0, 4.0, 5.0))):
        known = seen.nodes.setdefault(number, watched_steps.defaultdict(watched_steps._few))
        known[key].extend(times)
    assert seen.observed().nodes[key] == 2.0


def test_the_observation_of_a_view_comes_after_it() -> None:
    f, args = looped("cpu:0"), [ef.ones(4), ef.tensor(2)]
    f(*args)
    executable, mine = f.latest().executable, list[Observation]()
    wanted = Observation(executable.number, mine.append)
    executable.observe(wanted)
    with StepWatcher(executable, seen := Seen()):
        f(*args)
        assert mine == []
        f(*args)
    assert seen.observed().nodes
    assert executable.observe(None) is wanted


def test_a_step_that_fails_tells_nothing() -> None:
    f = ef.trace(lambda x, i: ef.take(ef.exp(x), i))
    f(ef.ones(3), ef.tensor(0))
    seen = Seen()
    with pytest.raises(ef.errors.TensorIndexError), StepWatcher(f.latest().executable, seen):
        f(ef.ones(3), ef.tensor(7))
    assert seen.observed().nodes == {}


def test_what_a_look_takes_is_measured_once_and_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched_steps._look_seconds(ef.hardware.as_device("cpu:0"), False) >= 0.0
    measured = list[Any]()
    monkeypatch.setattr(watched_steps, "_looks", {})
    monkeypatch.setattr(watched_steps, "_look_seconds", lambda *of: measured.append(of) or 1e3)
    seen = watched(ef.trace(ef.exp), [ef.ones(3)])
    assert measured == [(ef.hardware.as_device("cpu:0"), False)]
    assert set(seen.observed().nodes.values()) == {0.0}  # never negative
