"""Contents of pictures: boxes, edges, and groups that are closed where a graph is too large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.pictures.contents import Box, Contents, clip, contents_of
from eagerflow.types import TensorType
from tests.graph.graphs import graphs, small

TEXT = """graph f(%x: f32[n], %k: int) {
  %a = exp(%x) : f32[n] on "gpu:0" in "encoder/layer0" # cell 1: ef.exp(x)
  %b = sum(%a) {axis=(0,), keepdims=False} : f32[] on "gpu:0" in "encoder/layer1"
  %c = constant() {value=tensor(f32[], (2.0,))} : f32[]
  %d = multiply(%b, %c) : f32[] on "gpu:1" in "encoder"
  %r = read() {resource=@w} : f32[]
  %s = assign(%d) {resource=@w} : f32[] after &r
  &p: print(%s) {text="s"} after &s, &r
  return %s, %d
}"""
F32 = TensorType(ef.float32, (2,))


def _box(picture: Contents, first: str) -> Box:
    (box,) = [box for box in picture.boxes if box.lines[0] == first]
    return box


def _path(box: Box) -> list[str]:
    names, group = [], box.group
    while group.parent is not None:
        names.append(group.name)
        group = group.parent
    return names[::-1]


def _edges(picture: Contents) -> list[tuple[str, str, str]]:
    return sorted((e.source.lines[0], e.target.lines[0], e.kind) for e in picture.edges)


def test_boxes() -> None:
    picture = contents_of(small(TEXT))
    shown = {box.lines[0]: (box.kind, _path(box), box.device) for box in picture.boxes}
    assert shown == {
        "%x": ("input", [], None),
        "%k": ("input", [], None),
        "exp": ("op", ["gpu:0", "encoder", "layer0"], "gpu:0"),
        "sum": ("op", ["gpu:0", "encoder", "layer1"], "gpu:0"),
        "2.0": ("constant", ["gpu:1", "encoder"], None),  # beside its consumer
        "multiply": ("op", ["gpu:1", "encoder"], "gpu:1"),
        "@w": ("resource", ["gpu:1"], "gpu:1"),
        "read": ("op", [], None),
        "assign": ("op", ["gpu:1"], "gpu:1"),
        "print": ("op", ["gpu:1"], "gpu:1"),
        "result 0": ("output", [], "gpu:1"),
        "result 1": ("output", [], "gpu:1"),
    }
    assert picture.devices == ["gpu:0", "gpu:1"]
    assert _box(picture, "sum").lines == ["sum", "%b", "axis=(0,)"]
    assert "cell 1: ef.exp(x)" in _box(picture, "exp").title
    assert _box(picture, "%x").lines == ["%x", "f32[n]"]


def test_edges() -> None:
    picture = contents_of(small(TEXT))
    assert _edges(picture) == [
        ("%x", "exp", "data"),
        ("2.0", "multiply", "data"),
        ("@w", "read", "state"),
        ("assign", "@w", "state"),
        ("assign", "print", "data"),
        ("assign", "result 0", "data"),
        ("exp", "sum", "data"),
        ("multiply", "assign", "data"),
        ("multiply", "result 1", "data"),
        ("read", "assign", "control"),
        ("sum", "multiply", "data"),
    ]
    assert [e.label for e in picture.edges[:2]] == ["f32[n]", "f32[n]"]


def test_control_edges_are_drawn_where_nothing_else_says_the_order() -> None:
    text = """graph (%x: f32[]) {
      %r = read() {resource=@w} : f32[]
      %y = add(%r, %x) : f32[]
      %z = exp(%y) : f32[]
      %s = assign(%z) {resource=@w} : f32[] after &r
      &p: print(%x) {text="p"} after &s
      &q: print(%x) {text="q"} after &s, &p
      return %z
    }"""
    control = [edge for edge in _edges(contents_of(small(text))) if edge[2] == "control"]
    assert control == [("assign", "print", "control"), ("print", "print", "control")]


def test_what_is_read_and_written_has_two_boxes() -> None:
    boxes = [box for box in contents_of(small(TEXT)).boxes if box.kind == "resource"]
    assert [box.lines[0] for box in boxes] == ["@w", "@w"]


def test_a_constant_is_drawn_beside_each_box_that_takes_it() -> None:
    text = """graph (%x: f32[]) {
      %c = constant() {value=tensor(f32[], (2.0,))} : f32[]
      %d = constant() {value=tensor(f32[], (3.0,))} : f32[]
      %y = add(%x, %c) : f32[] in "a"
      %z = add(%c, %c) : f32[] in "b"
      return %y, %z
    }"""
    boxes = [box for box in contents_of(small(text)).boxes if box.kind == "constant"]
    assert sorted((box.lines[0], _path(box)) for box in boxes) == [
        ("2.0", ["a"]),
        ("2.0", ["b"]),
        ("3.0", []),
    ]


def test_resources_of_unknown_ops_have_no_direction() -> None:
    (edge,) = contents_of(small("graph () { &p: strange() {q=((@w,),)} return }")).edges
    assert edge.both


def test_a_resource_whose_users_are_closed_is_not_drawn() -> None:
    lines = [f'%r{i} = read() {{resource=@w}} : f32[] in "a"' for i in range(9)]
    picture = contents_of(small(f"graph () {{ {' '.join(lines)} return %r0 }}"), limit=1)
    assert [box.lines[:2] for box in picture.boxes] == [["a", "9 nodes"], ["result 0", "f32[]"]]


def test_many_resources_become_one_box() -> None:
    graph = Graph()
    inputs = []
    for i in range(30):
        graph.resources[f"w{i}"] = object()
        inputs += graph.add_node("read", (), (F32,), {"resource": graph.resources[f"w{i}"]}).outputs
    graph.add_node("use", inputs, (F32,), {"resources": tuple(graph.resources.values())})
    picture = contents_of(graph)
    assert len([b for b in picture.boxes if b.kind == "resource"]) == 30  # one for each consumer
    graph = Graph()
    graph.resources = {f"w{i}": object() for i in range(30)}
    graph.add_node("use", (), (F32,), {"resources": tuple(graph.resources.values())})
    (box,) = [b for b in contents_of(graph).boxes if b.kind == "resource"]
    assert box.lines == ["30 resources"]
    assert "@w29" in box.title


def test_a_resource_has_the_name_that_it_has_in_the_whole_graph() -> None:
    first, second = object(), object()
    body = Graph()
    body.resources = {"w": second}
    body.add_node("read", (), (F32,), {"resource": second})
    graph = Graph()
    graph.resources = {"w": first, "w_1": second}
    graph.add_node("call", (), (), {"body": body})
    (box,) = [b for b in contents_of(graph).boxes if b.kind == "resource"]
    assert box.lines[0] == "@w_1"


def test_many_inputs_and_outputs_become_one_box() -> None:
    graph = Graph()
    inputs = [graph.add_input(F32) for _ in range(30)]
    graph.add_node("concat", inputs, (F32,))
    graph.outputs = inputs
    picture = contents_of(graph)
    assert [box.lines[0] for box in picture.boxes] == ["30 inputs", "concat", "30 outputs"]
    assert [e.label for e in picture.edges] == ["30 values", "30 values"]


SUBGRAPHS = """graph (%p: bool[], %x: f32[]) {
  %c = cond(%p, %x) {branches=(graph yes(%y: f32[]) {
    %e = exp(%y) : f32[] in "inner"
    return %e
  }, graph(%y: f32[]) { return %y })} : f32[] in "outer"
  return %c
}"""


def test_subgraphs() -> None:
    picture = contents_of(small(SUBGRAPHS))
    assert _path(_box(picture, "exp")) == ["outer", "c", "branches[0]", "inner"]
    assert _path(_box(picture, "cond")) == ["outer", "c"]
    assert ("cond", "%y", "body") in _edges(picture)
    assert ("%y", "result 0", "data") in _edges(picture)
    closed = contents_of(small(SUBGRAPHS), limit=1)
    assert [box.lines for box in closed.boxes][2:3] == [["cond", "1 node inside"]]
    assert _path(_box(closed, "cond")) == ["outer"]


LOOP = """graph (%x: f32[], %c: f32[], %n: int) {
  %l.0, %l.1, %l.2 = while_loop(%x, %c, %n) {
    cond=graph (%y: f32[], %d: f32[], %m: int) {
      %p = less(%y, %d) : bool[]
      return %p
    }, body=graph (%y: f32[], %d: f32[], %m: int) {
      %e = multiply(%y, %d) : f32[]
      return %e, %d, %m
    }} : f32[], f32[], int
  return %l.0, %l.0
}"""


def test_an_unchanged_carry_is_not_drawn() -> None:
    picture = contents_of(small(LOOP))
    ends = [(box.lines[0], _path(box)[1:]) for box in picture.boxes if box.kind != "op"]
    assert sorted(ends) == [
        ("%c", []), ("%d", ["body"]), ("%d", ["cond"]), ("%n", []), ("%x", []), ("%y", ["body"]),
        ("%y", ["cond"]), ("result 0", []), ("result 0", ["body"]), ("result 0", ["cond"]),
        ("result 1", []),
    ]  # fmt: skip
    swapped = contents_of(small(LOOP.replace("%e, %d, %m", "%d, %y, %m")))
    inner = [b.lines[0] for b in swapped.boxes if b.kind == "output" and _path(b)[1:] == ["body"]]
    assert inner == ["result 0", "result 1"]


def test_a_branch_that_gives_back_an_argument_shows_it() -> None:
    text = SUBGRAPHS.replace("return %e", "return %y")
    assert ("%y", "result 0", "data") in _edges(contents_of(small(text)))


def test_a_body_of_two_calls_is_drawn_once() -> None:
    body = small("graph (%y: f32[2]) { %e = exp(%y) : f32[2] return %e }")
    graph = Graph()
    x = graph.add_input(F32)
    for _ in range(3):
        (x,) = graph.add_node("call", (x,), (F32,), {"body": body}).outputs
    graph.outputs = [x]
    names = [box.lines[0] for box in contents_of(graph).boxes]
    assert (names.count("call"), names.count("exp")) == (3, 1)


def _layers(layers: int, nodes: int, scope: str = "block{b}/layer{i}") -> Graph:
    graph = Graph("layers")
    x = graph.add_input(F32)
    for i in range(layers):
        for _ in range(nodes):
            where = scope.format(b=i // 10, i=i)
            (x,) = graph.add_node("exp", (x,), (F32,), scope=where).outputs
    graph.outputs = [x]
    return graph


@pytest.mark.parametrize("scope", ["block{b}/layer{i}", "layer{i}", "", "a/b/c"])
@pytest.mark.parametrize("limit", [1, 20, 300])
@pytest.mark.parametrize(("layers", "nodes"), [(3, 5), (100, 50), (2000, 1)])
def test_large_graphs_are_closed_by_scope(layers: int, nodes: int, limit: int, scope: str) -> None:
    graph = _layers(layers, nodes, scope)
    picture = contents_of(graph, limit)
    assert len(picture.boxes) <= max(limit, 2) + 2  # the input and the output
    total = sum(int(b.lines[1].split()[0].replace(",", "")) for b in picture.boxes
                if b.kind == "closed")  # fmt: skip
    assert total + sum(b.kind == "op" for b in picture.boxes) == layers * nodes
    if layers * nodes <= limit:
        assert not any(b.kind == "closed" for b in picture.boxes)


def test_what_is_about_equal_is_all_open_or_all_closed() -> None:
    picture = contents_of(_layers(100, 50), 300)
    names = {box.lines[0] for box in picture.boxes if box.kind == "closed"}
    assert names == {f"layer{i}" for i in range(100)}
    flat = contents_of(_layers(1, 5000, ""), 300)
    assert len([b for b in flat.boxes if b.kind == "closed"]) == 100
    assert flat.boxes[1].lines == ["exp … exp_49", "50 nodes", "50 exp"]


@given(graphs(depth=2), st.integers(1, 12))
def test_any_graph(graph: Graph, limit: int) -> None:
    picture = contents_of(graph, limit)
    boxes = set(picture.boxes)
    assert all(e.source in boxes and e.target in boxes for e in picture.edges)
    assert all(e.source is not e.target for e in picture.edges)
    assert all(box.group.shown() is None for box in boxes)
    assert len({id(e) for e in picture.edges}) == len(picture.edges)


def test_it_is_the_same_each_time() -> None:
    first, second = (contents_of(_layers(20, 20), 50) for _ in range(2))
    assert [b.lines for b in first.boxes] == [b.lines for b in second.boxes]
    assert _edges(first) == _edges(second)


def test_clip() -> None:
    assert clip("a\n  b") == "a b"
    assert clip("x" * 40) == "x" * 31 + "…"
