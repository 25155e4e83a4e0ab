"""Which results of a branch or a loop are computed from which operands.

Operands that only decide which branch is taken, or how many iterations there are, do not count:
derivatives do not see decisions, as they do not see those of Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.signatures import is_control, kind_of

__all__ = ["Places", "dependence"]

#: the numbers of operands; -1, -2, ... for values read from variables
Places = frozenset[int]
_NONE: Places = frozenset()


def dependence(
    op: str, attrs: Mapping[str, Any], count: int, reads: Mapping[int, int]
) -> list[Places]:
    """For each output of a node with subgraphs, the operands that it is computed from.

    Args:
        op: ``"cond"``, ``"switch"``, ``"while_loop"``, ``"scan"`` or ``"call"``.
        attrs: of the node.
        count: the number of its operands.
        reads: the number for values read from a variable, by id of its resource.
    """
    places = [frozenset((i,)) for i in range(count)]
    if op == "call":
        return _of_graph(attrs["body"], places, reads)
    if kind_of(op) == "branches":
        branches = [_of_graph(g, places[1:], reads) for g in attrs["branches"]]
        return [_NONE.union(*alternatives) for alternatives in zip(*branches, strict=True)]
    total: int = attrs["carry"] if op == "scan" else count
    carried = places[:total]
    while True:
        outputs = _of_graph(attrs["body"], [*carried, *places[total:]], reads)
        after = [a | b for a, b in zip(carried, outputs, strict=False)]
        if after == carried:
            return [*carried, *outputs[total:]]
        carried = after


def _of_graph(graph: Graph, inputs: Sequence[Places], reads: Mapping[int, int]) -> list[Places]:
    known: dict[Value, Places] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        given = [known[v] for v in node.inputs]
        if node.op == "call" or is_control(node.op):
            depends = dependence(node.op, node.attrs, len(given), reads)
            places = [_NONE.union(*[given[i] if i >= 0 else {i} for i in f]) for f in depends]
        elif node.op == "read":
            number = reads.get(id(node.attrs["resource"]))
            places = [_NONE if number is None else frozenset((number,))]
        else:
            places = [_NONE.union(*given)] * len(node.outputs)
        known.update(zip(node.outputs, places, strict=True))
    return [known[v] for v in graph.outputs]
