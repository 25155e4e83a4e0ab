"""Building blocks of passes: needed nodes, copies, sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

import eagerflow as ef
from eagerflow.graph import Graph, Node
from eagerflow.graph.edit import clone, copy_node, needed, substitute_sizes
from eagerflow.graph.passes import optimise
from eagerflow.graph.verify import verify
from eagerflow.hardware import as_device
from tests.graph.graphs import graphs, small

TEXT = """graph f(%x: f32[n], %y: f32[n]) {
  %a = exp(%x) : f32[n] in "scope" # cell 1: exp
  %b = multiply(%a, %a) : f32[n]
  &p: print(%y) {text="b"} after &b
  %c = add(%b, %y) : f32[n] after &p
  %d = exp(%y) : f32[n]
  return %c
}"""


def _names(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_needed() -> None:
    graph = small(TEXT)
    assert _names(needed(graph, graph.outputs)) == ["a", "b", "p", "c"]
    assert _names(needed(graph, [graph.value("d")])) == ["d"]
    assert _names(needed(graph, graph.outputs, [graph.value("b")])) == ["p", "c"]
    assert _names(needed(graph, [graph.value("b")], [graph.value("a")])) == ["b"]
    assert needed(graph, [graph.value("b")], [graph.value("b")]) == []
    assert needed(graph, graph.inputs) == []


# --- copies ----------------------------------------------------------------------------------


@given(graphs(depth=1))
def test_a_clone_reads_the_same(graph: Graph) -> None:
    copy, values = clone(graph)
    assert str(copy) == str(graph)
    assert [values[v].name for v in graph.values()] == [v.name for v in copy.values()]
    before = str(graph)
    for node in copy.nodes:
        node.attrs["new"] = 1
    copy.inputs.clear()
    assert str(graph) == before


def test_copy_of_a_node() -> None:
    graph, result = small(TEXT), Graph()
    y = result.add_input(graph.inputs[0].type, "a")
    node = copy_node(result, graph.nodes[0], [y])
    assert str(node.outputs[0]) == "%a_1: f32[n]"
    assert (node.op, node.inputs, node.scope, node.source) == ("exp", (y,), "scope", "cell 1: exp")
    elsewhere = copy_node(result, graph.nodes[0], [y], (node,), as_device("null:0"))
    assert elsewhere.control_inputs == (node,)
    assert [str(v.device) for v in (*elsewhere.outputs, *graph.nodes[0].outputs)] == [
        "null:0", str(graph.nodes[0].device)
    ]  # fmt: skip
    elsewhere.attrs["k"] = 1
    assert graph.nodes[0].attrs == {}


def test_sizes_are_substituted_everywhere() -> None:
    text = """graph f(%x: f32[n,2], %k: int) {
  %r = reshape(%x) {shape=(2*n,), key=(slice(0, n, None), (n+1,), 3)} : f32[2*n]
  %c = call(%r) {body=graph(%y: f32[2*n]) {
    %s = op(%y) {size=n//2} : f32[n%3]
    return %s
  }} : f32[n%3]
  return %c
}"""
    graph = small(text)
    substitute_sizes(graph, {"n": 4})
    shown = text.replace("n//2", "2").replace("n%3", "1").replace("2*n", "8")
    assert str(graph) == shown.replace("n+1", "5").replace("[n,2]", "[4,2]").replace(", n,", ", 4,")
    again = small(text)
    substitute_sizes(again, {"n": ef.Dim("m") * 3})
    assert "%s = op(%y) {size=m//2+m} : f32[0]" in str(again)
    assert again.inputs[0].type.shape[1] == 2


def _chain(count: int) -> Graph:
    graph = Graph("chain")
    value = graph.add_input(ef.types.TensorType(ef.float32, (2,)))
    for _ in range(count):
        (value,) = graph.add_node("exp", (value,), (value.type,)).outputs
    graph.outputs = [value]
    return graph


@pytest.mark.parametrize("work", [clone, verify, optimise, str])
def test_long_chains_need_no_recursion(work: Callable[[Graph], object]) -> None:
    work(_chain(3000))
