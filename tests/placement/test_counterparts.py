"""A derivative is placed by the nodes of the trace, whatever the names of its own nodes are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import eagerflow as ef
from eagerflow.function.derivative import Derivative
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Graph, Node
from eagerflow.hardware import as_device
from eagerflow.placement.automatic.planning import Alternative, PlacementPlan

X = ef.ones(3)


@pytest.fixture(autouse=True)
def _three_devices() -> Iterator[None]:
    with ef.config(cpu_devices=3):
        yield


def act(x: ef.Tensor) -> ef.Tensor:
    return ef.exp(x)


def in_a_loop_and_outside(x: ef.Tensor) -> ef.Tensor:
    """Both calls of `act` make a node with one name, one line and one type."""
    y = act(x)
    return ef.while_loop(lambda c: c.sum() < 30, lambda c: act(c), y).sum()


def after_a_lost_one(x: ef.Tensor) -> ef.Tensor:
    ef.exp(x)
    y = ef.exp(x * 0.5)
    return ef.exp(y).sum()


def inside(graph: Graph) -> list[Node]:
    return [n for one in inner_graphs(graph.nodes) for n in one.nodes]


def derived(graph: Graph, choice: dict[Node, str]) -> Derivative:
    """The derivative with some nodes of the trace placed, as automatic placement does."""
    devices = {node: as_device(name) for node, name in choice.items()}
    chosen = Alternative("by hand", (), 0.0)
    made = PlacementPlan([chosen], chosen, chosen, [], devices, lambda assignment: devices)
    return Derivative(graph, made.rules(None))


def test_nodes_of_one_name_in_and_around_a_loop_are_told_apart() -> None:
    graph = ef.trace(in_a_loop_and_outside).graph(X)
    (outer,) = [n for n in graph.nodes if n.op == "exp"]
    (inner,) = [n for n in inside(graph) if n.op == "exp"]
    assert (outer.name, outer.source, outer.scope) == (inner.name, inner.source, inner.scope)
    made = derived(graph, {outer: "cpu:1", inner: "cpu:2"})
    assert [str(n.device) for n in made.forward.nodes if n.op == "exp"] == ["cpu:1"]
    assert [str(n.device) for n in inside(made.forward) if n.op == "exp"] == ["cpu:2"]
    around = [n for n in made.backward.nodes if n.forward is not None and n.forward.op == "exp"]
    within = [n for n in inside(made.backward) if n.forward is not None and n.forward.op == "exp"]
    assert {str(n.device) for n in around} == {"cpu:1"}
    assert {str(n.device) for n in within} == {"cpu:2"}


def test_nodes_are_not_known_by_their_numbers() -> None:
    """A node that a graph has lost takes its number along; the derivative's count starts anew."""
    graph = ef.trace(after_a_lost_one).graph(X)
    first, second = [n for n in graph.nodes if n.op == "exp"]
    made = derived(graph, {first: "cpu:1", second: "cpu:2"})
    exps = [n for n in made.forward.nodes if n.op == "exp"]
    assert [n.name for n in exps] != [first.name, second.name]
    assert [str(n.device) for n in exps] == ["cpu:1", "cpu:2"]
    products = [n for n in made.backward.nodes if n.forward is not None and n.forward.op == "exp"]
    assert [str(n.device) for n in products] == ["cpu:2", "cpu:1"]


def test_nodes_that_nothing_takes_are_left_out() -> None:
    """The original trace has unused nodes, all on one line; its derivative has none."""

    def f(x: ef.Tensor) -> ef.Tensor:
        act(x)
        return act(act(x)).sum()

    traced = ef.trace(f)
    traced(X)
    graph = traced.latest().graph
    _, first, second = [n for n in graph.nodes if n.op == "exp"]
    made = derived(graph, {first: "cpu:1", second: "cpu:2"})
    exps = [str(n.device) for n in made.forward.nodes if n.op == "exp"]
    assert exps == ["cpu:1", "cpu:2"]
