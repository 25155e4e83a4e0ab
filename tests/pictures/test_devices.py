"""Pictures of graphs over several devices: placement of nodes, and bytes that cross."""

from __future__ import annotations

import json
import re

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.pictures.by_graphviz import write_dot
from eagerflow.pictures.by_own_layout import draw
from eagerflow.pictures.contents import Contents, contents_of, size_text
from eagerflow.pictures.device_colors import device_color
from tests.source_tree import ROOT

ONE = """graph f(%x: f32[8,4]@cpu:0, %n: f32[n]@cpu:0) {
  %m = transfer(%x) {device=device("null:0"), source=device("cpu:0")} : f32[8,4]@null:0 # a.py:1: to
  %y = exp(%m) : f32[8,4]@null:0
  %k = transfer(%n) {device=device("null:0"), source=device("cpu:0")} : f32[n]@null:0
  %l = exp(%k) : f32[n]@null:0
  %b = transfer(%y) {device=device("cpu:0"), source=device("null:0")} : f32[8,4]@cpu:0
  return %b, %l
}"""
SEVERAL = """graph f(%x: f32[8,4]@cpu:0) {
  %m = transfer(%x) {device=device("null:0"), source=device("cpu:0")} : f32[8,4]@null:0 in "a"
  %y = exp(%m) : f32[8,4]@null:0 in "a"
  %z = add(%m, %y) : f32[8,4]@null:0 in "a"
  return %z
}"""


def _edges(picture: Contents) -> list[tuple[str, str, str, bool]]:
    return [(e.source.lines[0], e.target.lines[0], e.label, bool(e.moved)) for e in picture.edges]


def test_a_value_that_one_node_needs_is_an_edge_with_its_bytes() -> None:
    picture = contents_of(Graph.parse(ONE))
    assert _edges(picture) == [
        ("%x", "exp", "f32[8,4], 128 B", True),
        ("%n", "exp", "f32[n]", True),  # unknown at this time
        ("exp", "result 0", "f32[8,4], 128 B", True),
        ("exp", "result 1", "f32[n]", False),
    ]
    assert picture.edges[0].title == "f32[8,4], 128 B\ncpu:0 to null:0"
    assert {box.lines[0]: box.device for box in picture.boxes} == {
        "%x": "cpu:0", "%n": "cpu:0", "exp": "null:0", "result 0": "cpu:0", "result 1": "null:0",
    }  # fmt: skip


def test_a_value_that_several_nodes_need_crosses_once() -> None:
    picture = contents_of(Graph.parse(SEVERAL))
    assert _edges(picture) == [
        ("%x", "from cpu:0", "f32[8,4], 128 B", True),
        ("from cpu:0", "exp", "f32[8,4]", False),
        ("from cpu:0", "add", "f32[8,4]", False),
        ("exp", "add", "f32[8,4]", False),
        ("add", "result 0", "f32[8,4]", False),
    ]
    (arrival,) = [box for box in picture.boxes if box.lines == ["from cpu:0"]]
    assert (arrival.device, arrival.group.name) == ("null:0", "a")


def test_a_closed_group_with_what_arrives_has_the_device_of_the_others() -> None:
    picture = contents_of(Graph.parse(SEVERAL), limit=1)
    (closed,) = [box for box in picture.boxes if box.kind == "closed"]
    assert closed.device == "null:0"


def test_on_one_device_nothing_is_said_of_devices() -> None:
    graph = Graph.parse("graph (%x: f32[2]@cpu:0) { %y = exp(%x) : f32[2]@cpu:0 return %y }")
    picture = contents_of(graph)
    assert picture.devices == []
    assert [(e.label, bool(e.moved)) for e in picture.edges] == [("f32[2]", False)] * 2


@pytest.mark.parametrize("render", [write_dot, draw])
def test_crossing_edges_are_thick_and_labelled_however_many_there_are(render) -> None:
    lines = [
        f'%m{i} = transfer(%x) {{device=device("null:{i}"), source=device("cpu:0")}}'
        f" : f32[8,4]@null:{i}\n  %y{i} = exp(%m{i}) : f32[8,4]@null:{i}"
        for i in range(1, 200)
    ]
    results = ", ".join(f"%y{i}" for i in range(1, 200))
    text = f"graph f(%x: f32[8,4]@cpu:0) {{\n{chr(10).join(lines)}\nreturn {results} }}"
    drawn = str(render(contents_of(Graph.parse(text), 1000)))
    assert drawn.count("128 B") >= 199
    thick = re.findall(r"penwidth=2|stroke-width=\"2\"", drawn)
    assert len(thick) >= 199


def test_what_rules_place_has_the_colours_of_its_devices() -> None:
    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        with ef.name_scope("a"):
            y = ef.exp(x)
        return ef.sin(y)

    with ef.config(cpu_devices=2):
        graph = f.place({"a": "cpu:1"}).graph(ef.ones((8, 4)))
        dot = graph.to_dot()
    (exp,) = [line for line in dot.splitlines() if "label=exp " in line]
    (sin,) = [line for line in dot.splitlines() if "label=sin " in line]
    assert device_color("cpu:1") in exp
    assert device_color("cpu:0") in sin
    assert dot.count("128 B") == 4  # both directions, each as label and as tooltip


def test_devices_have_the_colours_that_live_views_give_them() -> None:
    """`widgets/tests/colours.test.ts` compares the front-end with the same file."""
    colours = json.loads((ROOT / "tests" / "golden" / "device_colors.json").read_text())
    assert {device: device_color(device) for device in colours} == colours


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (4096, "4.1 kB"), (2_500_000, "2.5 MB"), (10**10, "10 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


def test_a_send_leads_to_its_recv() -> None:
    picture = contents_of(
        Graph.parse("""graph f(%x: f32[8,4]@cpu:0) {
      &s: Send(%x) {edge="x -> null:0", to=device("null:0")} on "cpu:0"
      %r = Recv() {edge="x -> null:0", source=device("cpu:0")} : f32[8,4]@null:0
      &t: Send(%x) {edge="x -> null:0 (shape)", to=device("null:0"), shape=True} on "cpu:0"
      %u = Recv() {edge="x -> null:0 (shape)", source=device("cpu:0")} : f32[8,4]@null:0
      &v: Send() {edge="s -> null:0 (signal)", to=device("null:0")} after &s on "cpu:0"
      &w: Recv() {edge="s -> null:0 (signal)", source=device("cpu:0")} on "null:0"
      %y = add(%r, %u) : f32[8,4]@null:0 after &w
      return %y
    }""")
    )
    crossing = [
        e for e in picture.edges if (e.source.lines[0], e.target.lines[0]) == ("Send", "Recv")
    ]
    assert [(e.label, e.kind) for e in crossing] == [
        ("f32[8,4], 128 B", "data"), ("f32[8,4]", "data"), ("", "control"),
    ]  # fmt: skip


def test_a_partition_alone_has_no_edges_from_elsewhere() -> None:
    picture = contents_of(
        Graph.parse("""graph f() {
      %r = Recv() {edge="x -> null:0", source=device("cpu:0")} : f32[8,4]@null:0
      return %r
    }""")
    )
    assert [(e.source.lines[0], e.label) for e in picture.edges] == [("Recv", "f32[8,4]")]
