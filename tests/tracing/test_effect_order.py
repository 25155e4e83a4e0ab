"""The order of effects: control edges in the graph, and what happens when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from eagerflow.graph.ir import Graph
from eagerflow.graph.passes import prune
from eagerflow.runtime import Executable
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorType, as_dtype

CPU = ef.hardware.as_device("cpu:0")


def graph_of(function: Callable[..., Any]) -> Graph:
    """The graph of a function of one tensor without axes, nothing removed from it."""
    tracer = Tracer("f")
    x = tracer.add_input(TensorType(as_dtype("float32"), ()).on(CPU), "x")
    with tracer:
        result = function(x)
        tracer.graph.outputs = [] if result is None else [tracer.value_of(result)]
    return tracer.graph


def edges(graph: Graph) -> dict[str, list[str]]:
    """For each node with an effect, or with control edges, what it waits for."""
    effects = ("read", "assign", "assign_add", "print", "py_call")
    return {
        node.name: [n.name for n in node.control_inputs]
        for node in graph.nodes
        if node.control_inputs or node.op.startswith(effects)
    }


@pytest.fixture
def v() -> ef.Variable:
    return ef.Variable(0.0, name="v")


@pytest.fixture
def w() -> ef.Variable:
    return ef.Variable(0.0, name="w")


# --- one variable, two variables --------------------------------------------------------------


def test_reads_wait_for_the_write_before_them_and_not_for_each_other(v: ef.Variable) -> None:
    def function(x: Any) -> Any:
        v.assign(x)
        return v + v.value

    predecessors = edges(graph_of(function))
    (write,) = [name for name in predecessors if name.startswith("assign")]
    reads = [name for name in predecessors if name.startswith("read")]
    assert predecessors[write] == []
    assert reads
    assert all(predecessors[name] == [write] for name in reads)


def test_a_write_waits_for_all_reads_since_the_write_before(v: ef.Variable) -> None:
    def function(x: Any) -> None:
        v.assign(x)
        v + 1
        v + 2
        v.assign(x * 2)
        v.assign(x * 3)

    predecessors = edges(graph_of(function))
    first, second, third = [name for name in predecessors if name.startswith("assign")]
    reads = [name for name in predecessors if name.startswith("read")]
    assert predecessors[second] == reads
    assert predecessors[third] == [second]
    assert predecessors[first] == []


def test_two_variables_do_not_wait_for_each_other(v: ef.Variable, w: ef.Variable) -> None:
    def function(x: Any) -> None:
        v.assign(x)
        w.assign(x)
        v.assign(x)

    predecessors = edges(graph_of(function))
    assert predecessors == {"assign": [], "assign_1": [], "assign_2": ["assign"]}


def test_pure_ops_wait_for_nothing(v: ef.Variable) -> None:
    def function(x: Any) -> Any:
        v.assign(x)
        return ef.exp(x)

    assert edges(graph_of(function)) == {"assign": []}


# --- fences -----------------------------------------------------------------------------------


def test_a_fence_waits_for_all_and_all_wait_for_it(v: ef.Variable, w: ef.Variable) -> None:
    def function(x: Any) -> None:
        v.assign(x)
        w.assign(x)
        ef.print(x)
        v.assign(x)
        w.assign(x)
        ef.py_call(lambda: None, None)
        ef.print(x)

    assert edges(graph_of(function)) == {
        "assign": [], "assign_1": [], "print": ["assign", "assign_1"], "assign_2": ["print"],
        "assign_3": ["print"], "py_call": ["assign_2", "assign_3"], "print_1": ["py_call"],
    }  # fmt: skip


def test_the_first_fence_waits_for_nothing() -> None:
    assert edges(graph_of(lambda x: ef.print(x))) == {"print": []}


def test_an_unordered_fence_waits_for_nothing(v: ef.Variable) -> None:
    def function(x: Any) -> None:
        v.assign(x)
        with ef.unordered():
            ef.print(x)
            ef.print(x)
            v.assign(x)
        ef.print(x)

    assert edges(graph_of(function)) == {
        "assign": [], "print": [], "print_1": [], "assign_1": ["assign"],
        "print_2": ["assign", "assign_1"],
    }  # fmt: skip


def test_unordered_ends_with_its_block_also_after_an_error() -> None:
    def function(x: Any) -> None:
        with pytest.raises(ZeroDivisionError), ef.unordered(), ef.unordered():
            _ = 1 / 0
        ef.print(x)
        ef.print(x)

    assert edges(graph_of(function)) == {"print": [], "print_1": ["print"]}


# --- control_dependencies ---------------------------------------------------------------------


def test_nodes_wait_for_the_values_of_all_blocks_around_them(v: ef.Variable) -> None:
    def function(x: Any) -> Any:
        a, b = ef.exp(x), ef.sin(x)
        with ef.control_dependencies([a]):
            with ef.control_dependencies({"b": (b,), "x": x}):
                y = x * 2
            z = x * 3
        return y + z

    predecessors = edges(graph_of(function))
    assert [predecessors[name] for name in ("multiply", "multiply_1")] == [["exp", "sin"], ["exp"]]
    assert "add" not in predecessors


def test_control_dependencies_take_tensors_only() -> None:
    with pytest.raises(TraceError, match="takes tensors"):
        ef.control_dependencies([3])


def test_control_dependencies_do_nothing_eagerly(v: ef.Variable) -> None:
    with ef.control_dependencies([v.assign(2.0), ef.ones(2)]):
        assert (v + 1).item() == 3.0


def test_control_dependencies_end_with_their_block_also_after_an_error() -> None:
    def function(x: Any) -> Any:
        with pytest.raises(ZeroDivisionError), ef.control_dependencies([ef.exp(x)]):
            _ = 1 / 0
        return x * 2

    assert edges(graph_of(function)) == {}


# --- what the graph keeps and shows -----------------------------------------------------------


def test_the_text_says_after_what(v: ef.Variable) -> None:
    def function(x: Any) -> Any:
        ef.print(x)
        with ef.control_dependencies([ef.exp(x)]):
            return v.assign(x)

    text = str(graph_of(function))
    (line,) = [line for line in text.splitlines() if " = assign(" in line]
    assert " after &print, &exp" in line
    (node,) = [node for node in Graph.parse(text).nodes if node.op == "assign"]
    assert [n.name for n in node.control_inputs] == ["print", "exp"]


def test_prune_keeps_effects_and_what_they_need(v: ef.Variable) -> None:
    def function(x: Any) -> Any:
        v.assign(ef.exp(x))
        v + 1  # nobody needs the result
        ef.print("text")
        ef.sin(x)
        return x * 2

    graph, _ = prune(graph_of(function))
    ops = [node.op for node in graph.nodes]
    assert [op for op in ops if op in ("exp", "sin", "assign", "print", "multiply", "add")] == [
        "exp", "assign", "print", "multiply",
    ]  # fmt: skip
    (line,) = [node for node in graph.nodes if node.op == "print"]
    assert "assign" in [n.name for n in line.control_inputs]


def test_a_program_runs_effects_in_the_order_of_the_function(v: ef.Variable) -> None:
    told: list[float] = []

    def function(x: Any) -> Any:
        before = v.value
        v.assign_add(x)
        ef.py_call(lambda y: told.append(y.item()), None, v)
        v.assign_add(x)
        ef.py_call(lambda y, z: told.extend([y.item(), z.item()]), None, v, before)

    Executable(graph_of(function))(ef.tensor(2.0)._data)
    assert told == [2.0, 4.0, 0.0]


def test_a_fence_hides_no_write_from_what_does_not_wait_for_it() -> None:
    v = ef.Variable(0.0)

    @ef.trace
    def f(x: Any) -> Any:
        v.assign_add(x)
        ef.py_call(lambda t: None, None, x)
        with ef.unordered():
            return v * 1.0

    graph = f.graph(ef.tensor(1.0))
    read = next(n for n in graph.nodes if n.op == "read")
    assert [n.op for n in read.control_inputs] == ["assign_add"]
