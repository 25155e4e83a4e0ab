"""Scopes of nodes: a node of a derivative is in the scope of its forward node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Node
from eagerflow.runtime import replay
from eagerflow.tracing.tracer import Tracer


def _nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of its subgraphs, but for what is in no scope by its nature."""
    for one in (graph, *inner_graphs(graph.nodes)):
        yield from (node for node in one.nodes if node.op != "constant")


def _graph(f: Callable[..., Any], *args: Any) -> Graph:
    """The graph of a function as it was traced."""
    graph = ef.trace(f).graph(*args)
    return graph if graph.origin is None else graph.origin.graph


def _layers(x: Any) -> Any:
    with ef.name_scope("first"):
        x = ef.exp(x)
    with ef.name_scope("second"):
        return ef.sum(x * ef.sin(x))


def test_derivatives_are_in_the_scope_of_their_op() -> None:
    graph = _graph(ef.grad(_layers), ef.ones(3))
    made = [node for node in _nodes(graph) if node.forward is not None]
    assert {node.forward.op for node in made if node.forward} == {"exp", "sin", "multiply", "sum"}
    assert all(node.forward and node.scope == node.forward.scope for node in made)
    assert {node.scope for node in made} == {"first", "second"}
    assert [n.op for n in _nodes(graph) if n.forward is None and n.scope == "first"] == ["exp"]


def test_the_block_around_the_gradient_is_not_part_of_the_scope_twice() -> None:
    def step(x: Any) -> Any:
        with ef.name_scope("train"):
            return ef.grad(_layers)(x)

    scopes = {node.scope for node in _nodes(_graph(step, ef.ones(3)))}
    assert scopes == {"train", "train/first", "train/second"}  # the cotangent of the result is new


def test_derivatives_of_derivatives_belong_to_the_first_op() -> None:
    def twice(x: Any) -> Any:
        return ef.grad(lambda a: ef.sum(ef.grad(_layers)(a)))(x)

    graph = _graph(twice, ef.ones(3))
    made = [node for node in _nodes(graph) if node.forward is not None]
    assert all(node.forward and node.forward.forward is None for node in made)
    assert {node.scope for node in made} >= {"first", "second"}


def _loop(x: Any) -> Any:
    with ef.name_scope("loop"):

        def body(i: Any, a: Any) -> Any:
            with ef.name_scope("body"):
                return i + 1, a * ef.sin(a)

        _, x = ef.while_loop(lambda i, a: i < 3, body, (0, x))
    return ef.sum(x)


def _scan(x: Any) -> Any:
    def body(a: Any, row: Any) -> Any:
        with ef.name_scope("body"):
            return a * ef.sin(row), a

    with ef.name_scope("loop"):
        last, rows = ef.scan(body, ef.ones(()), x)
    return last + ef.sum(rows)


def _branches(x: Any) -> Any:
    def first(a: Any) -> Any:
        with ef.name_scope("body"):
            return a * ef.sin(a)

    with ef.name_scope("loop"):
        return ef.sum(ef.cond(ef.sum(x) > 0, first, ef.exp, x))


def _call(x: Any) -> Any:
    def first(a: Any) -> Any:
        with ef.name_scope("body"):
            return a * ef.sin(a)

    with ef.name_scope("loop"):
        return ef.sum(ef.call(first, x))


@pytest.mark.parametrize("f", [_loop, _scan, _branches, _call])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_subgraphs_keep_their_scopes(f: Callable[..., Any], order: int) -> None:
    def step(x: Any) -> Any:
        g = f
        for _ in range(order):
            g = (lambda h: lambda a: ef.sum(ef.grad(h)(a)))(g)
        with ef.name_scope("step"):
            return g(x)

    nodes = [*_nodes(_graph(step, ef.ones(3)))]
    assert {node.scope for node in nodes} <= {"step", "step/loop", "step/loop/body"}
    sines = [node for node in nodes if node.op in ("sin", "cos")]
    assert sines
    assert {node.scope for node in sines} == {"step/loop/body"}
    belonging = {node.forward.op for node in sines if node.forward}
    assert belonging == ({"sin"} if order else set())


def test_what_is_recomputed_belongs_to_what_it_was() -> None:
    graph = _graph(ef.grad(ef.remat(_layers)), ef.ones(3))
    again = [n for n in _nodes(graph) if n.op == "exp" and n.forward is not None]
    assert [(n.scope, n.forward and n.forward.op) for n in again] == [("first", "exp")]


def test_rules_of_users_are_in_the_scope_of_the_call() -> None:
    @ef.custom_vjp
    def f(x: Any) -> Any:
        return ef.exp(x)

    f.defvjp(lambda x: (ef.exp(x), x), lambda x, g: (ef.cos(x) * g,))

    def loss(x: Any) -> Any:
        with ef.name_scope("own"):
            y = f(x)
        return ef.sum(y)

    (node,) = [n for n in _nodes(_graph(ef.grad(loss), ef.ones(3))) if n.op == "cos"]
    assert node.scope == "own"


def test_a_graph_that_is_replayed_in_a_scope_is_within_it() -> None:
    inner = _graph(_loop, ef.ones(3))

    tracer = Tracer()
    with tracer, ef.name_scope("outer"):
        replay(inner, [tracer.add_input(ef.ones(3).type, "x")])
    assert {node.scope for node in tracer.graph.nodes} == {"outer", "outer/loop"}


def test_the_derivative_of_a_traced_function_has_its_scopes() -> None:
    f = ef.trace(_layers)
    with ef.name_scope("elsewhere"):
        ef.grad(f)(ef.ones(3))
    (entry,) = f._lookup.cache.entries()
    backward = entry._derivative.backward
    assert {node.scope for node in _nodes(backward)} == {"first", "second"}
    assert all(node.forward is not None for node in _nodes(backward))
