"""Rules: their ranks, and derivatives that follow the rules of their forward nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Node
from eagerflow.placement.rules import Rules, Wishes, as_rules


@pytest.fixture(autouse=True)
def four_devices() -> Iterator[None]:
    with ef.config(cpu_devices=4):
        yield


def rules_of(given: Any) -> Rules:
    rules = as_rules(given, soft=False, source=None)
    assert rules is not None
    return rules


def graph_of(f: Any, *args: Any) -> Graph:
    graph = ef.trace(f).graph(*args)
    return graph if graph.origin is None else graph.origin.graph


def wanted(given: Any, graph: Graph) -> dict[str, str]:
    """The devices that rules ask for, by node of a graph."""
    wishes = Wishes(rules_of(given))
    wish_by_node = {node.name: wishes.of(node) for node in graph.nodes}
    return {name: wish.target.asked for name, wish in wish_by_node.items() if wish is not None}


def layers(x: Any) -> Any:
    with ef.name_scope("a"):
        with ef.name_scope("b"):
            x = ef.exp(x)
        x = ef.sin(x)
    return ef.cos(x)


TABLE: list[tuple[dict[str, str | None], dict[str, str]]] = [
    ({"a": "cpu:1"}, {"exp": "cpu:1", "sin": "cpu:1"}),
    ({"a": "cpu:1", "a/b": "cpu:2"}, {"exp": "cpu:2", "sin": "cpu:1"}),
    ({"a/b": "cpu:2", "a": "cpu:1"}, {"exp": "cpu:2", "sin": "cpu:1"}),  # in any order
    ({"*": "cpu:3", "a/*": "cpu:1", "a/sin": "cpu:2"},
     {"exp": "cpu:1", "sin": "cpu:2", "cos": "cpu:3"}),
    ({"*": "cpu:1", "a/b": None}, {"exp": "", "sin": "cpu:1", "cos": "cpu:1"}),  # as the program
    ({"a/*": "cpu:1", "*/b": "cpu:1"}, {"exp": "cpu:1", "sin": "cpu:1"}),  # two rules in agreement
    ({"a": "cpu", "cos": "/device:CPU:2"}, {"exp": "cpu:0", "sin": "cpu:0", "cos": "cpu:2"}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "want"), TABLE)
def test_the_most_specific_pattern_counts(given: Any, want: dict[str, str]) -> None:
    assert wanted(given, graph_of(layers, ef.ones(2))) == want


def test_a_function_is_asked_once_for_each_op() -> None:
    asked: list[Node] = []

    def rule(node: Node) -> str | None:
        asked.append(node)
        return "cpu:1" if node.op == "exp" else None

    f = ef.trace(lambda x: ef.grad(lambda y: ef.sum(layers(y)))(x)).place(rule)
    graph = f.graph(ef.ones(2))
    assert [node.op for node in asked] == ["exp", "sin", "cos", "sum", "full"]
    assert {str(node.device) for node in asked} == {"cpu:0"}  # by the program
    assert {n.forward.op for n in graph.nodes if n.forward and n.device == "cpu:1"} == {"exp"}


def test_derivatives_follow_the_rule_of_their_op() -> None:
    def step(x: Any) -> Any:
        return ef.grad(lambda y: ef.sum(layers(y)))(x)

    rules = {"a/b/exp": "cpu:1", "**/sin": "cpu:2", "cos*": "cpu:3"}  # names of forward nodes
    graph = ef.trace(step).place(rules).graph(ef.ones(2))
    devices_by_op: dict[str, set[str]] = {}
    for node in graph.nodes:
        if node.forward is not None:
            devices_by_op.setdefault(node.forward.op, set()).add(str(node.device))
    assert devices_by_op == {"exp": {"cpu:1"}, "sin": {"cpu:2"}, "cos": {"cpu:3"}}


def _loop(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        with ef.name_scope("body"):
            return i + 1, ef.sin(a) * a

    return ef.sum(ef.while_loop(lambda i, a: i < 3, body, (0, x))[1])


def _scan(x: Any) -> Any:
    def body(a: Any, row: Any) -> Any:
        with ef.name_scope("body"):
            return ef.sin(a) * row, a

    last, rows = ef.scan(body, ef.ones(()), x)
    return last + ef.sum(rows)


def _branch(x: Any) -> Any:
    def first(a: Any) -> Any:
        with ef.name_scope("body"):
            return ef.sin(a) * a

    return ef.sum(ef.cond(ef.sum(x) > 0, first, lambda a: a + 1, x))


def _call(x: Any) -> Any:
    def first(a: Any) -> Any:
        with ef.name_scope("body"):
            return ef.sin(a) * a

    return ef.sum(ef.call(first, x))


@pytest.mark.parametrize("f", [_loop, _scan, _branch, _call])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("inside", [True, False])
def test_derivatives_of_what_has_subgraphs_follow_too(f: Any, order: int, inside: bool) -> None:
    def nth(g: Any) -> Any:
        for _ in range(order):
            g = (lambda h: ef.grad(lambda a: ef.sum(h(a))))(g)
        return g

    x = ef.tensor([0.5, 1.5, -0.5])
    want = nth(ef.trace(f))(x) if not inside else ef.trace(nth(f))(x)
    traced = ef.trace(nth(f)) if inside else ef.trace(f)
    traced.place({"body": "cpu:2"})
    got = traced(x) if inside else nth(traced)(x)
    assert got.numpy().tobytes() == want.numpy().tobytes()
    assert got.device == "cpu:0"
    (entry,) = traced._lookup.cache.entries()
    if inside or order == 1:
        graphs = [one.graph for one in entry.executables()]
        every = [n for g in graphs for one in (g, *inner_graphs(g.nodes)) for n in one.nodes]
        made = {(n.op, str(n.device)) for n in every if n.op in ("sin", "cos", "multiply")}
        assert made == {(op, "cpu:2") for op in ("sin", "cos", "multiply")}


def test_rules_are_the_same_if_they_say_the_same() -> None:
    a, b = {"a": "cpu:1"}, {"a": ef.hardware.as_device("/device:CPU:1")}
    assert rules_of(a).is_same(rules_of(b))
    assert not rules_of(a).is_same(rules_of({"a": "cpu:2"}))
    assert not rules_of(a).is_same(as_rules(a, soft=True, source=None))
    assert not rules_of(a).is_same(None)
    assert rules_of(len).is_same(rules_of(len))
    assert not rules_of(len).is_same(rules_of(abs))
    assert as_rules({}, soft=False, source=None) is None
    assert as_rules(None, soft=False, source=None) is None


def test_rules_are_shown_with_their_line() -> None:
    f = ef.trace(layers).place({"a": "cpu:1", "a/b": None})
    f(ef.ones(2))
    text = str(f._lookup.placer.rules)
    assert text.startswith("'a': cpu:1, 'a/b': None at ")
    assert text.endswith('f = ef.trace(layers).place({"a": "cpu:1", "a/b": None})')
