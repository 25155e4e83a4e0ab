"""Sites distinguish the ops of a program, whichever passes have changed its graph."""

from __future__ import annotations

from typing import Any

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.lowering import lower
from eagerflow.graph.passes import optimise
from eagerflow.placement.automatic.cost_model import CostModel, ObservedTimes
from eagerflow.placement.automatic.rates import MachineRates, Rates
from eagerflow.placement.automatic.sites import site_of

DEVICE = ef.hardware.as_device("cpu:0")


def looped(x: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, ef.exp(y * 0.5)

    return ef.while_loop(lambda i, y: i < n, body, (ef.tensor(0), ef.exp(x) * 2.0))[1]


def graph_of() -> Graph:
    return optimise(ef.trace(looped).graph(ef.ones(4), ef.tensor(3)))[0]


def test_an_op_in_a_loop_is_at_the_same_site_when_it_is_lowered() -> None:
    graph = graph_of()
    inside = [n for g in inner_graphs(graph.nodes) for n in g.nodes]
    flat = lower(graph, lambda node: False)
    names = {site_of(n): n.name for n in flat.nodes}
    assert [n.name for n in inside if n.op == "exp"] == ["exp"]
    assert [names[site_of(n)] for n in inside if n.op == "exp"] == ["exp_1"]
    outside = [n for n in graph.nodes if n.op == "exp"]
    assert [names[site_of(n)] for n in outside] == ["exp"]


def test_types_and_lines_tell_sites_apart() -> None:
    def f(x: Any, y: Any) -> Any:
        a = ef.exp(x * 2.0)
        return a, [ef.exp(v) for v in (x, y, x + 1.0)]

    graph = ef.trace(f).graph(ef.ones(3), ef.ones(5))
    sites = [site_of(n) for n in graph.nodes if n.op == "exp"]
    assert len(sites) == 4
    assert sites[1] == sites[3]  # one line, one type
    assert len(set(sites)) == 3


def test_a_loop_costs_what_its_iterations_do() -> None:
    graph = graph_of()
    (loop,) = [n for n in graph.nodes if n.op == "while_loop"]
    rates = MachineRates({"cpu": Rates(bytes=1e18, flops=1e18, matrix=1e18, call=1e-3)})
    per_iteration = 4e-3  # less, multiply, exp, add
    guessed, learned = (
        CostModel(rates, observed=ObservedTimes(iterations=known))
        for known in ({}, {site_of(loop): 3})
    )
    assert round(guessed.seconds(loop, DEVICE) / per_iteration) == 100
    assert round(learned.seconds(loop, DEVICE) / per_iteration) == 3
    assert learned.measured(loop, DEVICE) is None
    inside = [n for g in inner_graphs([loop]) for n in g.nodes]
    seen = ObservedTimes({(site_of(n), "cpu"): 2.0 for n in inside}, {}, {site_of(loop): 3})
    assert CostModel(rates, observed=seen).measured(loop, DEVICE) == 3 * 4 * 2.0
