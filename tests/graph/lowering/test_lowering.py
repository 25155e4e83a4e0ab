"""Lowering: the nodes that steer tokens, their types, and names of sizes."""

from __future__ import annotations

from typing import Any

import pytest

from eagerflow import errors
from eagerflow.graph import Graph
from eagerflow.graph.lowering import is_whole, lower
from eagerflow.graph.verify import verify
from eagerflow.resources.generator import GeneratorState

KEY = '{resource=@g, device=device("cpu:0")} : u64[2]@cpu:0'


def lowered(text: str, **resources: Any) -> str:
    """The text of the lowered graph, which is well formed and reads back as it is."""
    graph = Graph.parse(text, resources)
    before = str(graph)
    result = lower(graph, lambda node: False)
    assert str(graph) == before
    verify(result)
    assert str(Graph.parse(str(result), resources)) == str(result)
    return str(result)


def test_a_branch() -> None:
    text = """graph f(%p: bool[]@cpu:0, %x: f32[2]@cpu:0) {
      %y = cond(%p, %x) {branches=(
        graph yes(%x: f32[2]@cpu:0) { %y = exp(%x) : f32[2]@cpu:0 return %y },
        graph no(%x: f32[2]@cpu:0) { return %x })} : f32[2]@cpu:0
      return %y }"""
    assert (
        lowered(text)
        == """graph f(%p: bool[]@cpu:0, %x: f32[2]@cpu:0) {
  %switch.0, %switch.1 = Switch(%p, %p) : bool[]@cpu:0, bool[]@cpu:0
  %switch_1.0, %switch_1.1 = Switch(%x, %p) : f32[2]@cpu:0, f32[2]@cpu:0
  %y = exp(%switch_1.0) : f32[2]@cpu:0
  %merge = Merge(%y, %switch_1.1) : f32[2]@cpu:0
  return %merge
}"""
    )


def test_effects_in_a_branch_wait_for_it_and_are_waited_for() -> None:
    text = f"""graph f(%p: bool[]@cpu:0) {{
      %a = next_key() {KEY}
      %b = cond(%p) {{branches=(
        graph yes() {{ %c = next_key() {KEY} return %c }},
        graph no() {{ %c = zeros() {{shape=(2,), dtype=u64, device=device("cpu:0")}} : u64[2]@cpu:0
          return %c }})}} : u64[2]@cpu:0 after &a
      %d = next_key() {KEY} after &b
      return %a, %b, %d }}"""
    lines = [line.strip() for line in lowered(text, g=GeneratorState(1)).splitlines()]
    assert "%switch.0, %switch.1 = Switch(%p, %p) : bool[]@cpu:0, bool[]@cpu:0 after &a" in lines
    assert f"%c = next_key() {KEY} after &pivot" in lines
    assert "%end = Identity(%switch.0) : bool[]@cpu:0 after &c" in lines
    assert "%end_2 = Merge(%end, %end_1) : bool[]@cpu:0" in lines
    assert f"%d = next_key() {KEY} after &merge, &end_2" in lines


def test_a_loop_with_effects_carries_its_iteration() -> None:
    text = f"""graph f(%x: u64[2]@cpu:0) {{
      %y = while_loop(%x) {{
        cond=graph (%x: u64[2]@cpu:0) {{ %p = any(%x) {{axis=(0,), keepdims=False}} : bool[]@cpu:0
          return %p }},
        body=graph (%x: u64[2]@cpu:0) {{ %k = next_key() {KEY} return %k }},
        parallel_iterations=3}} : u64[2]@cpu:0
      return %y }}"""
    lines = [line.strip() for line in lowered(text, g=GeneratorState(1)).splitlines()]
    assert '%merge_1 = Merge(%enter_1) {back="next_1"} : int' in lines
    assert f"%k = next_key() {KEY} after &pivot" in lines
    assert "%python_add = python_add(%switch_1.0, %iteration_1) : int after &k" in lines
    assert "&next_1: NextIteration(%python_add)" in lines
    assert all("parallel_iterations=3" in line for line in lines if "Enter" in line)


