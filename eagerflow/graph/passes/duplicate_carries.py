"""Duplicate carries: loop-carried values that start equal and stay equal in each iteration."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import Rewriter, is_pure
from eagerflow.graph.signatures import is_loop

__all__ = ["find_twins", "is_read", "with_twins"]


def find_twins(
    node: Node, inputs: Sequence[Hashable], attrs_key: Callable[[dict[str, Any]], Hashable]
) -> dict[int, int]:
    """For each loop-carried value that always equals an earlier one, by index, the index of that.

    Values that start equal are taken for equal, until an iteration tells them apart (Alpern, Wegman
    and Zadeck, "Detecting equality of variables in programs", 1988).

    Args:
        node: a loop.
        inputs: its inputs; equal ones have equal values.
        attrs_key: of attributes; equal ones have equal keys.
    """
    body: Graph = node.attrs["body"]
    count = node.attrs["carry"] if node.op == "scan" else len(inputs)
    if len(set(inputs[:count])) == count:
        return {}
    starts = [(inputs[i], *_types(node, i)) for i in range(count)]
    first: dict[Hashable, int] = {}
    leaders = [first.setdefault(start, i) for i, start in enumerate(starts)]
    groups = len(first)
    while groups < count:
        ends = _numbers(body, leaders, attrs_key)
        first = {}
        leaders = [first.setdefault((leaders[i], ends[i]), i) for i in range(count)]
        if len(first) == groups:
            break
        groups = len(first)
    return {i: leader for i, leader in enumerate(leaders) if leader != i}


def _types(node: Node, i: int) -> tuple[str, ...]:
    body = node.attrs["body"]
    return tuple([str(v.spec) for v in (node.outputs[i], body.inputs[i], body.outputs[i])])


def _numbers(
    body: Graph, leaders: Sequence[int], attrs_key: Callable[[dict[str, Any]], Hashable]
) -> list[Hashable]:
    """For each output a number; equal ones have equal values, if each input equals its leader."""
    numbers: dict[Value, Hashable] = {}
    for i, value in enumerate(body.inputs):
        numbers[value] = leaders[i] if i < len(leaders) else i
    known: dict[Hashable, Node] = {}
    for node in body.nodes:
        same, inputs = node, tuple([numbers[v] for v in node.inputs])
        if node.outputs and not node.control_inputs and is_pure(node):
            types = tuple([str(v.spec) for v in node.outputs])
            key = node.op, inputs, attrs_key(node.attrs), node.device, types
            same = known.setdefault(key, node)
        pairs = zip(node.outputs, same.outputs, strict=True)
        numbers.update((v, numbers.get(first, first)) for v, first in pairs)
        if is_loop(node.op):
            twins = find_twins(node, inputs, attrs_key)
            numbers.update((node.outputs[i], numbers[node.outputs[j]]) for i, j in twins.items())
    return [numbers[v] for v in body.outputs[: len(leaders)]]


def is_read(graph: Graph, node: Node, i: int) -> bool:
    """Whether more than its own update reads carry number ``i`` of a loop of ``graph``."""
    if _takes(graph, node.outputs[i], -1):
        return True
    return any(_takes(part, part.inputs[i], i) for _, part in node.subgraphs())


def _takes(graph: Graph, value: Value, but: int) -> bool:
    """Whether a node takes ``value``, or an output other than number ``but`` is it."""
    return any(value in node.inputs for node in graph.nodes) or any(
        v is value for i, v in enumerate(graph.outputs) if i != but
    )


def with_twins(name: str, graph: Graph, twins: dict[int, int]) -> Graph:
    """A subgraph of a loop that reads of twins only the first."""
    rewriter = Rewriter(name, graph)
    rewriter.replaced = {graph.inputs[i]: graph.inputs[first] for i, first in twins.items()}
    return rewriter.build()
