"""The times of nodes: sums that are right, and shares that are true."""

from __future__ import annotations

from time import perf_counter, process_time

import pytest

import eagerflow as ef
from eagerflow.runtime.observation import Observation
from eagerflow.watching import Watcher
from eagerflow.watching.node_costs import Duty, NodeCosts, scope_shares
from eagerflow.watching.structure import NodeIndex


class _Line:
    def __init__(self, node):
        self.node = node


def observed(graph, seconds, runs, chains=None) -> Observation:
    observation = Observation(1, lambda seen: None)
    observation.begin(0, [_Line(node) for node in graph.nodes], chains or {})
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
    """Three nodes of 1, 2 and 5 us; one of them ran ten times; each look took 1 us more."""
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


def test_the_time_of_a_chain_is_that_of_its_nodes() -> None:
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    chains = {2: (0, 1, 2)}
    costs.add(observed(graph, [0.0, 0.0, 6e-6], [0, 0, 1], chains), 6e-6, {})
    assert [row.seconds for row in costs.table()] == pytest.approx([2e-6] * 3)


def test_regions_are_scaled_to_their_own_times() -> None:
    graph = ef.Graph.parse(GRAPH)
    costs = NodeCosts(NodeIndex(graph))
    observation = observed(graph, [1.0, 1.0, 2.0], [1, 1, 1])
    costs.add(observation, 100.0, {0: 2.0})
    assert [row.seconds for row in costs.table()] == pytest.approx([1.0, 0.5, 0.5], rel=1e-4)
    assert costs.table()[0].share == pytest.approx(0.01, rel=1e-4)


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


# --- shares that are known --------------------------------------------------------------------


def small_ops(x, count):
    for i in range(count):
        x = x * 1.0001 if i % 2 else x - 0.1
    return x


def shown_and_true(parts) -> dict[str, tuple[float, float]]:
    """For each scope the share that is shown, and the one that it has.

    The true shares come from programs with one part each, timed by themselves in turns; a program
    without any is taken off as what a call costs.
    """

    def traced(chosen):
        @ef.trace
        def program(xs):
            ys = []
            for (name, part), x in zip(parts.items(), xs, strict=True):
                if name in chosen:
                    with ef.name_scope(name):
                        ys.append(part(x))
                else:
                    ys.append(x)
            return ys

        return program

    xs = [ef.ones((256, 256)) * 0.001 if name == "large" else ef.ones(8) for name in parts]
    whole, none = traced(set(parts)), traced(set())
    alone = {name: traced({name}) for name in parts}
    watcher = Watcher()
    watcher.observer.duty = Duty(share=1.0)
    with watcher:
        deadline = perf_counter() + 60
        while perf_counter() < deadline:
            for _ in range(20):
                whole(xs)
            costs = [o.costs for o in watcher.observer.executables.values()]
            if costs and max(c.steps for c in costs) >= 9:
                break
    (costs,) = [o.costs for o in watcher.observer.executables.values() if o.costs.steps]
    shown = scope_shares(costs.table())

    def best(f):
        times = []
        for _ in range(60):
            start = process_time()
            for _ in range(10):
                f(xs)
            times.append((process_time() - start) / 10)
        return sorted(times)[len(times) // 4]

    base = best(none)
    true = {name: best(f) - base for name, f in alone.items()}
    total = sum(true.values())
    return {name: (shown.get(name, 0.0), true[name] / total) for name in parts}


@pytest.mark.slow  # times, which other work on the machine changes
@pytest.mark.parametrize(
    "parts",
    [
        {"small": lambda x: small_ops(x, 400), "large": lambda x: x @ x},
        {"small": lambda x: small_ops(x, 40), "large": lambda x: (x @ x) @ x},
        {"small": lambda x: small_ops(x, 100), "more": lambda x: small_ops(x, 300)},
    ],
    ids=["most in small ops", "most in products", "small ops alone"],
)
def test_shown_shares_are_true(parts) -> None:
    """Within 10 points, small ops that hold the interpreter's lock among them."""
    shares = shown_and_true(parts)
    assert all(abs(shown - true) < 0.1 for shown, true in shares.values()), shares