def test_names_of_sizes() -> None:
    """The size n of a body is m outside; a size that iterations change has a name of its own."""
    text = """graph f(%x: f32[m]@cpu:0) {
      %y.0, %y.1 = while_loop(%x, %x) {
        cond=graph (%a: f32[n]@cpu:0, %b: f32[k]@cpu:0) {
          %p = all(%a) {axis=(0,), keepdims=False} : bool[]@cpu:0 return %p },
        body=graph (%a: f32[n]@cpu:0, %b: f32[k]@cpu:0) {
          %z = zeros() {shape=(n,), dtype=f32, device=device("cpu:0")} : f32[n]@cpu:0
          %c = concat(%b, %a) {axis=0} : f32[k+n]@cpu:0
          return %z, %c }} : f32[m]@cpu:0, f32[end]@cpu:0
      return %y.1 }"""
    lowered_text = lowered(text)
    assert "shape=(m,)" in lowered_text
    assert "f32[k+m]@cpu:0" in lowered_text
    assert "Exit(%switch_1.1) : f32[end]@cpu:0" in lowered_text


def test_sizes_in_what_stays_whole() -> None:
    """Branches that stay one node in a lowered loop, and that name a size of the loop's body."""
    text = """graph f(%p: bool[]@cpu:0, %x: f32[m]@cpu:0) {
      %y.0, %y.1 = while_loop(%x, %p) {
        cond=graph (%a: f32[n]@cpu:0, %q: bool[]@cpu:0) { return %q },
        body=graph (%a: f32[n]@cpu:0, %q: bool[]@cpu:0) {
          %b = cond(%q, %a, %q) {branches=(
            graph (%a: f32[n]@cpu:0, %t: bool[]@cpu:0) {
              %z = zeros() {shape=(n,), dtype=f32, device=device("cpu:0")} : f32[n]@cpu:0
              return %z },
            graph (%a: f32[n]@cpu:0, %t: bool[]@cpu:0) {
              %c = cond(%t, %a) {branches=(
                graph (%a: f32[n]@cpu:0) {
                  %o = zeros() {shape=(n,), dtype=f32, device=device("cpu:0")} : f32[n]@cpu:0
                  return %o },
                graph (%a: f32[n]@cpu:0) { return %a })} : f32[n]@cpu:0
              return %c })} : f32[n]@cpu:0
          %r = logical_not(%q) : bool[]@cpu:0
          return %b, %r }} : f32[m]@cpu:0, bool[]@cpu:0
      return %y.0 }"""
    graph = Graph.parse(text)
    before = str(graph)
    result = lower(graph, lambda node: node.op == "cond")
    assert str(graph) == before
    verify(result)
    assert "shape=(n,)" not in str(result)
    assert str(result).count("shape=(m,)") == 2


def test_what_stays_whole() -> None:
    text = """graph f(%x: f32[2]@cpu:0) {
      %y = while_loop(%x) {
        cond=graph (%x: f32[2]@cpu:0) { %p = any(%x) {axis=(0,), keepdims=False} : bool[]@cpu:0
          return %p },
        body=graph (%x: f32[2]@cpu:0) { %z = exp(%x) : f32[2]@cpu:0 PLACE return %z }
      } : f32[2]@cpu:0
      return %y }"""
    pure = Graph.parse(text.replace("PLACE", ""))
    assert is_whole(pure.nodes[0])
    assert [n.op for n in lower(pure).nodes] == ["while_loop"]
    spread = Graph.parse(text.replace("PLACE", 'on "null:0"'))
    assert not is_whole(spread.nodes[0])
    assert "Switch" in {n.op for n in lower(spread).nodes}


@pytest.mark.parametrize(
    ("node", "wrong"),
    [
        ("%y = Enter(%x) : f32[2]", "frame"),
        ("%y = Merge(%x) : f32[2]", "back"),
        ("%y = Merge(%x, %x) : f32[3,3]", "does not have the type of its input"),
        ("%y.0, %y.1 = Switch(%x, %x) : f32[2], f32[2]", "bool or an integer"),
        ("%y = Slice(%x, %x) : f32[]", "axes and an int"),
        ("%y = Identity(%x, %x) : f32[2]", "takes 1 operand, and has 2"),
    ],
)
def test_types_are_checked(node: str, wrong: str) -> None:
    graph = Graph.parse(f"graph (%x: f32[2]) {{ {node} return %x }}")
    with pytest.raises(errors.GraphError, match=wrong):
        verify(graph)
