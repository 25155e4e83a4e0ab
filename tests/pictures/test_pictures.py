"""Pictures in DOT and SVG: well formed for any graph, with Graphviz and without."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.pictures import by_graphviz
from eagerflow.pictures.by_own_layout import draw
from eagerflow.pictures.contents import contents_of
from eagerflow.pictures.layout import lay_out
from eagerflow.pictures.svg import mimebundle
from tests.exploring import examples
from tests.graph.graphs import graphs, small

SVG = "{http://www.w3.org/2000/svg}"
TEXT = r"""graph f(%"<b> & \"c\" \\n": f32[n], %k: int) {
  %a = exp(%"<b> & \"c\" \\n") : f32[n] on "gpu:0" in "<i>scope</i>\\N/layer0" # f.py: "x" < & > \l
  %b = sum(%a) {axis=(0,), keepdims=False} : f32[] on "gpu:1" in "encoder"
  %c = constant() {value=tensor(f32[], (2.0,))} : f32[]
  %r = read() {resource=@w} : f32[]
  %s = assign(%b) {resource=@w} : f32[] after &r
  %d = cond(%b, %s) {branches=(graph (%y: f32[]) { return %y }, graph (%y: f32[]) {
    %z = exp(%y) : f32[]
    return %z
  })} : f32[]
  &p: "<table>"(%s) {text="\"\n日本語\u0000\ud800 &amp; </text>"} after &s, &r
  return %s, %d
}"""


@pytest.fixture(params=["graphviz", "own"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both layout engines; pygraphviz is a test dependency, ``dot`` is not."""
    if request.param == "own":
        monkeypatch.setattr(by_graphviz, "_command", lambda: None)
    by_graphviz._drawn.cache_clear()
    return str(request.param)


def _texts(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ET.fromstring(svg).iter(f"{SVG}text")]


def _titles(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ET.fromstring(svg).iter(f"{SVG}title")]


def _classes(svg: str) -> list[str]:
    return [e.get("class", "") for e in ET.fromstring(svg).iter(f"{SVG}g")]


@pytest.mark.usefixtures("engine")
def test_texts_and_titles() -> None:
    svg = small(TEXT).to_svg()
    texts = " ".join(_texts(svg))
    for expected in (
        '%<b> & "c" \\n', "f32[n]", "exp", "axis=(0,)", "2.0", "@w", "result 1",
        "<table>", "日本語", "&amp;…", "gpu:1", "cond", "branches[1]",
    ):  # fmt: skip
        assert expected in texts
    assert "<i>scope<" in texts
    assert "\0" not in svg
    titles = _titles(svg)
    assert any('f.py: "x" < & > \\l' in title for title in titles)
    assert not any(re.fullmatch(r"b\d+(->b\d+)?|cluster\d+|", title) for title in titles)


@pytest.mark.usefixtures("engine")
def test_resources_are_named_as_users_know_them() -> None:
    queue, mutex, v = ef.Queue(1, ef.tensor(0.0), name="q"), ef.Mutex(), ef.Variable(1.0, name="v")

    @ef.trace
    def f() -> Any:
        with mutex:
            return queue.dequeue() + v + ef.random.normal(())

    texts = _texts(draw(contents_of(f.graph())))
    assert {"@q", "fifo queue", "@v", "f32[]", "mutex", "generator"} <= set(texts)


def test_style() -> None:
    svg = small(TEXT).to_svg()
    root = ET.fromstring(svg)
    assert root.get("class") == "ef-graph"
    assert "prefers-color-scheme: dark" in svg
    assert "<a " not in svg
    assert " id=" not in svg  # ids of two pictures in one notebook would clash
    classes = _classes(svg)
    for kind, count in {
        "node op": 7, "node input": 4, "node output": 4, "node constant": 1, "node resource": 2,
        "edge data": 11, "edge control": 1, "edge state": 2, "edge body": 2,
    }.items():  # fmt: skip
        assert classes.count(kind) == count, kind


def test_graphviz_is_used(engine: str) -> None:
    assert ("cluster" in small(TEXT).to_svg()) is (engine == "graphviz")


def test_dot_is_read_by_graphviz() -> None:
    drawn = by_graphviz.graphviz_svg(small(TEXT).to_dot())
    assert drawn is not None
    assert drawn.count('class="cluster') == 9


