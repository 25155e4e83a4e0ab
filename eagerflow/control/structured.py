"""`Structured`: a branch or a loop with its subgraphs, a node without its place in a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from eagerflow.core.op import get_op
from eagerflow.graph.effects import Effectful
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.kinds import ValueType
from eagerflow.graph.passes.rewrite import RANKS
from eagerflow.runtime.instructions import CONTROL
from eagerflow.types import TensorType

__all__ = ["Structured", "effects_of", "graphs_of"]


@final
class Structured:
    """What a node with subgraphs computes.

    Attributes:
        op: ``"cond"``, ``"switch"``, ``"while_loop"`` or ``"scan"``.
        attrs: of the node: the subgraphs and how often they run.
        inputs: the types of the operands.
        outputs: the types of the results.
        effects: what they do to state, and to which resource.
        read_inside: the variables that are read inside and that results depend on.
        derivatives: what `eagerflow.control.derivative` made of it, by which inputs are wanted.
    """

    __slots__ = (
        "__weakref__", "attrs", "derivatives", "effects", "inputs", "op", "outputs", "read_inside",
    )  # fmt: skip

    def __init__(
        self, op: str, attrs: dict[str, Any], inputs: Sequence[ValueType],
        outputs: Sequence[ValueType],
    ) -> None:  # fmt: skip
        self.op = op
        self.attrs = attrs
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.effects = tuple(dict.fromkeys(e for g in graphs_of(attrs) for e in effects_of(g)))
        self.read_inside = [
            r for e, r in self.effects if e == "reads" and _reaches_results(self, r)
        ]
        self.derivatives: dict[tuple[bool, ...], Any] = {}

    @property
    def effect(self) -> str:
        """The strongest of its effects on state."""
        return max((e for e, _ in self.effects), key=RANKS.index, default="pure")


def _reaches_results(whole: Structured, resource: Any) -> bool:
    """Whether a result that has a derivative depends on what is read of ``resource`` inside."""
    for graph in graphs_of(whole.attrs):
        found: set[Value] = set()
        before = -1
        while len(found) > before:
            before = len(found)
            for node in graph.nodes:
                parts = graphs_of(node.attrs)
                inner = any(e == "reads" and r is resource for g in parts for e, r in effects_of(g))
                reads = node.op == "read" and node.attrs["resource"] is resource
                if reads or inner or not found.isdisjoint(node.inputs):
                    found.update(node.outputs)
            if whole.op in ("while_loop", "scan"):  # what goes round comes in again
                pairs = zip(graph.inputs, graph.outputs, strict=False)
                found.update(v for v, y in pairs if y in found)
        if any(y in found and _is_smooth(y.type) for y in graph.outputs):
            return True
    return False


def _is_smooth(kind: ValueType) -> bool:
    return isinstance(kind, TensorType) and kind.dtype.is_inexact


def graphs_of(attrs: Mapping[str, Any]) -> Iterator[Graph]:
    """The subgraphs among attributes."""
    for value in attrs.values():
        yield from (g for g in (value if type(value) is tuple else (value,)) if type(g) is Graph)


def effects_of(graph: Graph) -> Iterator[Effectful]:
    """What the nodes of ``graph`` do to state, and to which resource."""
    for node in graph.nodes:
        if node.op == "constant" or node.op.startswith("python_"):
            continue
        if node.op in CONTROL or node.op == "call":
            for inner in graphs_of(node.attrs):
                yield from effects_of(inner)
            continue
        effect = get_op(node.op).effect
        if effect != "pure":
            yield effect, node.attrs.get("resource")
