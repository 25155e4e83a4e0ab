"""``f.place("auto")``: trials by steps, a placement kept if faster, reports, and withdrawal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import PlacementError
from eagerflow.events import TransferEvent
from eagerflow.function.placing import automatic, trial_steps
from eagerflow.function.placing.watched_steps import Seen, StepWatcher
from eagerflow.hardware import register_backend, registry
from eagerflow.placement.automatic import planning
from eagerflow.placement.automatic.cost_model import ObservedTimes
from eagerflow.placement.automatic.planning import OWN, PlacementPlan
from eagerflow_kernels.asynchronous import AsyncBackend
from tests.messages import says

STEPS = 2 * (trial_steps._TIMED_STEPS + trial_steps._WATCHED + 1)


class Clock:
    """Gives times that a test has chosen: planned steps take `planned`, others `own`."""

    def __init__(self, planned: float, own: float) -> None:
        self.spans = planned, own
        self.time, self.calls = 0.0, 0

    def __call__(self) -> float:
        if self.calls % 2:
            self.time += self.spans[self.calls // 2 % 2]
        self.calls += 1
        return self.time

    def times(self, steps: int) -> Iterator[float]:
        """What it shows at the beginning and the end of so many steps."""
        return iter([self() for _ in range(2 * steps)])


@pytest.fixture(autouse=True)
def _devices(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EAGERFLOW_CACHE", str(tmp_path))
    with ef.config(cpu_devices=3, threads=1):
        yield


def scattered() -> Any:
    """A function whose small ops are on three devices, for no reason."""

    @ef.trace
    def f(x: Any) -> Any:
        with ef.device("cpu:1"):
            y = ef.exp(x)
        with ef.device("cpu:2"):
            z = ef.sin(y) + y
        with ef.device("cpu:0"):
            return (z * x).sum()

    return f


def run(f: Any, x: Any, steps: int) -> Any:
    results = [f(x) for _ in range(steps)]
    assert len({r.item() for r in results}) == 1
    return results[0]


@pytest.mark.parametrize("before", [True, False])
def test_a_faster_placement_is_kept(monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    f, x = scattered(), ef.ones(20)
    want = scattered()(x)
    monkeypatch.setattr(trial_steps, "perf_counter", Clock(1.0, 2.0))
    if before:
        f(x)
    f.place("auto")
    got = run(f, x, STEPS + 1)
    assert got.device == "cpu:0"
    assert got.item() == want.item()
    plan = f.latest().rules.plan
    assert plan.chosen.name == "all on cpu:0"
    assert (plan.chosen.measured, plan.own.measured) == (1.0, 2.0)
    text = str(f.explain("placement"))
    assert re.search(
        r"all on cpu:0 is kept: 1 s \(predicted .*\), where the program says 2 s \(pred", text
    )
    assert {str(n.device) for n in f.graph(x).nodes if n.op in ("exp", "sin")} == {"cpu:0"}
    assert f.latest().trial is None


def test_a_slower_placement_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = scattered(), ef.ones(20)
    monkeypatch.setattr(trial_steps, "perf_counter", Clock(2.0, 1.0))
    f.place("auto")
    run(f, x, 2 * STEPS)
    plan = f.latest().rules.plan
    assert plan.chosen.name == OWN
    assert "is not faster and was given up" in str(f.explain("placement"))
    assert {str(n.device) for n in f.graph(x).nodes if n.op in ("exp", "sin")} == {"cpu:1", "cpu:2"}


def test_steps_as_the_program_says_are_timed_and_may_lead_to_another_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, x, alone = scattered(), ef.ones(20), STEPS // 2
    times = chain(Clock(2.0, 2.0).times(alone), Clock(1.0, 2.0).times(STEPS))
    plans = []

    def planned(*args: Any) -> PlacementPlan:
        made = planning.plan(*args)
        if not plans:  # unmeasured, the model takes the program's own placement for the best
            made.choose(made.own.assignment)
        plans.append(made)
        return made

    monkeypatch.setattr(automatic, "plan", planned)
    monkeypatch.setattr(trial_steps, "perf_counter", lambda: next(times))
    monkeypatch.setattr(Seen, "observed", lambda self: ObservedTimes())  # no times of this one
    f.place("auto")
    run(f, x, alone)
    first, second = plans
    assert first.own.measured == 2.0
    assert first.own.predicted < 1e-3
    assert second.own.predicted == pytest.approx(2.0)  # by the measurement
    assert (second.chosen.name, second.verdict) == ("all on cpu:0", "")
    run(f, x, STEPS)
    assert "all on cpu:0 is kept: 1 s" in str(f.explain("placement"))


def test_the_only_placement_is_timed_and_said_so() -> None:
    f, x = ef.trace(ef.exp), ef.ones(20)
    f.place("auto", devices=["cpu:0"])
    run(f, ef.ones(()), STEPS // 2)
    trial = f.latest().trial
    assert trial is None
    text = str(f.explain("placement"))
    assert re.search(r"tried in 9 steps: where the program says: .* \(predicted .*\)", text), text
    assert f.explain("costs").rows[0].measured is not None
    assert bool((f(x) == ef.exp(x)).all())


def test_on_null_devices_nothing_is_tried() -> None:
    f = ef.trace(lambda x: ef.exp(ef.tanh(x @ x)).sum())
    x = ef.zeros((4096, 4096), device="null:0")
    f.place("auto", devices=["null:0", "null:1"])
    f(x)
    f.place("auto", devices=["null:0", "null:1"], memory=2**28)
    f(x)
    assert f.latest().trial is None
    assert "measured" not in str(f.explain("placement"))
    g = ef.trace(lambda x: ef.exp(x).sum()).place("auto")  # sizes known from a call
    for size in (3, 4, 5):
        g(ef.zeros(size, device="null:0"))
    assert g.latest().trial is None
    assert not g.latest().rules.planned.waits_for_sizes


def test_steps_are_timed_until_devices_have_done_their_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = AsyncBackend("hand", threads=False)  # works only while a caller waits
    register_backend(backend)
    left = []

    def clock() -> float:
        left.append(backend.pump())
        return float(len(left))

    @ef.trace
    def f(x: Any) -> Any:
        with ef.device("hand:0"):
            v.assign_add(x)
            y = ef.exp(x)
        with ef.device("hand:1"):  # a detour
            z = ef.sin(y)
        with ef.device("hand:0"):
            return z + y

    v, x = ef.Variable(ef.zeros(3, device="hand:0")), ef.ones(3, device="hand:0")
    try:
        f.place("auto", devices=["hand:0"])
        monkeypatch.setattr(trial_steps, "perf_counter", clock)
        for _ in range(STEPS):
            f(x)
        assert left == [0] * 2 * STEPS
    finally:
        registry._backends.pop("hand")
        for i in range(2):
            registry._devices.pop(f"hand:{i}", None)


def test_it_is_taken_back() -> None:
    f, x = scattered(), ef.ones(20)
    f.place("auto")
    run(f, x, STEPS // 2)
    f.place(None)
    assert run(f, x, 3).item() == scattered()(x).item()
    assert f.latest().trial is None
    assert f.explain("placement").rules is None


def test_rules_in_the_middle_of_a_trial_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = scattered(), ef.ones(20)
    f.place("auto")
    f(x)
    trial = f.latest().trial
    f.place({"exp": "cpu:0"})
    for _ in range(STEPS):
        trial(x._data)
    assert "rule 'exp'" in str(f.explain("placement"))


def test_sizes_of_a_call_count(monkeypatch: pytest.MonkeyPatch) -> None:
    f = scattered()
    f(ef.ones(3)), f(ef.ones(4))
    f.place("auto")
    f(ef.ones(5))
    assert f.latest().rules.planned.sizes == {"n": 5}


def test_gradients_and_variables_are_those_of_the_program() -> None:
    v = ef.Variable([1.0, 2.0, 3.0], device="cpu:1")

    def step(x: Any) -> Any:
        def loss(w: Any) -> Any:
            with ef.device("cpu:2"):
                h = ef.tanh(w * x)
            with ef.device("cpu:0"):
                return (h * h).sum()

        g = ef.grad(loss)(v.value)
        v.assign_sub(g * 0.1)
        return loss(v.value)

    x = ef.tensor([0.5, 1.0, 1.5])
    want = [step(x).item() for _ in range(STEPS + 2)]
    last = v.numpy()
    v.assign([1.0, 2.0, 3.0])
    f = ef.trace(step).place("auto")
    assert [f(x).item() for _ in range(STEPS + 2)] == want
    np.testing.assert_array_equal(v.numpy(), last)
    assert v.device == "cpu:1"


def test_derivatives_are_placed_as_their_function() -> None:
    f, x = scattered(), ef.ones(20)
    want = ef.grad(scattered())(x).numpy()
    f.place("auto")
    f(x)
    np.testing.assert_array_equal(ef.grad(f)(x).numpy(), want)


@pytest.mark.parametrize("planned", [1.0, 4.0])
def test_steps_with_gradients_are_tried(monkeypatch: pytest.MonkeyPatch, planned: float) -> None:
    f, x = scattered(), ef.ones(20)
    want = ef.grad(scattered())(x).numpy()
    times = chain.from_iterable((i, i + (planned, 2.0)[i // 20 % 2]) for i in range(0, 10_000, 10))
    monkeypatch.setattr(trial_steps, "perf_counter", lambda: next(times))
    f.place("auto")
    step = ef.grad(f)
    ended = []
    for _ in range(STEPS):
        np.testing.assert_array_equal(step(x).numpy(), want)
        ended.append(f.latest().trial is None)
    assert ended == [False] * (STEPS - 1) + [True]
    plan, text = f.latest().rules.plan, str(f.explain("placement"))
    assert (plan.own.measured, plan.chosen.name == OWN) == (4.0, planned > 2.0)  # forward, backward
    assert "tried in 18 steps with their gradients: all on cpu:0 is " in text
    assert re.search(r"where the program says 4 s \(predicted .* of the results alone\)", text)
    step(x)
    backward = f.latest()._derivative.backward
    homes = {str(n.device) for n in backward.nodes if n.op in ("cos", "multiply")}
    assert homes == ({"cpu:0", "cpu:1", "cpu:2"} if planned > 2.0 else {"cpu:0"})


def test_a_step_without_its_gradient_is_not_counted() -> None:
    f, x = scattered(), ef.ones(20)
    f.place("auto")
    for _ in range(STEPS):
        with ef.GradientTape() as tape:
            tape.watch(x)
            f(x)
    assert f.latest().trial is not None
    for _ in range(STEPS):
        ef.grad(f)(x)
    assert f.latest().trial is None


def test_gradients_of_loops_are_tried_on_devices_that_work_later() -> None:
    def grow(x: Any) -> Any:
        return ef.while_loop(lambda c: c.sum() < 30, lambda c: ef.exp(c) * 0.9 + c, x)

    x = ef.ones(3, device="async:0")
    want = ef.grad(lambda x: grow(x).sum())(x).numpy()
    f = ef.trace(grow).place("auto")
    for _ in range(STEPS):
        np.testing.assert_array_equal(ef.grad(lambda x: f(x).sum())(x).numpy(), want)
    assert f.latest().trial is None


def test_ctrl_c_while_it_decides_leaves_that_to_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, x = scattered(), ef.ones(20)
    f.place("auto")
    run(f, x, STEPS - 1)
    with monkeypatch.context() as patch:
        patch.setattr(automatic, "plan", raises(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            f(x)
    assert f.latest().trial is not None
    f(x)
    assert f.latest().trial is None
    assert "tried in" in str(f.explain("placement"))


def test_a_step_does_not_fail_since_nothing_can_be_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, x = scattered(), ef.ones(20)
    f.place("auto")
    want = run(f, x, STEPS - 1).item()
    with monkeypatch.context() as patch:
        patch.setattr(automatic, "plan", raises(PlacementError("place: it fits nowhere")))
        with pytest.warns(ef.errors.PlacementWarning, match="given up: place: it fits nowhere"):
            assert f(x).item() == want
    assert f.latest().trial is None
    assert f.latest().rules is None
    assert f(x).item() == want


def test_devices_may_go_while_a_step_is_watched() -> None:
    f, x, seen = scattered(), ef.ones(20), Seen()
    f(x)
    executable = f.latest().executable
    watcher = StepWatcher(executable, seen)
    watcher.end(
        TransferEvent(device="cpu:9", origin="async:0", nbytes=80, executable=executable.number)
    )
    assert not seen.links


def raises(error: BaseException) -> Any:
    """A function that raises it, whatever it is called with."""

    def function(*args: Any) -> Any:
        raise error

    return function


def test_a_trial_ends_though_every_second_step_fails() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        with ef.device("cpu:1"):
            y = ef.linalg.inv(x)
        with ef.device("cpu:2"):
            return (ef.sin(y) + y).sum()

    f.place("auto")
    for _ in range(4 * STEPS):  # it ends, at the latest with these
        f(ef.eye(3))
        with pytest.raises(ef.errors.EagerflowError, check=says("singular")):
            f(ef.zeros((3, 3)))
        if f.latest().trial is None:
            break
    assert f.latest().trial is None
    assert f.latest().rules.plan.own.measured is not None


def test_costs_are_told_with_what_was_measured() -> None:
    f, x = scattered(), ef.ones(20)
    f(x)
    assert all(row.measured is None for row in f.explain("costs").rows)
    f.place("auto")
    run(f, x, STEPS)
    rows = {row.op: row for row in f.explain("costs").rows}
    assert rows["exp"].measured is not None
    assert rows["exp"].cost.bytes == 2 * 4 * 20
    assert "predicted" in str(f.explain("costs"))
    assert re.search("one after the other: predicted [^,]*, measured ", str(f.explain("costs")))
    f(ef.ones(20, dtype="float64"))  # another trace, without observations yet
    assert all(row.measured is None for row in f.explain("costs").rows)


def training_step(layers: int, device: str) -> Any:
    """A step that keeps the results of all layers for the gradient."""
    w = ef.Variable(ef.ones((16, 16), device=device))

    @ef.trace
    def step(x: Any) -> Any:
        def loss(w: Any) -> Any:
            h = x
            for _ in range(layers):
                h = ef.tanh(h @ w)
            return h.sum()

        g = ef.grad(loss)(w.value)
        w.assign_sub(g * 0.01)
        return g.sum()

    return step


@pytest.fixture
def many() -> Iterator[list[str]]:
    register_backend(AsyncBackend("many", devices=3))
    names = [f"many:{i}" for i in range(3)]
    yield names
    registry._backends.pop("many")
    for name in names:
        registry._devices.pop(name, None)


def test_a_step_that_needs_twice_the_limit_is_split_over_devices(many: list[str]) -> None:
    x = ef.ones((256, 16), device="many:0")
    step, other = training_step(12, "many:0"), training_step(12, "many:0")
    want = other(x).item()
    step.place("auto", memory=10**9, devices=many)
    step.graph(x)
    need = step.latest().rules.plan.own.peaks[ef.hardware.as_device("many:0")].bytes
    step.place("auto", memory=need // 2, devices=many)
    plan = step.latest().rules.plan
    assert plan.own.too_much
    assert {str(d) for d in plan.choice.values()} == {*many}
    assert all(peak.bytes <= need // 2 for peak in plan.chosen.peaks.values())
    assert step(x).item() == want
    with pytest.raises(PlacementError, check=says("may hold .* and needs")) as caught:
        step.place("auto", memory=need // 2, devices=many[:2])
    assert f"would hold {need:,}" not in str(caught.value)  # but the nearest one
    assert "bytes: f32[256,16]@many:0" in str(caught.value)


def test_a_step_that_needs_more_than_the_limit_is_split_or_refused() -> None:
    step, x = training_step(6, "async:0"), ef.ones((256, 16), device="async:0")
    step.graph(x)
    step.place("auto", memory=10**9, devices=["async:0", "async:1"])
    need = step.latest().rules.plan.own.peaks[ef.hardware.as_device("async:0")].bytes
    step.place("auto", memory=need // 2 + need // 5, devices=["async:0", "async:1"])
    plan = step.latest().rules.plan
    assert plan.own.too_much
    assert {str(d) for d in plan.choice.values()} == {"async:0", "async:1"}
    for _ in range(STEPS):
        step(x)
    assert step.latest().trial is None
    plan = step.latest().rules.plan
    assert plan.own.measured is None  # no memory to try it for comparison
    assert plan.chosen.measured is not None
    assert np.isfinite(step(x).item())
    with pytest.raises(PlacementError, check=says("may hold .* and needs")) as caught:
        step.place("auto", memory=need // 2, devices=["async:0"])
    assert "bytes: f32[256,16]@async:0" in str(caught.value)
    assert "h = ef.tanh(h @ w)" in str(caught.value)


def test_nodes_stay_on_devices_of_their_kind_unless_asked() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        y = ef.exp(x) * 2.0 + 1.0
        with ef.device("async:0"):
            z = ef.sin(y) + y
        with ef.device("cpu:1"):
            return (z * x).sum()

    x = ef.ones(20)
    f(x)
    f.place("auto")
    plan = f.latest().rules.plan
    assert {d.kind for d in plan.devices} == {"cpu"}
    for one in plan.alternatives:
        assert {n.op for n in plan.choices(one.assignment)} == {"exp", "multiply", "add", "sum"}
    graph = f.graph(x)
    assert [str(n.device) for n in graph.nodes if n.op == "sin"] == ["async:0"]
    f.place("auto", devices=["cpu:0"])
    assert [str(n.device) for n in f.graph(x).nodes if n.op == "sin"] == ["cpu:0"]


def test_budgets_and_devices_are_for_automatic_placement() -> None:
    with pytest.raises(PlacementError, check=says("for automatic placement")):
        scattered().place({"exp": "cpu:0"}, memory=3)
