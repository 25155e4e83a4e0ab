"""The reason of the placement of a node, for each kind of node."""

from __future__ import annotations

import re

import pytest

import eagerflow as ef
from eagerflow.graph import Graph
from tests.graph.graphs import small

TEXT = """graph f(%x: f32[2]@cpu:0, %k: int, %u: f32[2]) {
  %a = exp(%x) : f32[2] # cell 1: ef.exp(x)
  %b = sin(%a) : f32[2]
  %m = transfer(%b) {device=device("null:0"), source=device("cpu:0")} : f32[2]@null:0 # cell 2: b.to
  %c = cos(%m) : f32[2]
  %n = python_add(%k, %k) : int
  %z = zeros() {device=device("null:1"), dtype=f32, shape=(2,)} : f32[2]@null:1
  %e = tan(%z) : f32[2]
  %p = exp(%e) : f32[2] on "null:2" because "rule 'a/*'"
  %q = sin(%p) : f32[2]
  %l = call(%x) {body=graph g(%y: f32[2]@cpu:0) { %h = exp(%y) : f32[2] return %h }} : f32[2]@cpu:0
  %v = exp(%u) : f32[2]
  %w = constant() {value=tensor(f32[], (2.0,))} : f32[]@cpu:0
  return %c, %q, %l, %v
}"""

REASONS = {
    "a": "where its operands are: %x on cpu:0",
    "b": "where its operands are: %a on cpu:0, by the input %x",
    "m": "moves a value: %b, from cpu:0 to null:0",
    "c": "where its operands are: %b moved to null:0, by cell 2: b.to",
    "n": "numbers are in the memory of the host",
    "z": "made where the program says",
    "e": "where its operands are: %z on null:1, by &z",
    "p": "rule 'a/*'",
    "q": "where its operands are: %p on null:2 (rule 'a/*')",
    "l": "where the nodes in it run",
    "v": "the graph does not say where: its inputs decide it when it runs",
    "w": "a constant, of which each device that needs it has a copy",
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons(name: str) -> None:
    graph = small(TEXT)
    (node,) = [node for node in graph.nodes if node.name == name]
    assert node.reason == REASONS[name]


def test_state_says_which() -> None:
    v = ef.Variable(ef.ones(2), name="w")
    graph = ef.trace(lambda: v.assign_add(1.0)).graph()
    reasons = {node.op: node.reason for node in graph.nodes}
    assert reasons["assign_add"] == "where its state is: the variable 'w' on cpu:0"


def test_what_is_read_from_state_says_where_that_was_made() -> None:
    v = ef.Variable(ef.ones(2))
    node = ef.trace(lambda: ef.exp(v)).graph().nodes[-1]
    assert re.fullmatch(
        r"where its operands are: %\w+ on cpu:0, by .*exp\(v\).*, of state made at .*Variable.*",
        node.reason,
    )


def test_a_graph_that_was_read_says_the_same() -> None:
    graph = small(TEXT)
    again = Graph.parse(str(graph))
    assert [n.reason for n in again.nodes] == [n.reason for n in graph.nodes]
