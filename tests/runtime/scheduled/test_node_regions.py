"""Regions: grouping of nodes, and the cuts between groups."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from eagerflow.graph import Graph
from eagerflow.graph.ir import Node
from eagerflow.graph.lowering import lower
from eagerflow.graph.lowering.frame_paths import FramePaths
from eagerflow.runtime.node_seconds import node_seconds
from eagerflow.runtime.scheduled.node_regions import find_regions
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier


def before(node: Node) -> list[Node]:
    return [v.node for v in node.inputs if v.node is not None]


def regions(graph: Graph, heavy: str = "", workers: int = 0) -> list[str]:
    """The regions as names of nodes; nodes whose letter is in ``heavy`` are worth a thread."""

    def seconds(node: Node) -> float:
        return 1.0 if node.name[0] in heavy else 1e-6

    groups = find_regions(graph, FramePaths(graph), seconds, before, workers)
    return sorted(" ".join(n.name for n in nodes) for parts in groups for nodes in parts)


def graph_of(*lines: str) -> Graph:
    """A graph of nodes such as ``a: x y``, which add up their inputs."""
    text = ["graph f(%x: f32[2], %y: f32[2]) {"]
    for line in lines:
        name, _, inputs = line.partition(": ")
        values = ", ".join(f"%{i}" for i in inputs.split())
        text.append(f"%{name} = {'add' if ',' in values else 'exp'}({values}) : f32[2]")
    last = lines[-1].partition(":")[0]
    return Graph.parse("\n".join([*text, f"return %{last} }}"]))


def test_all_that_is_light_is_one() -> None:
    graph = graph_of("a: x", "b: y", "c: a b", "d: x")
    assert regions(graph) == ["a b c d"]
    assert regions(graph, "a") == ["a b c d"]  # one heavy node alone gains nothing


def test_heavy_branches_are_apart() -> None:
    graph = graph_of("a: x", "l: a", "b: l", "m: y", "c: m", "d: c", "e: b d")
    assert regions(graph, "abcd") == ["a l b", "e", "m c d"]


def test_a_heavy_chain_is_one() -> None:
    assert regions(graph_of("a: x", "b: a", "c: b"), "abc") == ["a b c"]


def test_what_both_need_comes_first() -> None:
    graph = graph_of("l: x", "m: y", "a: l m", "b: l m", "e: a b")
    assert regions(graph, "ab") == ["a", "b", "e", "l m"]


def test_regions_are_no_smaller_than_threads_can_use() -> None:
    """Two updates of three stages each, whose middle stage has two parallel nodes."""
    lines = [f"{v}0: x|{v}1: {v}0|{v}2: {v}0|{v}3: {v}1 {v}2" for v in "ab"]
    graph = graph_of(*"|".join(lines).split("|"))
    by_workers = {workers: regions(graph, "ab", workers) for workers in (0, 1, 2, 4)}
    assert len(by_workers[0]) == 8
    assert by_workers[1] == by_workers[2] == ["a0 a1 a2 a3", "b0 b1 b2 b3"]
    assert by_workers[4] == by_workers[0]  # both nodes of each middle at once


@given(st.integers(0, 10**6), st.sampled_from([0, 1, 2, 5]))
def test_regions_never_wait_for_each_other(seed: int, workers: int) -> None:
    source = random.Random(seed)
    names = ["x", "y"]
    lines = []
    for i in range(source.randint(2, 40)):
        name = f"{source.choice('ah')}{i}"
        inputs = {source.choice(names[-8:]) for _ in range(source.randint(1, 2))}
        lines.append(f"{name}: {' '.join(sorted(inputs))}")
        names.append(name)
    graph = graph_of(*lines)
    tier = ScheduledTier(
        graph, seconds=lambda node: 1.0 if node.name[0] == "h" else 1e-6, workers=workers
    )
    (frame,) = tier.plan.frames
    left = list(frame.needs)
    ready, ran = list(frame.roots), 0
    while ready:
        node = ready.pop()
        ran += 1
        for target in frame.targets[node] or ():
            left[target] -= 1
            if not left[target]:
                ready.append(target)
    assert ran == len(frame.nodes)


EFFECT = """graph f(%x: f32[2]@cpu:0) {
  %a = exp(%x) : f32[2]@cpu:0
  %k = OP() {resource=@g, device=device("cpu:0")} : u64[2]@cpu:0
  %b = sin(%a) : f32[2]@cpu:0
  %u = random_uniform(%k) {shape=(2,), dtype=f32, digits=24} : f32[2]@cpu:0
  %c = add(%u, %b) : f32[2]@cpu:0
  return %c }"""


def test_fences_are_cut_out() -> None:
    assert regions(Graph.parse(EFFECT.replace("OP", "py_call"))) == ["a b", "u c"]


def test_reads_and_assignments_of_variables_are_not() -> None:
    assert regions(Graph.parse(EFFECT.replace("OP", "next_key"))) == ["a k b u c"]


def test_but_in_branches_they_are() -> None:
    v = ef.Variable([1.0, 2.0])

    def f(x: Any) -> Any:
        return ef.cond(x.sum() > 0, lambda: v.assign(ef.exp(x)) + x, lambda: x)

    graph = lower(ef.trace(f).graph(ef.ones(2)), lambda node: False)
    parts = [names.split() for names in regions(graph)]
    (assignment,) = [n.name for n in graph.nodes if n.op == "assign"]
    assert not any(assignment in names for names in parts)


@pytest.mark.parametrize(
    "line",
    [
        "%y = Exit(%x) : f32[2]",
        "%y = Merge(%x, %x) : f32[2]",
        "%a.0, %a.1 = Switch(%x, %p) : f32[2], f32[2] %y = add(%a.0, %a.1) : f32[2]",
    ],
)
def test_values_that_cannot_meet(line: str) -> None:
    graph = Graph.parse(f"graph (%x: f32[2], %p: bool[]) {{ {line} return %y }}")
    with pytest.raises(errors.GraphError):
        FramePaths(graph)


def node_of(text: str) -> Any:
    return Graph.parse(f"graph (%x: f32[1000,1000], %n: f32[n]) {{ {text} return %y }}").nodes[-1]


def test_costs() -> None:
    product = node_of("%y = matmul(%x, %x) : f32[1000,1000]")
    plus = node_of("%y = add(%x, %x) : f32[1000,1000]")
    assert 1e-2 < node_seconds()(product) < 1
    assert 3e-4 < node_seconds()(plus) < 3e-2
    assert node_seconds()(node_of("%y = exp(%n) : f32[n]")) < 2e-4
    assert node_seconds(threads=10**6)(product) < 1e-5  # the library takes all cores


def test_what_another_partition_waits_for_is_apart_from_what_takes_long() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[2]@cpu:0) {
          %a = exp(%x) : f32[2]@cpu:0
          %b = sin(%a) : f32[2]@cpu:0
          %c = cos(%a) : f32[2]@cpu:0
          &s: Send(%b) {edge="b -> null:0", to=device("null:0")}
          return %c }"""
    )

    def parts(seconds: float) -> list[list[str]]:
        costs = {"cos": seconds}
        paths = FramePaths(graph)

        def before(node: Node) -> list[Node]:
            return [v.node for v in node.inputs if v.node is not None]

        groups = find_regions(graph, paths, lambda n: costs.get(n.op, 1e-6), before)
        return [[n.name for n in part] for group in groups for part in group]

    assert parts(1e-6) == [["a", "b", "c"]]
    assert parts(1e-3) == [["a", "b"], ["c"]]