@given(graphs(depth=1))
def test_any_graph_without_graphviz(graph: Graph) -> None:
    picture = contents_of(graph)
    svg = draw(picture)
    classes = _classes(svg)
    assert len([c for c in classes if c.startswith("node ")]) == len(picture.boxes)
    assert len([c for c in classes if c.startswith("edge ")]) == len(picture.edges)
    assert by_graphviz.write_dot(picture) == by_graphviz.write_dot(contents_of(graph))


@pytest.mark.slow
@given(graphs(depth=1))
@settings(max_examples=examples(30))  # each example starts a process
def test_any_graph_by_graphviz(graph: Graph) -> None:
    picture = contents_of(graph)
    with patch.object(by_graphviz, "_SECONDS", 600):  # the machine may be busy
        ET.fromstring(graph.to_svg())
        drawn = by_graphviz.graphviz_svg(by_graphviz.write_dot(picture))
    assert drawn is not None
    assert drawn.count('class="node') == len(picture.boxes)


# --- no Graphviz, or one that fails --------------------------------------------------------------


@pytest.fixture(autouse=True)
def _fresh() -> None:
    by_graphviz._drawn.cache_clear()


@pytest.mark.parametrize(
    "command",
    [
        None,
        ["/nowhere/dot"],
        [sys.executable, "-c", "import sys; sys.exit(1)"],
        [sys.executable, "-c", "import os; os.abort()"],
        [sys.executable, "-c", "print('no picture')"],
        [sys.executable, "-c", "import time; time.sleep(60)"],
    ],
)
def test_own_drawing_where_graphviz_fails(
    command: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_graphviz, "_command", lambda: command)
    monkeypatch.setattr(by_graphviz, "_SECONDS", 0.3)
    graph = small(TEXT)
    assert graph.to_svg() == draw(contents_of(graph))


def test_the_program_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\necho '<svg x=\"1\"></svg>'\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program) if name == "dot" else None)
    assert small(TEXT).to_svg().startswith('<svg class="ef-graph" x="1">')
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(by_graphviz, "find_spec", lambda name: None)
    by_graphviz._drawn.cache_clear()
    assert "cluster" not in small(TEXT).to_svg()


def test_a_picture_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    run = subprocess.run

    def count(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return run(*args, **kwargs)

    monkeypatch.setattr(subprocess, "run", count)
    for _ in range(3):
        small(TEXT).to_svg()
    assert len(calls) == 1


def test_a_layout_that_took_too_long_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(by_graphviz, "_command", lambda: command)
    monkeypatch.setattr(by_graphviz, "_SECONDS", 0.01)
    assert by_graphviz.graphviz_svg("digraph {}") is None
    command[2] = "print('<svg></svg>')"
    monkeypatch.setattr(by_graphviz, "_SECONDS", 60)
    assert by_graphviz.graphviz_svg("digraph {}") == "<svg></svg>\n"


# --- notebooks ------------------------------------------------------------------------------------


def _chain(count: int) -> Graph:
    graph = Graph("chain")
    value = graph.add_input(ef.types.TensorType(ef.float32, (2,)))
    for _ in range(count):
        (value,) = graph.add_node("exp", (value,), (value.type,)).outputs
    graph.outputs = [value]
    return graph


def _drawing(html: str) -> str:
    """The picture in a notebook's output, without the minimum width that it has there."""
    start, end = html.index("<svg "), html.rindex("</div>")
    return re.sub('<svg style="min-width: [^"]*" ', "<svg ", html[start:end])


@pytest.mark.usefixtures("engine")
def test_notebooks_get_text_and_picture() -> None:
    graph = small(TEXT)
    bundle = graph._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/plain"] == str(graph)
    ET.fromstring(bundle["image/svg+xml"])
    assert _drawing(bundle["text/html"]) == bundle["image/svg+xml"]


def test_a_picture_shows_itself() -> None:
    picture = small(TEXT).to_svg(limit=2)
    bundle = picture._repr_mimebundle_()
    assert bundle["image/svg+xml"] == picture
    assert _drawing(bundle["text/html"]) == picture
    assert bundle["text/plain"] == repr(picture) == f"<svg of {len(picture):,} characters>"
    assert type(bundle["image/svg+xml"]) is str


@pytest.mark.usefixtures("engine")
def test_a_picture_is_never_too_small_to_read() -> None:
    html = _chain(3).to_svg()._repr_mimebundle_()["text/html"]
    ((least, unit, width, same),) = re.findall(
        r'<svg style="min-width: (\d+)(p[tx])" .*?\bwidth="([\d.]+)([a-z]*)"', html
    )
    assert int(least) == round(0.75 * float(width))
    assert unit == (same or "px")


def test_outputs_that_nobody_trusts_show_no_heap_of_words() -> None:
    """JupyterLab drops drawings and styles from untrusted outputs; classes and `hidden` stay."""
    html = small(TEXT).to_svg()._repr_mimebundle_()["text/html"]
    cleaned = re.sub("<style>.*?</style>", "", html, flags=re.DOTALL)
    cleaned = re.sub("</?(?!p|div)[a-z]+[^>]*>", "", cleaned)
    note, box = re.fullmatch(
        '<p class="[^"]*">(.*?)</p>(<div .*>.*</div>)', cleaned, re.DOTALL
    ).groups()
    assert note == "The picture appears when this cell is run."
    assert re.match('<div class="ef-[0-9a-f]{8}" hidden="hidden" ', box)
    (shown,) = re.findall(
        r"<style>(\.ef-[0-9a-f]{8})\[hidden\] { display: block !important; }", html
    )
    assert f'class="{shown[1:]}"' in box


def test_long_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_graphviz, "_command", lambda: None)
    lines = mimebundle(_chain(1000))["text/plain"].split("\n")
    assert len(lines) == 201
    assert lines[0].startswith("graph chain(")
    assert lines[190] == "  … 803 more lines: print(graph) shows all"
    assert lines[-2:] == ["  return %exp_999", "}"]


