"""`prune` drops nodes without uses, but none with an effect."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.passes import prune
from tests.graph.passes.evaluate import changed, unchanged


def test_unused_nodes_go_inputs_stay() -> None:
    report = changed(
        prune,
        """graph f(%x: f32[n], %y: f32[n]) {
            %a = exp(%x) : f32[n]
            %b = sin(%a) : f32[n]  # line 3
            %c = cos(%x) : f32[n]
            return %c }""",
        "graph f(%x: f32[n], %y: f32[n]) { %c = cos(%x) : f32[n] return %c }",
    )
    assert str(report) == (
        "prune: 2 changes, 3 -> 1 nodes\n"
        "  dropped %a = exp, which is not needed\n"
        "  dropped %b = sin, which is not needed  # line 3"
    )


def test_writes_and_fences_stay_with_what_they_take() -> None:
    unchanged(
        prune,
        """graph f(%x: f32[]) {
            %e = exp(%x) : f32[]
            %a = assign(%e) {resource=@w} : f32[]
            &p: no_such_op(%x)
            %k = next_key() {resource=@g} : u64[2]
            return }""",
    )


def test_unused_reads_go_and_writes_wait_for_what_they_waited_for() -> None:
    changed(
        prune,
        """graph f(%x: f32[]) {
            %a = assign(%x) {resource=@w} : f32[]
            %r = read() {resource=@w} : f32[] after &a
            %b = assign(%x) {resource=@w} : f32[] after &r
            return %a }""",
        """graph f(%x: f32[]) {
            %a = assign(%x) {resource=@w} : f32[]
            %b = assign(%x) {resource=@w} : f32[] after &a
            return %a }""",
    )


def test_read_in_use_stays() -> None:
    unchanged(prune, "graph () { %r = read() {resource=@w} : f32[] return %r }")


def test_one_of_several_outputs_keeps_the_node() -> None:
    unchanged(
        prune,
        """graph (%x: f32[4]) {
            %s.0, %s.1 = split(%x) {sizes=(1, 3), axis=0} : f32[1], f32[3]
            return %s.1 }""",
    )


def test_subgraphs() -> None:
    body = "graph b(%a: f32[]) {{ {}%s = sin(%a) : f32[] return %s }}"
    report = changed(
        prune,
        "graph (%x: f32[]) { %c = call(%x) {body=" + body.format("%u = exp(%a) : f32[] ")
        + "} : f32[] return %c }",
        "graph (%x: f32[]) { %c = call(%x) {body=" + body.format("") + "} : f32[] return %c }",
    )  # fmt: skip
    assert report.changes[0].text == "in &c: dropped %u = exp, which is not needed"


def test_unused_calls_stay_if_they_have_an_effect() -> None:
    body = "graph (%a: f32[]) {{ {} return %a }}"
    text = "graph (%x: f32[]) {{ %c = call(%x) {{body=" + body + "}} : f32[] return }}"
    changed(prune, text.format(""), "graph (%x: f32[]) { return }")
    unchanged(prune, text.format("%w = assign(%a) {resource=@w} : f32[]"))


def test_names_sources_scopes_and_placement_are_kept() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[n]) {
            %a = exp(%x) : f32[n]
            %c = cos(%x) : f32[n] on "cpu:0" because "asked" in "layer" # model.py:3
            return %c }"""
    )
    result, _ = prune(graph)
    assert str(result.nodes[0].source) == "model.py:3"
    line = '%c = cos(%x) : f32[n]@cpu:0 on "cpu:0" because "asked" in "layer" # model.py:3'
    assert line in str(result)
    assert result.name == "f"


def test_the_argument_shares_nothing_that_changes() -> None:
    graph = Graph.parse("graph (%x: f32[]) { %a = exp(%x) : f32[] %b = sin(%x) : f32[] return %b }")
    result, _ = prune(graph)
    assert not set(graph.nodes) & set(result.nodes)
    assert not set(graph.values()) & set(result.values())
    assert result.nodes[0].attrs is not graph.nodes[1].attrs
    assert ef.Graph.parse(str(result)).nodes[0].name == "b"


@pytest.mark.parametrize(
    "node",
    [
        'zeros() {shape=(k + 1,), dtype=f32, device=device("cpu:0")} : f32[k+1]@cpu:0',
        "python_size() {size=2*k} : int",
        "call(%x) {body=graph (%y: f32[n]) { %s = python_size() {size=k} : int return %s }} : int",
    ],
)
def test_what_says_a_size_that_depends_on_data_stays(node: str) -> None:
    text = f"""graph (%x: f32[n]) {{
        %i = nonzero(%x) : i64[k]
        %t = take(%x, %i) {{axis=0}} : f32[k]
        %r = {node}
        return %r }}"""
    changed(prune, text, text.replace("%t = take(%x, %i) {axis=0} : f32[k]", ""))
