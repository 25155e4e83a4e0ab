"""Costs of nodes: times that add up to their steps, and true shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import eagerflow as ef
from eagerflow.core.op import get_op
from eagerflow.hardware.cpu import CpuBackend
from eagerflow.runtime import executable
from eagerflow.runtime.generated import generated_tier, observer
from eagerflow.runtime.generated.generated_tier import GeneratedTier
from eagerflow.runtime.observed_step import Observation
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.tiers import Tier
from eagerflow.watching import Watcher
from eagerflow.watching.graph_columns import NodeIndex
from eagerflow.watching.node_costs import Duty, NodeCosts, layer_shares
from tests.bench.watching import calls_of


class _Line:
    def __init__(self, node):
        self.node = node


def observed(graph, seconds, runs, chains=None, *, is_part=False) -> Observation:
    observation = Observation(1, lambda seen: None)
    observation.begin(0, [_Line(node) for node in graph.nodes], chains or {}, is_part=is_part)
    times = observation.regions[0]
    times.seconds[:], times.runs[:] = seconds, runs
    observation.end(0.0, 9.0)
    return observation


GRAPH = """graph f(%x: f32[n]) {
  %a = exp(%x) : f32[n]
  %b = exp(%a) : f32[n]
  %c = exp(%b) : f32[n]
  return %c
}"""


def test_what_looking_costs_is_taken_off_each_look() -> None:
    """Nodes of 1, 2 and 5 us, the second of which ran ten times; each look took 1 us more."""
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    seconds = [1e-6 + 1e-6, 2e-6 + 10e-6, 5e-6 + 1e-6]
    costs.add(observed(graph, seconds, [1, 10, 1]), 8e-6, {})
    table = {row.node: row for row in costs.table()}
    assert {n: row.seconds for n, row in table.items()} == pytest.approx(
        {"a": 1e-6, "b": 2e-6, "c": 5e-6}
    )
    assert sum(row.share for row in table.values()) == pytest.approx(1.0)
    assert (table["b"].runs, table["b"].steps, table["b"].seen) == (10, 1, 9.0)


def test_percentiles_are_of_the_observed_steps() -> None:
    """One node takes 1 us, in one step 4, and each step takes as long as its nodes."""
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    for took in (1e-6, 4e-6, 1e-6):
        costs.add(observed(graph, [took, 2e-6, 5e-6], [1, 1, 1]), took + 7e-6, {})
    # medians of 1, 2 and 5 us are those of a step of 8 us; the mean step has 9
    a = {row.node: row for row in costs.table()}["a"]
    assert (a.seconds, a.p95) == (pytest.approx(1e-6 * 9 / 8), pytest.approx(4e-6 * 9 / 8))


def test_the_time_of_a_chain_is_that_of_its_nodes() -> None:
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    chains = {2: (0, 1, 2)}
    costs.add(observed(graph, [0.0, 0.0, 6e-6], [0, 0, 1], chains), 6e-6, {})
    assert [row.seconds for row in costs.table()] == pytest.approx([2e-6] * 3)


def test_regions_are_scaled_to_their_own_times() -> None:
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    observation = observed(graph, [1.0, 1.0, 2.0], [1, 1, 1], is_part=True)
    costs.add(observation, 100.0, {0: 2.0})
    assert [row.seconds for row in costs.table()] == pytest.approx([1.0, 0.5, 0.5], rel=1e-4)
    assert costs.table()[0].share == pytest.approx(0.01, rel=1e-4)


def test_a_region_takes_no_longer_than_its_step() -> None:
    """The last runs of the region were slow, and the median of the steps is older."""
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    costs.add(observed(graph, [1e-3, 2e-3, 5e-3], [1, 1, 1], is_part=True), 8e-3, {0: 20e-3})
    shares = {row.node: row.share for row in costs.table()}
    assert shares == pytest.approx({"a": 1 / 8, "b": 2 / 8, "c": 5 / 8}, rel=1e-3)


def test_a_graph_run_as_a_whole_takes_its_step_whatever_its_regions_took() -> None:
    """Two ways to run a graph are tried, and the one with regions was slower."""
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    costs.add(observed(graph, [1e-3, 2e-3, 5e-3], [1, 1, 1]), 8e-3, {0: 1e-3, 1: 20e-3})
    assert sum(row.share for row in costs.table()) == pytest.approx(1.0, rel=1e-3)


def test_the_shortest_times_are_as_they_were_seen() -> None:
    """A node interrupted in most steps, and a region that is held up, change nothing; a node slower
    from now on does, after some steps."""
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    for i in range(12):
        late = 0.0 if i == 5 else 7e-3
        costs.add(observed(graph, [1e-3 + late, 2e-3, 3e-3], [1, 1, 1]), 50e-3, {})
    assert costs.least() == pytest.approx({0: 1e-3, 1: 2e-3, 2: 3e-3})
    for i in range(24):
        costs.add(observed(graph, [9e-3, 2e-3, 3e-3], [1, 1, 1]), 50e-3, {})
        assert costs.least()[0] == pytest.approx(1e-3 if i < 12 else 9e-3)


def test_to_take_in_a_step_needs_no_loop_over_its_nodes() -> None:
    """All but the names of nodes is computed on arrays: looks at large graphs stay cheap."""
    lines = "\n".join(f"%v{i + 1} = exp(%v{i}) : f32[n]" for i in range(300))
    graph = ef.Graph.parse(f"graph f(%v0: f32[n]) {{ {lines} return %v300 }}")
    costs, chains = NodeCosts(NodeIndex(graph)), dict[int, list[int]]()
    line = [_Line(node) for node in graph.nodes]

    def step() -> Observation:
        observation = Observation(1, lambda seen: None)
        observation.begin(0, line, chains, is_part=False)
        times = observation.regions[0]
        times.seconds[:], times.runs[:] = [1e-6] * 300, [1] * 300
        observation.end(0.0, 9.0)
        return observation

    costs.add(step(), 3e-4, {})
    costs.table()  # layers are found once
    assert calls_of(lambda: costs.add(step(), 3e-4, {})) < 100
    assert calls_of(costs.table) < 3 * 300
    assert len(costs.table()) == 300


def test_figures_are_settled_until_steps_become_slower() -> None:
    graph = ef.Graph.parse(GRAPH)
    costs, settled = NodeCosts(NodeIndex(graph)), list[bool]()
    for step in [8e-3] * 9 + [12e-3] * 9:
        costs.add(observed(graph, [1e-3, 2e-3, 5e-3], [1, 1, 1]), step, {})
        settled.append(costs.is_settled(step))
    assert settled == [False] * 8 + [True] + [False] * 4 + [True] * 5


def test_what_looks_cost_is_left_over_for_observing() -> None:
    duty = Duty(share=0.01, ahead=1.0)
    duty.worked(4.0)
    duty.ran(0.04)
    assert duty.allows(0.01)
    assert not duty.allows(0.011)


def test_a_pause_in_which_looks_go_on_is_soon_made_up_for() -> None:
    duty = Duty(share=0.01, ahead=1.0)
    for _ in range(1000):
        duty.ran(0.01)
    duty.worked(1.5)
    assert duty.allows(0.005)
    assert not duty.allows(0.006)


def test_duty_bounds_what_looking_takes() -> None:
    duty, spent, worked = Duty(share=0.01, ahead=1.0), 0.0, 0.0
    for _ in range(10_000):
        duty.worked(0.01)
        worked += 0.01
        if duty.allows(0.005):
            duty.looked(0.005)
            spent += 0.005
        assert spent <= 0.01 * (worked + 1.0) + 1e-9
    assert spent > 0.0099 * worked


# --- known shares -----------------------------------------------------------------------------


class ScriptedClock:
    """A clock advanced by fixed amounts at each call of a kernel and at each look at the clock.

    Other load of the machine has no influence; the cost of looking has, as each look counts.
    """

    #: seconds of a call by the name of the op, and of a look at the clock
    CALLS: Final = {"multiply": 1.1e-6, "subtract": 0.9e-6, "sin": 1.6e-6, "matmul": 44e-6}
    LOOK: Final = 1.6e-6

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.spent = dict.fromkeys(self.CALLS, 0.0)
        for module in (executable, observer, generated_tier):
            monkeypatch.setattr(module, "perf_counter", self.read)
        for name in self.CALLS:  # drop cached launchers, which do not advance this clock
            monkeypatch.setattr(get_op(name), "resolved", {})
        launcher = CpuBackend.launcher
        monkeypatch.setattr(
            CpuBackend, "launcher",
            lambda backend, call, index: self.timed(call.name, launcher(backend, call, index)),
        )  # fmt: skip

    def read(self) -> float:
        self.now += self.LOOK
        return self.now

    def timed(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        seconds = self.CALLS.get(name)
        if seconds is None:
            return kernel

        def run(*arrays: Any, **attributes: Any) -> Any:
            self.now += seconds
            self.spent[name] += seconds
            return kernel(*arrays, **attributes)

        return run


def small(x: ef.Tensor, count: int) -> ef.Tensor:
    with ef.name_scope("small"):
        for i in range(count):
            x = x * 1.0001 if i % 2 else x - 0.1
        return x


def sines(x: ef.Tensor, count: int) -> ef.Tensor:
    with ef.name_scope("sines"):
        for _ in range(count):
            x = ef.sin(x)
        return x


def products(x: ef.Tensor, count: int) -> ef.Tensor:
    with ef.name_scope("products"):
        for _ in range(count):
            x = x @ x
        return x


def looking_by_hand(clock: ScriptedClock) -> Watcher:
    """A watcher that may observe each step, without a thread."""
    watcher = Watcher(clock.read)
    watcher._run = lambda: None
    watcher.observer.duty = Duty(share=1.0)
    watcher.observer.draw = lambda below: 0  # the next step
    return watcher


def look(watcher: Watcher, clock: ScriptedClock, step: Callable[[], object]) -> None:
    """Run steps, with a look after each."""
    for _ in range(12):
        step()
        watcher.collect()
        for known in watcher.observer.executables.values():
            known.next = 0.0
        watcher.observer.step(clock.now)


@pytest.mark.parametrize(
    ("other", "counts", "most"),
    [
        (products, (400, 1), 0.9),
        (products, (40, 30), 0.97),
        (sines, (100, 300), 0.83),
        (products, (100, 2), 0.53),
    ],
    ids=["most in small ops", "most in products", "small ops alone", "half and half"],
)
def test_shown_shares_are_true(
    monkeypatch: pytest.MonkeyPatch,
    other: Callable[[ef.Tensor, int], ef.Tensor], counts: tuple[int, int], most: float,
) -> None:  # fmt: skip
    """Within 10 points, also for small ops that hold the interpreter's lock."""
    clock = ScriptedClock(monkeypatch)
    x = ef.zeros((4, 4))

    @ef.trace
    def program(x: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
        return small(x, counts[0]), other(x, counts[1])

    program(x)
    watcher = looking_by_hand(clock)
    with watcher:
        look(watcher, clock, lambda: program(x))
        program(x)
        clock.spent = dict.fromkeys(clock.CALLS, 0.0)
        program(x)
    (costs,) = [o.costs for o in watcher.observer.executables.values() if o.costs.steps]
    shown, whole = layer_shares(costs.table()), sum(clock.spent.values())
    true = {
        "small": (clock.spent["multiply"] + clock.spent["subtract"]) / whole,
        other.__name__: (clock.spent["sin"] + clock.spent["matmul"]) / whole,
    }
    assert max(true.values()) == pytest.approx(most, abs=0.02)
    assert all(abs(shown[name] - share) < 0.1 for name, share in true.items()), (shown, true)


def test_shares_are_of_the_tier_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps first run as regions, then as one function: figures of regions are out of date."""
    clock = ScriptedClock(monkeypatch)
    x = ef.zeros((4, 4))

    @ef.trace
    def program(x: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
        return products(small(x, 4), 2), products(sines(x, 4), 20)

    program(x)
    watcher = looking_by_hand(clock)
    shares = []
    with watcher:
        program(x)
        watcher.collect()
        (times,) = watcher.log.executables.values()
        runs = executable.find_executable(times.executable)
        cut = ScheduledTier(runs.graph, runs.number, workers=2, seconds=lambda node: 1e-3)
        tiers: list[Tier] = [cut, GeneratedTier(runs.graph, runs.number)]
        for runs.tier in tiers:
            look(watcher, clock, lambda: program(x))
            (costs,) = [o.costs for o in watcher.observer.executables.values()]
            shares.append(layer_shares(costs.table())[""])
    assert len(times.regions) > 1
    assert shares[1] == pytest.approx(1.0, abs=0.05), shares