# --- the layout ------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(0, 60), st.randoms(use_true_random=False))
def test_layout_has_no_overlaps(boxes: int, edges: int, chance: random.Random) -> None:
    sizes = [(chance.uniform(10, 200), chance.uniform(10, 60)) for _ in range(boxes)]
    ends = [(chance.randrange(boxes), chance.randrange(boxes)) for _ in range(edges)]
    ends = [(a, b) for a, b in ends if a != b]
    layout = lay_out(sizes, ends)
    for (size, (x, y)), (other, (x2, y2)) in pairwise(
        sorted(zip(sizes, layout.centers, strict=True), key=lambda item: item[1][::-1])
    ):
        apart = abs(x - x2) - (size[0] + other[0]) / 2
        above = abs(y - y2) - (size[1] + other[1]) / 2
        assert apart > 17.9 or above > 39.9
    for (width, height), (x, y) in zip(sizes, layout.centers, strict=True):
        assert width / 2 - 0.1 <= x <= layout.width - width / 2 + 0.1
        assert height / 2 - 0.1 <= y <= layout.height - height / 2 + 0.1
    for (a, b), path in zip(ends, layout.paths, strict=True):
        down = a < b
        for box, (x, y), side in (
            (a, path[0], 1 if down else -1),
            (b, path[-1], -1 if down else 1),
        ):
            assert abs(x - layout.centers[box][0]) < 0.1
            assert abs(y - layout.centers[box][1] - side * sizes[box][1] / 2) < 0.1
        assert all((y2 - y1) * (1 if down else -1) > -0.1 for (_, y1), (_, y2) in pairwise(path))


def test_layout_of_a_chain_is_straight() -> None:
    layout = lay_out([(50.0, 20.0)] * 4, [(0, 1), (1, 2), (2, 3)])
    assert [x for x, _ in layout.centers] == [25.0] * 4
    assert [y for _, y in layout.centers] == [10.0, 70.0, 130.0, 190.0]
    assert lay_out([], []).width == 0.0


def test_layout_uncrosses() -> None:
    """Two chains whose inputs are in the wrong order."""
    layout = lay_out([(50.0, 20.0)] * 4, [(0, 3), (1, 2)])
    (a, _), (b, _), (c, _), (d, _) = layout.centers
    assert (a < b) is (d < c)


@pytest.mark.parametrize("work", [lambda g: g.to_dot(), lambda g: draw(contents_of(g))])
def test_ten_thousand_nodes(work: Callable[[Graph], str]) -> None:
    assert len(work(_chain(10_000))) < 200_000
