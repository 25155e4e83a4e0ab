"""Nodes on a wrong device are refused; the rules for the devices in a text."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import GraphError
from eagerflow.graph import Graph
from eagerflow.graph.devices import move_operands
from eagerflow.graph.verify import verify
from tests.exploring import examples
from tests.programs.language import Program, Trait
from tests.programs.strategies import Call, graph_of, programs

DEVICES = ("cpu:0", "cpu:1", "cpu:2")


@given(programs(Trait.SMOOTH, depth=1), st.integers(0, 99), st.sampled_from(DEVICES))
@settings(max_examples=examples(12))
def test_a_node_that_is_put_elsewhere_is_refused(program: Program, which: int, device: str) -> None:
    """And mended by transfers, if its operands alone are elsewhere."""
    with ef.config(cpu_devices=3):
        graph, _, _ = graph_of(program, Call(3, 2))
        copy = Graph.parse(str(graph), graph.resources)
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


@given(
    st.sampled_from(["sin", "exp", "negative"]), st.sampled_from(DEVICES), st.sampled_from(DEVICES)
)
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
