"""Leeway of scopes, which rules decide: patterns of devices, and colocation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import PlacementWarning
from eagerflow.graph.ir import Graph, Node
from eagerflow.placement.apply_rules import place
from eagerflow.placement.rules import as_rules
from tests.placement.kinds import small_devices

X = ef.ones((4, 2))
LARGE = ef.ones((8, 4))
Step = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def four_devices() -> Iterator[None]:
    with ef.config(cpu_devices=4):
        yield


def first(x: Any) -> Any:
    with ef.name_scope("first"):
        return ef.exp(x)


def in_scope(name: str | None) -> Step:
    def f(x: Any) -> Any:
        hidden = first(x)
        with ef.device(name):
            return ef.sin(hidden) * ef.cos(hidden) + x

    return f


def beside(x: Any) -> Any:
    hidden = first(x)
    with ef.colocate(hidden):
        return ef.sin(x) * 2


def devices(f: Any, *args: Any) -> dict[str, str]:
    """The device of each op that is in the graph once."""
    graph = f.graph(*args)
    inner = [n for node in graph.nodes for _, g in node.subgraphs() for n in g.nodes]
    return {n.op: str(n.device) for n in [*graph.nodes, *inner] if n.op != "transfer"}


def reasons(f: Any, *args: Any) -> dict[str, str]:
    return {node.op: node.reason for node in f.graph(*args).nodes}


# --- patterns -----------------------------------------------------------------------------------


def test_in_a_pattern_ops_follow_their_operands() -> None:
    f = ef.trace(in_scope("cpu:*"))
    want = f(X)
    there = reasons(f, X)["sin"]
    assert there.startswith("where its operands are, as the scope cpu:* leaves it open: %exp on")
    f.place({"first": "cpu:2"})
    assert f(X).device == want.device == "cpu:0"
    assert np.array_equal(f(X).numpy(), want.numpy())
    assert {op: d for op, d in devices(f, X).items() if op != "constant"} == dict.fromkeys(
        ("exp", "sin", "cos", "multiply", "add"), "cpu:2"
    )
    assert reasons(f, X)["sin"] == ("follows &exp, as the scope cpu:* leaves it open: rule 'first'")
    assert reasons(f, X)["add"].startswith("follows &multiply, as the scope cpu:*")
    crossing = [c.bytes for c in f.explain("placement").crossings]
    assert crossing == [32, 32]  # x, and the result


@pytest.mark.parametrize("scope", [None, "cpu:0"])
def test_elsewhere_they_stay_where_the_program_says(scope: str | None) -> None:
    f = ef.trace(in_scope(scope)).place({"first": "cpu:2"})
    f(X)
    assert devices(f, X)["sin"] == "cpu:0"


def test_a_pattern_takes_no_other_kind() -> None:
    f = ef.trace(in_scope("cpu:*")).place({"first": "async:0"})
    assert np.array_equal(f(X).numpy(), in_scope(None)(X).numpy())
    assert (devices(f, X)["exp"], devices(f, X)["sin"]) == ("async:0", "cpu:0")


def test_a_rule_of_its_own_comes_first() -> None:
    f = ef.trace(in_scope("cpu:*")).place({"first": "cpu:2", "multiply": "cpu:3", "cos": None})
    f(X)
    there = devices(f, X)
    assert [there[op] for op in ("sin", "cos", "multiply", "add")] == [
        "cpu:2", "cpu:0", "cpu:3", "cpu:3",
    ]  # fmt: skip


def test_the_operand_decides_that_decided_before() -> None:
    def f(x: Any, y: Any) -> Any:
        hidden = first(y)
        with ef.device("cpu:*"):
            return x.to("cpu:1") + hidden

    g = ef.trace(f).place({"first": "cpu:2"})
    g(X, X)
    assert devices(g, X, X)["add"] == "cpu:1"


def test_state_leads_nowhere() -> None:
    v = ef.Variable(X)

    def f() -> Any:
        with ef.name_scope("first"):
            hidden = v.value
        with ef.device("cpu:*"):
            return ef.sin(hidden)

    g = ef.trace(f).place({"first": "cpu:1"})
    with pytest.raises(ef.errors.PlacementError, match="state alone"):
        g()
    g = ef.trace(f).place(lambda node: "cpu:1" if node.op == "read" else None)
    g()
    assert devices(g)["sin"] == "cpu:0"


# --- colocation ---------------------------------------------------------------------------------


def test_what_is_colocated_with_a_value_follows_it() -> None:
    f = ef.trace(beside)
    want = f(X)
    assert reasons(f, X)["sin"] == "colocated with %exp"
    f.place({"first": "cpu:1"})
    assert np.array_equal(f(X).numpy(), want.numpy())
    assert f(X).device == "cpu:0"
    assert (devices(f, X)["sin"], devices(f, X)["multiply"]) == ("cpu:1", "cpu:1")
    assert reasons(f, X)["sin"] == "colocated with &exp: rule 'first'"


def test_in_branches_and_bodies() -> None:
    def f(x: Any) -> Any:
        hidden = first(x)
        with ef.colocate(hidden):
            while ef.sum(x) < 100:
                x = ef.sinh(x)
        return x

    g = ef.trace(f)
    want = g(X)
    g.place({"first": "cpu:1"})
    assert np.array_equal(g(X).numpy(), want.numpy())
    assert devices(g, X)["sinh"] == "cpu:1"


# --- both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [in_scope("cpu:*"), beside])
@pytest.mark.parametrize("traced", [False, True])
def test_derivatives_follow_as_their_ops_do(f: Step, traced: bool) -> None:
    def loss(x: Any) -> Any:
        return ef.sum(f(x) * first(x))

    if traced:
        gradient: Any = ef.trace(ef.grad(loss)).place({"**/first": "cpu:3", "first": "cpu:3"})
        assert devices(gradient, X)["cos"] == "cpu:3"
    else:
        gradient = ef.grad(ef.trace(loss).place({"first": "cpu:3"}))
    assert np.array_equal(gradient(X).numpy(), ef.grad(loss)(X).numpy())


def test_they_stay_where_they_cannot_run_and_nothing_is_said() -> None:
    def f(x: Any) -> Any:
        small = first(x[:1, :1])
        with ef.colocate(small):
            y = ef.sin(x)
            return y, small, ef.cos(small)

    with small_devices():
        g = ef.trace(f).place({"first": "small:0"})
        assert np.array_equal(g(LARGE)[0].numpy(), ef.sin(LARGE).numpy())
        places = devices(g, LARGE)
        assert [places[op] for op in ("exp", "sin", "cos")] == ["small:0", "cpu:0", "small:0"]


def test_they_stay_with_what_falls_back() -> None:
    with small_devices(), ef.config(soft_placement=True):
        f = ef.trace(beside).place({"first": "small:0"})
        with pytest.warns(PlacementWarning, match="stays on cpu:0") as told:
            f(LARGE)
        assert len(told) == 1
        assert set(devices(f, LARGE).values()) == {"cpu:0"}


def test_a_function_is_asked_once_for_each_op_all_the_same() -> None:
    asked: list[Node] = []

    def rule(node: Node) -> str | None:
        asked.append(node)
        return "cpu:1" if node.op == "exp" else None

    ef.trace(in_scope("cpu:*")).place(rule)(X)
    assert len(asked) == len({*asked})


def test_passes_do_not_merge_what_is_free_with_what_is_not() -> None:
    def f(x: Any) -> Any:
        with ef.device("cpu:*"):
            y = ef.exp(x)
        return y + ef.exp(x)

    g = ef.trace(f)
    g(X)
    assert [n.op for n in g.graph(X).nodes] == ["exp", "exp", "add"]


def test_a_graph_says_patterns() -> None:
    f = ef.trace(in_scope("cpu:*"))
    text = str(f.graph(X))
    assert text.count('within "cpu:*"') == 4
    again = Graph.parse(text)
    assert str(again) == text
    rules = as_rules({"first": "cpu:2"}, soft=False, source=None)
    assert rules is not None
    placed = place(again, rules).graph
    assert {str(n.device) for n in placed.nodes if n.op == "sin"} == {"cpu:2"}


@pytest.mark.parametrize("pattern", ["3", "gpu one", ""])
def test_a_text_with_a_wrong_pattern_is_refused(pattern: str) -> None:
    text = f'graph f(%x: f32[2]) {{ %y = exp(%x) : f32[2] within "{pattern}" return %y }}'
    with pytest.raises(ef.errors.GraphError, match="kind:index"):
        Graph.parse(text)


def test_long_ways_are_followed() -> None:
    nodes = "".join(f'%x{i + 1} = exp(%x{i}) : f32[2] within "cpu:*"\n' for i in range(5000))
    graph = Graph.parse(
        f"graph f(%x: f32[2]@cpu:0) {{ %x0 = sin(%x) : f32[2] {nodes} return %x5000 }}"
    )
    rules = as_rules({"x0": "cpu:1"}, soft=False, source=None)
    assert rules is not None
    backwards = as_rules(
        lambda node: "cpu:1" if node.op == "sin" else None, soft=False, source=None
    )
    assert backwards is not None
    for one in (rules, backwards):
        placed = place(graph, one).graph
        assert {str(n.device) for n in placed.nodes if n.op == "exp"} == {"cpu:1"}
