"""What passes are built from: users, needed nodes, order, copies, comparison."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import GraphError
from eagerflow.graph import Graph, Node
from eagerflow.graph.edit import (
    clone,
    computation,
    copy_node,
    find_early_use,
    needed,
    sort_nodes,
    structural_hash,
    substitute_sizes,
    users,
)
from tests.graph.graphs import RESOURCES, graphs, small

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


def test_users() -> None:
    found = {value.name: _names(nodes) for value, nodes in users(small(TEXT)).items()}
    assert found == {"x": ["a"], "a": ["b"], "y": ["p", "c", "d"], "b": ["c"]}


def test_needed() -> None:
    graph = small(TEXT)
    assert _names(needed(graph, graph.outputs)) == ["a", "b", "p", "c"]
    assert _names(needed(graph, [graph.value("d")])) == ["d"]
    assert _names(needed(graph, graph.outputs, [graph.value("b")])) == ["p", "c"]
    assert _names(needed(graph, [graph.value("b")], [graph.value("a")])) == ["b"]
    assert needed(graph, [graph.value("b")], [graph.value("b")]) == []
    assert needed(graph, graph.inputs) == []


# --- order -----------------------------------------------------------------------------------


def test_early_use_is_found() -> None:
    graph = small(TEXT)
    assert find_early_use(graph) is None
    a, b, p, c, d = graph.nodes
    graph.nodes = [b, a, p, c, d]
    assert find_early_use(graph) == (b, a)
    graph.nodes = [a, c, b, p, d]
    assert find_early_use(graph) == (c, b)
    graph.nodes = [a, p, c, d]
    with pytest.raises(GraphError, match="&p needs &b, which is not in the graph"):
        find_early_use(graph)


def test_sorting_moves_no_more_than_it_must() -> None:
    graph = small(TEXT)
    a, b, p, c, d = graph.nodes
    sort_nodes(graph)
    assert graph.nodes == [a, b, p, c, d]
    graph.nodes = [d, c, p, b, a]
    sort_nodes(graph)
    assert graph.nodes == [d, a, b, p, c]
    a.control_inputs = (c,)
    with pytest.raises(GraphError, match=r"(?s)nodes need each other.*&a, &b, &p, &c"):
        sort_nodes(graph)


@given(graphs(depth=0), st.randoms())
def test_sorting_brings_any_order_right(graph: Graph, chance: random.Random) -> None:
    nodes = list(graph.nodes)
    chance.shuffle(graph.nodes)
    sort_nodes(graph)
    assert find_early_use(graph) is None
    assert {id(n) for n in graph.nodes} == {id(n) for n in nodes}


# --- copies ----------------------------------------------------------------------------------


@given(graphs(depth=1))
def test_a_clone_reads_the_same(graph: Graph) -> None:
    copy, values = clone(graph)
    assert str(copy) == str(graph)
    assert structural_hash(copy) == structural_hash(graph)
    assert [values[v].name for v in graph.values()] == [v.name for v in copy.values()]
    before = str(graph)
    for node in copy.nodes:
        node.attrs["new"] = 1
    copy.inputs.clear()
    assert str(graph) == before


def test_clone_with_other_values() -> None:
    graph = small(TEXT)
    x, a, b = graph.value("x"), graph.value("a"), graph.value("b")
    _, values = clone(graph, replace={b: a, a: x})  # what replaces may be replaced
    assert [v.name for v in values[graph.value("c")].node.inputs] == ["x", "y"]  # type: ignore[union-attr]  # not an input
    assert [v.name for v in values[b].node.inputs] == ["x", "x"]  # type: ignore[union-attr]  # not an input
    with pytest.raises(GraphError, match="%a is replaced by itself"):
        clone(graph, replace={a: b, b: a})
    with pytest.raises(GraphError, match="%d is used, and its node was dropped or comes later"):
        clone(graph, replace={a: graph.value("d")})


def test_clone_without_some_nodes() -> None:
    graph = small(TEXT)
    copy, values = clone(graph, keep=lambda node: node.name not in ("d", "p"))
    assert _names(copy.nodes) == ["a", "b", "c"]
    assert _names(list(copy.nodes[2].control_inputs)) == ["b"]  # what p waited for
    assert graph.value("d") not in values
    with pytest.raises(GraphError, match="%a is used"):
        clone(graph, keep=lambda node: node.name != "a")


def test_clone_keeps_buffers_only_where_nothing_else_changes() -> None:
    graph = small(TEXT.replace("%b = multiply(%a, %a) : f32[n]", "%b = sin(%a) : f32[n] into %a"))
    assert [n.reuses for n in clone(graph)[0].nodes] == [None, 0, None, None, None]
    copy, _ = clone(graph, replace={graph.value("d"): graph.value("a")})
    assert [n.reuses for n in copy.nodes] == [None] * 5
    copy, _ = clone(graph, keep=lambda node: node.name != "d")
    assert [n.reuses for n in copy.nodes] == [None] * 4


def test_copy_of_a_node() -> None:
    graph, result = small(TEXT), Graph()
    y = result.add_input(graph.inputs[0].type, "a")
    node = copy_node(result, graph.nodes[0], [y], op="sin", attrs={"k": 1})
    assert str(node.outputs[0]) == "%a_1: f32[n]"
    assert (node.op, node.attrs, node.scope, node.source) == (
        "sin",
        {"k": 1},
        "scope",
        "cell 1: exp",
    )


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


# --- comparison --------------------------------------------------------------------------------


def test_hash_ignores_names_scopes_sources_and_reasons() -> None:
    base = structural_hash(small(TEXT))
    other = TEXT.replace("%a", "%first").replace("f(", "other(").replace("n]", "rows]")
    other = other.replace(' in "scope" # cell 1: exp', "").replace("&b", "&bee")
    other = other.replace("%b", "%bee")
    assert structural_hash(small(other)) == base
    placed = small(TEXT)
    placed.nodes[0].device = "cpu:0"
    hashed = structural_hash(placed)
    placed.nodes[0].reason = "only here"
    assert structural_hash(placed) == hashed != base


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exp(%x)", "sin(%x)"),
        ("exp(%x)", "exp(%y)"),
        ("(%a, %a)", "(%a, %x)"),
        (" after &p", ""),
        ("%d = exp(%y) : f32[n]", "%d = exp(%a) : f32[n] into %a"),
        ("return %c", "return %b"),
        ("return %c", "return %c, %c"),
        ('text="b"', 'text="c"'),
        ('text="b"', "text=0.0"),
        ("f32[n]", "f64[n]"),
        ("%x: f32[n]", "%x: f32[m]"),
        ("%x: f32[n]", "%x: f32[5]"),
    ],
)
def test_hash_sees_what_is_computed(old: str, new: str) -> None:
    assert structural_hash(small(TEXT.replace(old, new))) != structural_hash(small(TEXT))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1", "1.0", False),
        ("1", "True", False),
        ("0.0", "-0.0", False),
        ("nan", "nan", True),
        ("(1,)", "1", False),
        ("n", "m", False),
        ("n+n", "2*n", True),
        ("@w", "@w", True),
        ('@w, c=@"queue 1"', '@"queue 1", c=@w', False),
        ("f32", '"f32"', False),
        ("tensor(f32[1], (0.0,))", "tensor(f32[1], (-0.0,))", False),
        ("tensor(f32[1], (0.0,))", "tensor(f32[1,1], (0.0,))", False),
        ("tensor(f32[], (2.0,))", "tensor(f32[], (2.0,))", True),
    ],
)
def test_computation_compares_attributes_exactly(one: str, other: str, equal: bool) -> None:
    graph = small(f"graph (%x: f32[]) {{ &a: op(%x) {{b={one}}} &c: op(%x) {{b={other}}} return }}")
    first, second = map(computation, graph.nodes)
    assert (first == second) is equal
    assert (hash(first) == hash(second)) or not equal
    texts = [f"graph (%x: f32[]) {{ &a: op(%x) {{b={t}}} return }}" for t in (one, other)]
    hashes = {structural_hash(small(t)) for t in texts}
    # in a whole graph, resources and names of sizes count by where they occur
    assert (len(hashes) == 1) is equal or one in ("n", '@w, c=@"queue 1"')


def test_computation_tells_resources_and_bodies_apart() -> None:
    graph = Graph()
    body = Graph("body")
    for value in (object(), object(), body, Graph("body"), len, max):
        graph.add_node("op", (), (), {"r": value})
    assert len({computation(node) for node in graph.nodes}) == 6


def test_order_of_attributes_does_not_count() -> None:
    texts = [f"graph () {{ &a: op() {{{attrs}}} return }}" for attrs in ("a=1, b=2", "b=2, a=1")]
    one, other = map(small, texts)
    assert structural_hash(one) == structural_hash(other)
    assert computation(one.nodes[0]) == computation(other.nodes[0])


def test_hash_of_resources_and_bodies() -> None:
    same = "graph () { &a: op() {r=@w} &b: op() {r=@w, f=graph (%x: f32[]) { return %x }} return }"
    other = same.replace("&b: op() {r=@w", '&b: op() {r=@"queue 1"')
    renamed = Graph.parse(same.replace("@w", "@v").replace("%x", "%y"), {"v": RESOURCES["w"]})
    assert structural_hash(small(same)) == structural_hash(renamed)
    assert structural_hash(small(same)) != structural_hash(small(other))
    other_body = small(same.replace("f32[]", "f64[]"))
    assert structural_hash(small(same)) != structural_hash(other_body)


def _chain(count: int) -> Graph:
    graph = Graph("chain")
    value = graph.add_input(ef.types.TensorType(ef.float32, (2,)))
    for _ in range(count):
        (value,) = graph.add_node("exp", (value,), (value.type,)).outputs
    graph.outputs = [value]
    return graph


@pytest.mark.parametrize(
    "work", [lambda g: clone(g)[0], sort_nodes, users, structural_hash, find_early_use, str]
)
def test_long_chains_need_no_recursion(work: Callable[[Graph], object]) -> None:
    work(_chain(3000))
