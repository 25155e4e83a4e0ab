"""Random graphs over three devices: text, checks and runs agree on where each value is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import GraphError
from eagerflow.graph import Graph
from eagerflow.graph.devices import move_operands
from eagerflow.graph.verify import verify

DEVICES = ("cpu:0", "cpu:1", "cpu:2")
UNARY = ("sin", "exp", "tanh", "negative", "square")
BINARY = ("add", "multiply", "maximum", "subtract")
#: which op, the places of its operands counted from the end, and a device
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*UNARY, *BINARY, "constant", "zeros", "split", "print", "cond"]),
        st.integers(0, 5), st.integers(0, 5), st.sampled_from(DEVICES), st.booleans(),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def moved(x: Any, device: str, explicit: bool) -> Any:
    """``x`` on a device: by a transfer, if it has to be moved or one is asked for."""
    return x.to(device) if explicit or x.device != device else x


def program(x: Any, y: Any, steps: Sequence[Any]) -> list[Any]:
    """What the steps compute, eagerly or in a trace; operands are moved where a step runs."""
    values = [x, y]
    for op, a, b, device, explicit in steps:
        first, second = values[-1 - a % len(values)], values[-1 - b % len(values)]
        first, second = (moved(v, device, explicit) for v in (first, second))
        if op in UNARY:
            values.append(getattr(ef, op)(first))
        elif op in BINARY:
            values.append(getattr(ef, op)(first, second))
        elif op == "constant":
            values.append(first + ef.tensor([0.5, 1.5, -0.5], dtype=ef.float64, device=device))
        elif op == "zeros":
            values.append(ef.zeros(3, dtype=ef.float64, device=device) - first)
        elif op == "split":
            parts = ef.split(first, 3)
            values.append(ef.concat([parts[2], parts[0], parts[1]]))
        elif op == "print":
            ef.py_call(lambda v: None, None, first)
        else:  # the predicate is on another device than the operands
            test = (values[0].sum() > 0).to(DEVICES[a % 3])
            values.append(ef.cond(test, lambda u=first, v=second: u * v, lambda u=first: ef.cos(u)))
    return values[2:]


@given(STEPS, st.sampled_from(DEVICES), st.sampled_from(DEVICES))
def test_text_checks_and_runs_agree(steps: Sequence[Any], one: str, two: str) -> None:
    with ef.config(cpu_devices=3):
        x = ef.tensor([0.1, -0.2, 0.3], dtype=ef.float64, device=one)
        y = ef.tensor([1.5, 0.5, -1.0], dtype=ef.float64, device=two)
        eager = program(x, y, steps)
        traced = ef.trace(lambda x, y: program(x, y, steps))
        _same(traced(x, y), eager)
        graph = traced.graph(x, y)
        assert [str(v.device) for v in graph.outputs] == [str(v.device) for v in eager]
        again = Graph.parse(str(graph), graph.resources)
        for each in (graph, graph.optimise(), again):
            verify(each)
        assert str(again) == str(graph)
        assert _places(again) == _places(graph)
        _same(again.run(again.outputs, dict(zip(again.inputs, _taken(again, x, y), strict=True))),
              eager)  # fmt: skip


@given(STEPS, st.integers(0, 99), st.sampled_from(DEVICES))
def test_a_node_that_is_put_elsewhere_is_refused(
    steps: Sequence[Any], which: int, device: str
) -> None:
    """And mended by transfers, if its operands alone are elsewhere."""
    with ef.config(cpu_devices=3):
        x = ef.tensor([0.1, -0.2, 0.3], dtype=ef.float64)
        graph = ef.trace(lambda x: program(x, x * 2, steps)).graph(x)
        text = str(graph)
        copy = Graph.parse(text, graph.resources)
        nodes = [n for n in copy.nodes if n.device is not None and n.inputs and n.op != "transfer"]
        assume(nodes)
        node = nodes[which % len(nodes)]
        assume(node.device != device)
        node.device = ef.hardware.as_device(device)
        with pytest.raises(GraphError, match=r"on cpu:\d") as caught:
            verify(copy)
        assert f"&{node.name}" in str(caught.value)
        assert "hint: " in str(caught.value)
        count = move_operands(copy)
        assert count >= 1
        assert {v.device for v in node.inputs} == {node.device}


@given(st.sampled_from(UNARY), st.sampled_from(DEVICES), st.sampled_from(DEVICES))
def test_on_wins_and_operands_decide_the_rest(op: str, one: str, two: str) -> None:
    with ef.config(cpu_devices=3):
        said = f"graph (%x: f64[3]@{one}) {{ %y = {op}(%x) : f64[3]@{two} return %y }}"
        assert str(Graph.parse(said).outputs[0].device) == two
        placed = said.replace(" return", f' on "{one}" return')
        assert str(Graph.parse(placed).outputs[0].device) == one
        verify(Graph.parse(placed))
        bare = said.replace(f"@{two} return", " return")
        assert str(Graph.parse(bare).outputs[0].device) == one
        verify(Graph.parse(bare))
        if one != two:
            with pytest.raises(GraphError, match=f"is on {two}, and its operand %x on {one}"):
                verify(Graph.parse(said))


def _taken(graph: Graph, x: Any, y: Any) -> list[Any]:
    """The arguments that a graph takes."""
    return [{"x": x, "y": y}[v.name] for v in graph.inputs]


def _places(graph: Graph) -> list[tuple[str, str, str]]:
    found = [(v.name, str(v.device), "") for v in graph.values()]
    return found + [(n.name, str(n.device), n.op) for n in graph.nodes]


def _same(got: Sequence[Any], want: Sequence[Any]) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.type == b.type
        assert a.numpy().tobytes() == b.numpy().tobytes()
