"""Calls of NumPy in a trace have NumPy's bits in every tier, whatever library is in force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import find_op, portable_form
from eagerflow.graph import Graph
from eagerflow.runtime import replay
from eagerflow.runtime.generated.codegen import generate
from eagerflow.runtime.generated.instructions import flatten
from eagerflow.runtime.generated.native_kernels import NativeProgram
from tests.kernels.native.compiling import needs_compiler
from tests.runtime.graphs import by_scheduler, straight

#: large enough that the last bits of the libraries differ in some elements
B = np.random.default_rng(0).normal(size=(300, 40)).astype(np.float32)


def by_numpy(b: Any) -> Any:
    x = np.tanh(np.exp(b) * 0.5) + np.sin(b)
    return x / x.sum(0), x.std(), np.maximum(x, 0).max(1)


def traced(b: np.ndarray) -> Graph:
    return ef.trace(by_numpy).graph(b)


def bits(results: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in results]


def ops_of(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes}


def test_what_a_graph_shows() -> None:
    graph = traced(B)
    marked = {op for op in ops_of(graph) if op.startswith("portable_")}
    names = ("exp", "tanh", "sin", "sum", "std", "maximum", "max")
    assert marked == {f"portable_{name}" for name in names}
    assert ops_of(Graph.parse(str(graph))) == ops_of(graph)


@pytest.mark.parametrize(
    "function",
    [
        lambda b: b.T[::2] + 1, np.sqrt, np.floor, lambda b: (b > 0).sum(), lambda b: b.argmax(),
        lambda b: np.sin(b.astype(np.float64)), lambda b: b.astype(np.int32).max(),
    ],
)  # fmt: skip
def test_no_mark_where_the_kernel_is_the_same(function: Any) -> None:
    graph = ef.trace(lambda b: function(b)).graph(B)
    assert not [op for op in ops_of(graph) if op.startswith("portable_")]


def test_ops_of_eagerflow_stay_what_they_are() -> None:
    x = ef.asarray(B)
    f = ef.trace(lambda b, x: (ef.exp(b), np.exp(b), ef.exp(x)))
    for _ in range(2):
        ours, numpys, other = f(B, x)
        assert bits([ours, other, numpys]) == bits([ef.exp(x), ef.exp(x), np.exp(B)])


def test_generated_and_scheduled_and_replayed() -> None:
    graph, want = traced(B), bits(by_numpy(B))
    x = ef.asarray(B)
    for run in (straight(graph).apply, by_scheduler(graph).apply):
        assert bits(run([x])) == want
    assert bits(replay(graph, [x])) == want
    assert bits(graph.run(graph.outputs, {"b": x})) == want
    assert bits(graph.optimise().run(graph.optimise().outputs, {"b": x})) == want


@needs_compiler
def test_no_native_kernel_takes_one() -> None:
    graph = ef.trace(lambda b, x: (np.exp(b) * 2 + 1, ef.exp(x) * 2 + 1)).graph(B, ef.asarray(B))
    instructions = flatten(graph)
    native = NativeProgram(instructions)
    inside = {line.node.op for _, lines in native.kernels for line in lines if line.node}
    assert "portable_exp" not in inside
    assert "exp" in inside
    (why,) = [why for node, why in native.alone if node.op == "portable_exp"]
    assert why == "it is a call of NumPy's"
    got = generate("f", instructions, native=native).run(B, B)
    assert np.asarray(got[0]).tobytes() == (np.exp(B) * 2 + 1).tobytes()


@pytest.mark.parametrize("compile", ["now", "background"])
def test_compiled(compile: Any) -> None:
    f = ef.trace(by_numpy, compile=compile)
    want = bits(by_numpy(B))
    for _ in range(8):
        assert bits(f(B)) == want
    f.wait()
    assert bits(f(B)) == want


def test_on_two_devices() -> None:
    def f(b: Any) -> Any:
        y = np.exp(b)
        with ef.device("cpu:1"):
            x = ef.asarray(y) * 1
        return x, np.tanh(y)

    with ef.config(cpu_devices=2):
        assert bits(ef.trace(f)(B)) == bits((np.exp(B), np.tanh(np.exp(B))))


def test_long_columns() -> None:
    """The sum that eager code has adds them by blocks."""
    b = np.random.default_rng(0).normal(size=(5000, 7)).astype(np.float32)
    f = ef.trace(lambda b: (b.sum(0), b.std(0), b.mean(0)))
    assert bits(f(b)) == bits((b.sum(0), b.std(0), b.mean(0)))


def test_branches_and_loops() -> None:
    def f(b: Any, n: Any) -> Any:
        y = np.exp(b)
        for _ in range(n):
            y = np.tanh(y)
        return y

    assert bits([ef.trace(f)(B, 3)]) == bits([f(B, 3)])


def test_derivatives_and_batches() -> None:
    x = ef.asarray(B[0])
    form = ef.Graph.parse("graph (%x: f32[n]@cpu:0) { %y = portable_exp(%x) : f32[n] return %y }")

    def f(x: Any) -> Any:
        return replay(form, [x])[0]

    assert bits([f(x)]) == bits([np.exp(B[0])])
    assert bits([ef.grad(lambda x: f(x).sum())(x)]) == bits([np.exp(B[0])])
    assert bits([ef.vmap(f)(ef.asarray(B))]) == bits([np.exp(B)])


def test_forms_are_made_once_and_follow_the_op() -> None:
    exp = find_op("exp")
    assert exp is not None
    form = portable_form(exp)
    assert form is find_op("portable_exp")
    assert form.is_portable
    assert not exp.is_portable
    assert form.resolved is not exp.resolved
    assert form.vjp is exp.vjp
    assert find_op("portable_nothing") is None
    assert find_op("portable_assign") is None
