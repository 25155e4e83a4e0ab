"""Automatic placement: decisions by the cost model, limits, and the alternatives reported."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

import eagerflow as ef
from eagerflow.errors import PlacementError
from eagerflow.graph import Graph
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.passes import optimise
from eagerflow.hardware import as_device, register_backend
from eagerflow.placement.apply_rules import place
from eagerflow.placement.automatic.cost_model import CostModel, CostTable, ObservedTimes, where
from eagerflow.placement.automatic.planning import OWN, PlacementPlan, plan
from eagerflow.placement.automatic.rates import LinkRates, MachineRates, Rates
from eagerflow.placement.automatic.requests import as_request
from eagerflow.placement.automatic.search import Problem, contiguous, improve, schedule
from eagerflow.placement.automatic.sites import site_of
from tests.fakes.timed_devices import (
    SimulatedClock,
    TimedBackend,
    define_pause,
    forget_pause,
    forget_timed,
)
from tests.messages import says
from tests.placement.automatic.random_graphs import model, random_graph, traits

FREE = LinkRates(1e-9)
SLOW = LinkRates(1.0)


@pytest.fixture(autouse=True)
def _timed() -> Iterator[None]:
    define_pause(lambda seconds: None)
    register_backend(TimedBackend(SimulatedClock()))
    yield
    forget_pause()
    forget_timed()


def wide(count: int, seconds: float = 0.1, size: int = 4) -> Graph:
    """Independent ops and the sum of their results, on one device."""
    lines = [
        f"%y{i} = pause(%x) {{seconds={seconds + i * 1e-6}, shape=({size},)}} : f32[{size}]@timed:0"
        f' in "branch{i}"'
        for i in range(count)
    ]
    lines += [
        f'%s{i} = pause(%y{i}) {{seconds=1e-6, shape=(4,)}} : f32[4]@timed:0 in "branch{i}"'
        for i in range(count)
    ]
    taken = ", ".join(f"%s{i}" for i in range(count))
    lines.append(f"%z = pause({taken}) {{seconds={seconds}, shape=(4,)}} : f32[4]@timed:0")
    return Graph.parse(f"graph wide(%x: f32[4]@timed:0) {{ {' '.join(lines)} return %z }}")


def planned(graph: Graph, costs: CostModel, memory: object = None, count: int = 4) -> PlacementPlan:
    names = [f"timed:{i}" for i in range(count)]
    return plan(graph, as_request(names, memory, None), costs, traits(), "f")


def test_parallel_parts_go_apart_where_links_are_fast() -> None:
    made = planned(wide(4), model("timed", FREE))
    assert made.chosen is not made.own
    assert made.chosen.predicted == pytest.approx(0.2, rel=0.01)
    assert made.own.predicted == pytest.approx(0.5, rel=0.01)
    assert len(set(made.choice.values())) == 4


def test_they_stay_together_where_links_are_slow() -> None:
    made = planned(wide(4), model("timed", SLOW))
    assert made.chosen is made.own
    assert made.choice == {}


def test_a_graph_without_parallelism_stays_where_it_is() -> None:
    lines = "%y0 = pause(%x) {seconds=0.1, shape=(4,)} : f32[4]@timed:0"
    for i in range(1, 6):
        lines += f" %y{i} = pause(%y{i - 1}) {{seconds=0.1, shape=(4,)}} : f32[4]@timed:0"
    graph = Graph.parse(f"graph chain(%x: f32[4]@timed:0) {{ {lines} return %y5 }}")
    made = planned(graph, model("timed", FREE))
    assert made.chosen.name == OWN


def test_a_list_schedule_is_near_the_best_of_all_assignments() -> None:
    """The best is found exhaustively, by the estimate that the search uses."""
    devices = [as_device("timed:0"), as_device("timed:1")]
    for seed in range(12):
        graph = random_graph(random.Random(seed), devices, 1e-2, most=8)
        problem = Problem(graph, devices, model("timed", LinkRates(1e-3, 1e9)), {}, {})
        every = product(*[unit.devices for unit in problem.units])
        best = min(problem.estimate(tuple(one)) for one in every)
        starts = [schedule(problem), problem.own, contiguous(problem, by_bytes=False)]
        estimate = min(improve(problem, start)[1] for start in starts)
        assert estimate.seconds <= best.seconds / 0.9


def test_a_loop_over_several_devices_can_be_gathered_where_its_results_are() -> None:
    """The loop is one unit, which the program has on no single device."""

    @ef.trace
    def f(x: ef.Tensor, n: ef.Tensor) -> ef.Tensor:
        i = n * 0
        while i < n:
            with ef.device("cpu:1"):
                x = ef.sin(x)
            with ef.device("cpu:0"):
                x = ef.cos(x)
            i = i + 1
        return x

    with ef.config(cpu_devices=2):
        graph = f.graph(ef.ones(8), ef.tensor(3))
        request = as_request(["cpu:0", "cpu:1"], None, None)
        made = plan(graph, request, CostModel(MachineRates()), traits(), "f")
        assert made.chosen.name == "all on cpu:0"
        assert made.chosen.assignment != made.own.assignment
        assert made.chosen.predicted < 0.5 * made.own.predicted
        result = optimise(place(graph, made.rules(None)).graph)[0]
        inside = [n for g in inner_graphs(result.nodes) for n in g.nodes]
        assert {n.device for n in inside if n.op in ("sin", "cos")} == {"cpu:0"}
        assert "transfer" not in {n.op for n in inside}
        made.choose(made.own.assignment)
        assert made.choice == {}


def test_local_search_never_makes_it_worse() -> None:
    devices = [as_device(f"timed:{i}") for i in range(4)]
    for seed in range(10):
        graph = random_graph(random.Random(seed), devices, 1e-2)
        problem = Problem(graph, devices, model("timed", LinkRates(1e-3, 1e9)), {}, {})
        start = schedule(problem)
        better, estimate = improve(problem, start)
        assert estimate == problem.estimate(better) <= problem.estimate(start)


def test_what_is_planned_verifies_and_keeps_results_where_they_are() -> None:
    for seed in range(4):
        devices = [as_device(f"timed:{i}") for i in range(4)]
        graph = random_graph(random.Random(seed), devices, 1e-2)
        made = planned(graph, model("timed", FREE))
        result = place(graph, made.rules(None)).graph
        assert [v.device for v in result.outputs] == [v.device for v in graph.outputs]
        where = {node.name: node.device for node in result.nodes}
        assert all(where[node.name] == device for node, device in made.choice.items())


def test_a_budget_splits_what_one_device_cannot_hold() -> None:
    graph = wide(8, size=1000)
    costs = model("timed", FREE)
    room = planned(graph, costs, memory=40_000).own.peaks[as_device("timed:0")].bytes
    assert room > 32_000
    made = planned(graph, costs, memory=room // 2 + 9_000)
    assert made.own.too_much
    assert not made.chosen.too_much
    assert all(p.bytes <= room // 2 + 9_000 for p in made.chosen.peaks.values())


def test_what_fits_nowhere_is_refused_with_the_largest_values() -> None:
    with pytest.raises(PlacementError, check=says("no placement of f fits")) as caught:
        planned(wide(2, size=1000), model("timed", FREE), memory=3_000)
    assert "4,000 bytes: f32[1000]@timed:0 &branch0/y0" in str(caught.value)
    assert "hint: compute with less at a time" in str(caught.value)


def test_observed_times_count_before_estimates() -> None:
    graph = wide(2)
    (node, *_) = graph.nodes
    device = as_device("timed:0")
    costs = CostModel(
        MachineRates({"timed": Rates(flops=4e9)}),
        observed=ObservedTimes({(site_of(node), "timed"): 7.0}),
    )
    assert costs.seconds(node, device) + costs.call(node, device) == pytest.approx(7.0)
    (row, *_) = costs.table(graph)
    assert row.predicted == pytest.approx(0.1, rel=0.01)
    assert row.measured == 7.0
    text = str(CostTable("f", costs.table(graph)))
    assert "branch0/y0  pause  timed:0" in text
    assert "one after the other: predicted " in text


def test_plans_do_not_depend_on_the_clock() -> None:
    devices = [as_device(f"timed:{i}") for i in range(4)]
    graph = random_graph(random.Random(3), devices, 1e-2)
    first, second = (planned(graph, model("timed", FREE)) for _ in range(2))
    assert [a.assignment for a in first.alternatives] == [a.assignment for a in second.alternatives]


@pytest.mark.parametrize("memory", [-1, 1.5, "1 GB", {"timed:0": None}])
def test_a_budget_is_a_number_of_bytes(memory: object) -> None:
    with pytest.raises(PlacementError, check=says("is not a number of bytes")):
        as_request(None, memory, None)


def test_there_has_to_be_a_device() -> None:
    with pytest.raises(PlacementError, check=says("there is no device to place on")):
        as_request([], None, None)
    with pytest.raises(ef.errors.DeviceError):
        as_request(["timed:9"], None, None)


def test_a_loop_over_numbers_is_where_the_ops_in_it_are() -> None:
    """No operand and no result of the loop decides its device."""
    graph = Graph.parse(
        """graph f(%n: int) {
          %y = while_loop(%n) {
            cond=graph (%i: int) {
              %z = pause() {seconds=0.1, shape=()} : f32[]@timed:1
              %p = isfinite(%z) : bool[]@timed:1
              return %p
            },
            body=graph (%i: int) { %j = python_mul(%i, %i) : int return %j }
          } : int
          return %y
        }"""
    )
    assert where(graph.nodes[0]) == "timed:1"


def _program(device: str) -> Graph:
    return Graph.parse(f"""graph f(%x: f32[n]@{device}) {{
      %y = exp(%x) : f32[n]@{device}
      %z = multiply(%y, %y) : f32[n]@{device}
      return %z }}""")


def test_sizes_that_a_call_tells_count_within_a_budget() -> None:
    request = as_request(None, 1_000, None)
    told = CostModel(MachineRates(), {"n": 1_000})
    with pytest.raises(PlacementError, check=says("cpu:0 may hold 1,000 bytes, and needs")):
        plan(_program("cpu:0"), request, told, traits(), "f")
    made = plan(_program("cpu:0"), request, CostModel(MachineRates()), traits(), "f")
    assert made.own.peaks[as_device("cpu:0")].bytes == 0  # until a call gives the sizes


def test_a_budget_holds_where_the_program_is_as_well() -> None:
    costs = CostModel(MachineRates(), {"n": 1_000})
    with ef.config(cpu_devices=2), pytest.raises(PlacementError, check=says("cpu:0 may hold 100")):
        plan(_program("cpu:0"), as_request(["cpu:1"], 100, None), costs, traits(), "f")


@pytest.mark.parametrize(("program", "named"), [("cpu:0", "null:0"), ("null:0", "cpu:0")])
def test_devices_that_can_run_nothing_are_refused(program: str, named: str) -> None:
    request = as_request([named], None, None)
    wrong = f"nothing of f can be placed on {named}: null:0 holds no values"
    with pytest.raises(PlacementError, check=says(wrong)) as caught:
        plan(_program(program), request, CostModel(MachineRates()), traits(), "f")
    assert f"got: devices=['{named}'], for &y on {program}" in str(caught.value)
