"""Replays: every op goes through the interpreters, with the line of its node."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors, source
from eagerflow.core.interpreter import AbstractInterpreter, installed
from eagerflow.errors import GraphError
from eagerflow.graph import Graph
from eagerflow.graph.name_scopes import name_scope
from eagerflow.runtime import Executable, is_watched, replay
from eagerflow.source import Source
from tests.runtime.graphs import Traced, same

f32 = "float32"


def model(x: Any, k: Any) -> Any:
    y = ef.exp(x) * k
    return (y * x.shape[0]).sum()


class Lines(AbstractInterpreter):
    """An interpreter that records the ops bound, with their lines."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def bind(self, op: Any, inputs: Any, attrs: Any) -> Any:
        self.seen.append((op.name, str(source.capture(2))))
        return self.below.bind(op, inputs, attrs)


def test_interpreters_see_each_op_with_its_line() -> None:
    f = Traced(model, (f32, ("n",)), 2.0)
    lines = Lines()
    inputs = f.inputs([ef.ones(3), 3.0])
    with installed(lines):
        (z,) = replay(f.graph, inputs)
    assert same(z, model(ef.ones(3), 3.0))
    assert [name for name, _ in lines.seen] == ["exp", "multiply", "multiply", "sum"]
    assert [line.split(": ", 1)[1] for _, line in lines.seen] == [
        "y = ef.exp(x) * k",
        "y = ef.exp(x) * k",
        "return (y * x.shape[0]).sum()",
        "return (y * x.shape[0]).sum()",
    ]


def test_without_a_line_that_of_the_call_is_taken() -> None:
    graph = Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] # text\n return %y }")
    lines = Lines()
    with installed(lines):
        replay(graph, [ef.ones(3)])
    assert "replay(graph, [ef.ones(3)])" in lines.seen[-1][1]


def test_derivatives() -> None:
    f = Traced(model, (f32, ("n",)), 2.0)
    x = ef.tensor([0.5, 1.0])

    def ours(x: Any) -> Any:
        return replay(f.graph, f.inputs([x, 2.0]))[0]

    def eager(x: Any) -> Any:
        return model(x, 2.0)

    assert same(ef.grad(ours)(x), ef.grad(eager)(x))
    second = [ef.grad(lambda x, f=f: ef.grad(f)(x).sum())(x) for f in (ours, eager)]
    assert same(*second)
    for a, b in zip(ef.jvp(ours, (x,), (x,)), ef.jvp(eager, (x,), (x,)), strict=True):
        assert same(a, b)


def test_variables_and_tapes() -> None:
    v = ef.Variable([1.0, 2.0])
    f = Traced(lambda x: (v * x).sum(), (f32, (2,)))
    with ef.GradientTape() as tape:
        (y,) = replay(f.graph, f.inputs([ef.tensor([3.0, 4.0])]))
    assert tape.gradient(y, v).tolist() == [3.0, 4.0]


def test_in_an_outer_trace() -> None:
    inner = Traced(model, (f32, ("n",)), 2.0)

    def outer(x: Any, k: Any) -> Any:
        with name_scope("outside"):
            return replay(inner.graph, inner.inputs([x.reshape((-1,)), k * 2]))[0]

    f = Traced(outer, (f32, ("a", "b")), 1.0)
    x = ef.arange(6, dtype=ef.float32).reshape((2, 3))
    (z,) = f(x, 1.5)
    assert same(z, model(x.reshape((-1,)), 3.0))
    (exp,) = [n for n in f.graph.nodes if n.op == "exp"]
    assert str(exp.source).endswith("y = ef.exp(x) * k")
    assert exp.scope == "outside"


def test_scopes_nest() -> None:
    def inner(x: Any) -> Any:
        with name_scope("b/c"):
            return ef.exp(x)

    traced = Traced(inner, (f32, ("n",)))

    def outer(x: Any) -> Any:
        with name_scope("a"):
            return replay(traced.graph, [x])[0]

    assert Traced(outer, (f32, ("n",))).graph.nodes[0].scope == "a/b/c"


def test_constants_are_constants_of_the_outer_trace() -> None:
    graph = Graph.parse(
        "graph f(%x: f32[2]) { %c = constant() {value=tensor(f32[2], (1, 2))} : f32[2] "
        "%two = constant() {value=2} : int %y = add(%x, %c) : f32[2] return %y, %two }"
    )
    f = Traced(lambda x: replay(graph, [x])[0], (f32, (2,)))
    assert f(ef.ones(2))[0].tolist() == [2.0, 3.0]
    assert f.fresh == [True]  # made while tracing, and not read from outside
    assert replay(graph, [ef.ones(2)])[1] == 2


def test_handles_are_dropped_after_their_last_use() -> None:
    graph = Graph.parse(
        "graph f(%x: f32[n]) { %a = exp(%x) : f32[n] %b = exp(%a) : f32[n] "
        "%c = exp(%b) : f32[n] return %c }"
    )

    class Counts(AbstractInterpreter):
        def __init__(self) -> None:
            self.refs: list[Any] = []
            self.alive: list[int] = []

        def bind(self, op: Any, inputs: Any, attrs: Any) -> Any:
            self.alive.append(sum(r() is not None for r in self.refs))
            result = self.below.bind(op, inputs, attrs)
            self.refs.append(weakref.ref(result))
            return result

    counts = Counts()
    x = ef.ones(3)
    with installed(counts):
        replay(graph, [x])
    gc.collect()
    assert counts.alive == [0, 1, 1]


def test_what_cannot_be_replayed() -> None:
    graph = Graph.parse("graph f(%x: f32[]) { %y = assign(%x) {resource=@w} : f32[] return %y }")
    with pytest.raises(GraphError, match="&y refers to an object that was not given"):
        replay(graph, [ef.ones(())])
    graph = Graph.parse(
        "graph f() { %y = constant() {value=tensor(f32[99], $a)} : f32[99] return %y }"
    )
    with pytest.raises(GraphError, match="a constant of the graph was not given"):
        replay(graph, [])


def test_who_is_watched() -> None:
    assert not is_watched()
    with ef.profile():
        assert not is_watched()
    with installed(Lines()):
        assert is_watched()
    with ef.config(check_nan=True):  # executables have code for this check
        assert not is_watched()
        with ef.config(verify=True):
            assert is_watched()
    assert not is_watched()


def test_errors_have_the_line_of_the_node() -> None:
    def product(x: Any, y: Any) -> Any:
        return x @ y

    f = Traced(product, (f32, ("n",)), (f32, ("m",)))
    with pytest.raises(errors.ShapeError) as caught:
        ef.grad(lambda x: replay(f.graph, [x, ef.ones(3)])[0])(ef.ones(2))
    assert isinstance(caught.value.source, Source)
    assert caught.value.source.text == "return x @ y"


def test_programs_and_replays_agree_about_calls() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[n]) {
          %a = call(%x) {body=graph g(%y: f32[m]) {
            %s = python_size() {size=m+1} : int
            %t = python_tensor(%s) : f32[]
            %r = multiply(%y, %t) : f32[m]
            return %r }} : f32[n]
          return %a }"""
    )
    x = ef.ones(3)
    (y,) = Executable(graph)(x._data)
    assert y.tolist() == replay(graph, [x])[0].tolist() == [4.0] * 3
