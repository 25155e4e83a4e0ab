"""The passes together: order, effects, checks, reports, changes, and the origin of a graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import GraphError
from eagerflow.graph import Graph
from eagerflow.graph.passes import DEFAULT, Report, cse, donate, optimise, prune, simplify
from tests.graph.passes.evaluate import assert_same, run

TEXT = """graph f(%x: f32[n,3]) {
  %e = exp(%x) : f32[n,3]
  %one = constant() {value=tensor(f32[], (1.0,))} : f32[]
  %two = add(%one, %one) : f32[]
  %m = multiply(%e, %one) : f32[n,3] # model.py:4
  %e_1 = exp(%x) : f32[n,3]
  %s = multiply(%e_1, %two) : f32[n,3]
  %r = add(%m, %s) : f32[n,3]
  return %r
}"""
DONE = """graph f(%x: f32[n,3]) {
  %e = exp(%x) : f32[n,3]
  %two = constant() {value=tensor(f32[], (2.0,))} : f32[]
  %s = multiply(%e, %two) : f32[n,3]
  %r = add(%e, %s) : f32[n,3]
  return %r
}"""


def test_all_passes() -> None:
    graph = Graph.parse(TEXT)
    result, reports = optimise(graph)
    assert str(result) == DONE
    assert str(graph) == TEXT
    assert [r.name for r in reports] == ["fold", "simplify", "cse", "prune"]
    assert str(graph.optimise()) == DONE
    x = ef.tensor([[1.0, -0.0, float("nan")]])
    assert_same(run(graph, [x]), run(result, [x]))


def test_the_names_of_passes_are_those_of_their_reports() -> None:
    graph = Graph.parse("graph () { return }")
    assert [p(graph)[1].name for p in DEFAULT] == [p.__name__ for p in DEFAULT]
    assert all(p(graph)[0] is graph for p in DEFAULT)
    assert optimise(graph) == (graph, [])


def test_some_passes() -> None:
    result, reports = optimise(Graph.parse(TEXT), (cse,))
    assert [r.name for r in reports] == ["cse"]
    assert len(result.nodes) == 6
    result, reports = optimise(Graph.parse(TEXT), (prune, donate))
    assert reports == []


def test_one_change_makes_room_for_another() -> None:
    text = """graph (%x: i64[2]) {
        %c = constant() {value=tensor(bool[], (True,))} : bool[]
        %n = logical_not(%c) : bool[]
        %f = constant() {value=tensor(i64[], (0,))} : i64[]
        %y = negative(%x) : i64[2]
        %z = negative(%x) : i64[2]
        %w = where(%n, %f, %y) : i64[2]
        %m = maximum(%w, %z) : i64[2]
        %r = add(%m, %f) : i64[2]
        return %r }"""
    result, _ = optimise(Graph.parse(text))
    assert str(result) == "graph(%x: i64[2]) {\n  %y = negative(%x) : i64[2]\n  return %y\n}"


def test_checked_after_each_pass() -> None:
    def breaks(graph: Graph) -> tuple[Graph, Report]:
        result = Graph.parse(str(graph))
        result.nodes.reverse()
        return result, Report("breaks", [], 2, 2)

    graph = Graph.parse("graph (%x: f32[]) { %a = exp(%x) : f32[] %b = exp(%a) : f32[] return %b }")
    assert optimise(graph, (breaks, donate))[0] is not graph
    with ef.config(verify=True), pytest.raises(GraphError, match="used and not defined above"):
        optimise(graph, (breaks,))


def test_origin_is_the_first_graph() -> None:
    graph = Graph.parse(TEXT)
    first, some = optimise(graph, (simplify,))
    second, rest = optimise(first)
    assert graph.origin is None
    assert first.origin.graph is graph
    assert second.origin.graph is graph
    assert second.origin.reports == (*some, *rest)
    assert str(second) == str(Graph.parse(str(second)))


def test_diff_of_one_pass() -> None:
    want = """simplify: 1 change, 7 -> 6 nodes
  %m = multiply is %e  # model.py:4
    %two = constant() {value=tensor(f32[], (2.0,))} : f32[]
-   %m = multiply(%e, %one) : f32[n,3] # model.py:4
    %e_1 = exp(%x) : f32[n,3]
    %s = multiply(%e_1, %two) : f32[n,3]
-   %r = add(%m, %s) : f32[n,3]
+   %r = add(%e, %s) : f32[n,3]
    return %r
  ..."""
    graph = Graph.parse(TEXT)
    assert graph.diff("simplify") == want
    assert graph.optimise().diff("simplify") == want
    assert graph.diff("donate") == "nothing changed"


def test_diff_of_all_passes() -> None:
    text = Graph.parse(TEXT).optimise().diff()
    assert text == Graph.parse(TEXT).diff()
    assert "cse: 1 change" in text
    assert "-   %e_1 = exp(%x)" in text
    assert "+   %two = constant()" in text
    assert Graph.parse(DONE).diff() == "nothing changed"
    with pytest.raises(GraphError, match="no pass 'layout'"):
        Graph.parse(TEXT).diff("layout")


def test_diff_inside_of_a_body() -> None:
    text = """graph (%x: f32[]) { %c = call(%x) {body=graph b(%a: f32[]) {
        %s = sin(%a) : f32[] %t = identity(%s) : f32[] return %t }} : f32[] return %c }"""
    assert (
        Graph.parse(text)
        .diff("simplify")
        .endswith("""in &c: %t = identity is %s
      %s = sin(%a) : f32[]
-     %t = identity(%s) : f32[]
-     return %t
+     return %s
    }} : f32[]
  ...""")
    )


OPS = ("read", "assign", "next_key", "exp", "exp", "identity", "no_such_op")


@given(st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_effects_keep_their_number_and_order(steps: list[tuple[str, int, int]]) -> None:
    graph = Graph.parse("graph (%x: f32[]) { return }")
    kind = graph.inputs[0].type
    values = list(graph.inputs)
    for op, a, b in steps:
        effects = [n for n in graph.nodes if n.op in OPS]
        before = (effects[-1 - b],) if b < len(effects) else ()
        inputs = () if op in ("read", "next_key") else (values[-1 - a % len(values)],)
        attrs = {"resource": a % 2} if op in ("read", "assign", "next_key") else {}
        values += graph.add_node(op, inputs, (kind,), attrs, control_inputs=before).outputs
    graph.outputs = values[-1:]
    result, _ = optimise(graph)

    def effects_of(graph: Graph) -> list[str]:
        return [n.name for n in graph.nodes if n.op in ("assign", "next_key", "no_such_op")]

    assert effects_of(result) == effects_of(graph)
    assert _waits(result) == {k: v for k, v in _waits(graph).items() if k in set(effects_of(graph))}


def _waits(graph: Graph) -> dict[str, set[str]]:
    """For each effect all effects that it waits for, by control edges, directly or not."""
    predecessors: dict[str, set[str]] = {}
    for node in graph.nodes:
        before = [predecessors[n.name] | {n.name} for n in node.control_inputs]
        predecessors[node.name] = set().union(*before)
    effects = {n.name for n in graph.nodes if n.op in ("assign", "next_key", "no_such_op")}
    return {k: v & effects for k, v in predecessors.items() if k in effects}
