"""Rules applied to graphs: nodes that move, nodes that stay, and undoing of rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.passes import optimise
from eagerflow.graph.verify import verify
from eagerflow.placement.apply_rules import place
from eagerflow.placement.rules import as_rules


@pytest.fixture(autouse=True)
def four_devices() -> Iterator[None]:
    with ef.config(cpu_devices=4, verify=True):
        yield


def apply(graph: Graph, given: Any, **more: Any) -> Graph:
    rules = as_rules(given, soft=False, source=None)
    assert rules is not None
    result = place(graph, rules, **more).graph
    verify(result)
    return result


TEXT = """graph f(%x: f32[2]@cpu:0) {
  %a = exp(%x) : f32[2]@cpu:0 in "a"
  %b = exp(%x) : f32[2]@cpu:0 in "b"
  %c = add(%a, %b) : f32[2]@cpu:0 in "c"
  return %c
}"""


def test_the_placed_graph_comes_from_the_other() -> None:
    graph = Graph.parse(TEXT)
    result = apply(graph, {"a": "cpu:1"})
    assert result.origin.graph is graph
    assert str(Graph.parse(TEXT)) == str(graph)  # the graph itself is unchanged
    (report,) = result.origin.reports
    assert str(report) == (
        "place: 1 change, 3 -> 5 nodes\n  %a is on cpu:1 instead of cpu:0: rule 'a'"
    )
    assert "place: 1 change" in optimise(result)[0].diff()


def test_results_come_back_unless_they_need_not() -> None:
    graph = Graph.parse(TEXT)
    assert [v.device for v in apply(graph, {"c": "cpu:1"}).outputs] == ["cpu:0"]
    assert [v.device for v in apply(graph, {"c": "cpu:1"}, returned=0).outputs] == ["cpu:1"]


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"c": None}, 1),
        ({"a": "cpu:1", "b": "cpu:1"}, 2),  # one device, by two rules
        ({"[ab]": "cpu:1"}, 1),
        ({"a": "cpu:1", "b": "cpu:2"}, 2),
        ({"a": "cpu:1"}, 2),
    ],
)
def test_passes_merge_only_what_one_rule_placed_alike(given: Any, count: int) -> None:
    graph, _ = optimise(apply(Graph.parse(TEXT), given))
    assert sum(node.op == "exp" for node in graph.nodes) == count


def test_loop_carried_values_are_not_taken_for_one_across_rules() -> None:
    def f(x: Any) -> Any:
        def body(i: Any, a: Any, b: Any) -> Any:
            with ef.name_scope("a"):
                a = ef.sin(a)
            with ef.name_scope("b"):
                b = ef.sin(b)
            return i + 1, a, b

        _, a, b = ef.while_loop(lambda i, a, b: ef.sum(a) > i, body, (0, x, x))
        return a + b

    x = ef.tensor([3.0, 4.0])
    want = f(x)
    for rules in ({"a": "cpu:1", "b": "cpu:2"}, {"a": "cpu:1", "b": "cpu:1"}, {"a": "cpu:1"}):
        g = ef.trace(f).place(rules)
        assert g(x).numpy().tobytes() == want.numpy().tobytes()
        (loop,) = [node for node in g.graph(x).nodes if node.op == "while_loop"]
        assert sum(node.op == "sin" for node in loop.attrs["body"].nodes) == 2


def test_constants_are_folded_where_they_are_placed() -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            return x * (ef.ones(2) + 2.0)

    graph = ef.trace(f).place({"a": "cpu:1"}).graph(ef.ones(2))
    placements = [(n.op, str(n.device)) for n in graph.nodes if n.op != "transfer"]
    assert placements == [("constant", "cpu:1"), ("multiply", "cpu:1")]


@pytest.mark.filterwarnings("ignore::eagerflow.errors.MoveWarning")
def test_state_stays_and_says_so() -> None:
    v = ef.Variable([1.0, 2.0], name="v")

    def step(generator: Any) -> Any:
        def f(x: Any) -> Any:
            with ef.name_scope("a"):
                y = v + x + ef.random.normal((2,), generator=generator)
                v.assign(y * 2)
            return y

        return f

    want = step(ef.random.Generator(0))(ef.ones(2)).numpy(), v.numpy()
    v.assign([1.0, 2.0])
    traced = ef.trace(step(ef.random.Generator(0))).place({"a": "cpu:1"})
    got = traced(ef.ones(2)).numpy(), v.numpy()
    assert [x.tobytes() for x in got] == [x.tobytes() for x in want]
    graph = traced.graph(ef.ones(2))
    where = {node.op: str(node.device) for node in graph.nodes}
    assert where["read"] == where["assign"] == "cpu:0"
    assert where["add"] == where["multiply"] == "cpu:1"
    (read,) = [node for node in graph.nodes if node.op == "read"]
    assert read.reason == (
        "stays where its state is: the variable 'v' on cpu:0, though rule 'a' asks for cpu:1; "
        "ef.move moves state"
    )


def test_a_rule_where_the_program_says_so_moves_nothing() -> None:
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            return ef.exp(x)

    graph = ef.trace(f).place({"a": "cpu:0"}).graph(ef.ones(2))
    assert [(n.op, n.reason) for n in graph.nodes] == [("exp", "rule 'a'")]


def test_calls_of_one_graph_are_placed_alike() -> None:
    def block(x: Any) -> Any:
        with ef.name_scope("block"):
            return ef.sin(x) * 2

    def f(x: Any) -> Any:
        return ef.call(block, ef.call(block, x))

    x = ef.tensor([1.0, 2.0])
    g = ef.trace(f).place({"block": "cpu:3"})
    assert g(x).numpy().tobytes() == f(x).numpy().tobytes()
    bodies = [body for node in g.graph(x).nodes for _, body in node.subgraphs()]
    where = {str(node.device) for body in bodies for node in body.nodes if node.op == "sin"}
    assert where == {"cpu:3"}


@pytest.mark.filterwarnings("ignore::eagerflow.errors.MoveWarning")
def test_modules_and_traced_functions_are_scopes() -> None:
    net = ef.nn.Sequential(ef.nn.Linear(2, 3), ef.nn.Linear(3, 1))
    inner = ef.trace(lambda x: ef.exp(x), name="inner")

    def f(x: Any) -> Any:
        return net(inner(x))

    x = ef.ones((4, 2))
    rules = {"Sequential/layers.0": "cpu:1", "Sequential/layers.1": "cpu:2", "inner": "cpu:3"}
    g = ef.trace(f).place(rules)
    np.testing.assert_array_equal(g(x).numpy(), f(x).numpy())
    assert {str(n.device) for n in g.graph(x).nodes if n.op == "matmul"} == {"cpu:1", "cpu:2"}
    assert {str(n.device) for n in g.graph(x).nodes if n.op == "exp"} == {"cpu:3"}
