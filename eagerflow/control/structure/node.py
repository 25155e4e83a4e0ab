"""`Structured`: a branch or a loop with its subgraphs, a node outside any graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from eagerflow.control.structure.dependence import Places, dependence
from eagerflow.control.structure.sizes import names_of
from eagerflow.core.op import get_op
from eagerflow.core.tensor import Tensor
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.kinds import ValueSpec
from eagerflow.graph.passes.rewrite import RANKS
from eagerflow.graph.signatures import is_control, is_loop, kind_of
from eagerflow.tracing.effect_order import Effectful
from eagerflow.types import TensorSpec

__all__ = ["Structured", "effects_of", "graphs_of", "nodes_of", "reads_any"]


@final
class Structured:
    """The computation of a node with subgraphs.

    Attributes:
        op: ``"cond"``, ``"switch"``, ``"while_loop"`` or ``"scan"``.
        attrs: of the node: the subgraphs and how often they run.
        inputs: the types of the operands.
        outputs: the types of the results.
        effects: their effects on state, each with its resource.
        fixed: the numbers of the operands of a loop that no iteration changes. They come out as the
            outputs of the same numbers.
        reads: the nodes that read variables inside, the first one of each variable that a result
            with a derivative depends on.
        derivatives: those that `eagerflow.control.derivatives` made, by the inputs that need one.
    """

    __slots__ = (
        "__weakref__", "_depends", "attrs", "derivatives", "effects", "fixed", "inputs", "op",
        "outputs", "reads",
    )  # fmt: skip

    def __init__(
        self, op: str, attrs: dict[str, Any], inputs: Sequence[ValueSpec],
        outputs: Sequence[ValueSpec],
    ) -> None:  # fmt: skip
        self.op = op
        self.attrs = attrs
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.effects = tuple(dict.fromkeys(e for g in graphs_of(attrs) for e in effects_of(g)))
        self.fixed = frozenset(_fixed(op, attrs))
        self.derivatives: dict[tuple[Any, ...], Any] = {}
        self._depends: list[Places] | None = None
        self.reads: list[Node] = []
        if any(effect == "reads" for effect, _ in self.effects):
            self._find_reads()

    def _find_reads(self) -> None:
        by_resource: dict[int, Node] = {}
        for graph in graphs_of(self.attrs):
            for node in nodes_of(graph):
                if node.op == "read":
                    by_resource.setdefault(id(node.attrs["resource"]), node)
        reads = list(by_resource.values())
        numbers = {key: -1 - i for i, key in enumerate(by_resource)}
        depends = dependence(self.op, self.attrs, len(self.inputs), numbers)
        smooth = [d for d, k in zip(depends, self.outputs, strict=True) if _is_smooth(k)]
        reached = frozenset[int]().union(*smooth)
        self.reads = [node for i, node in enumerate(reads) if -1 - i in reached]

    @property
    def depends(self) -> list[Places]:
        """For each output the operands that it is computed from, and -1 - i for ``reads[i]``."""
        if self._depends is None:
            numbers = {id(n.attrs["resource"]): -1 - i for i, n in enumerate(self.reads)}
            self._depends = dependence(self.op, self.attrs, len(self.inputs), numbers)
        return self._depends

    def own(self, results: Sequence[Any], items: Sequence[Any] | None = None) -> list[Any]:
        """The results that are tensors and not operands; or the ``items`` for these."""
        return [
            x if items is None else items[i]
            for i, x in enumerate(results)
            if type(x) is Tensor and i not in self.fixed
        ]

    def names(self) -> frozenset[str]:
        """The names of sizes in its types and its subgraphs."""
        atoms = names_of(tuple(self.attrs.values()), (*self.inputs, *self.outputs))
        return frozenset(name for _, name, _ in atoms)

    @property
    def effect(self) -> str:
        """The strongest of its effects on state."""
        return max((e for e, _ in self.effects), key=RANKS.index, default="pure")


def _fixed(op: str, attrs: Mapping[str, Any]) -> Iterator[int]:
    if is_loop(op):
        body: Graph = attrs["body"]
        pairs = zip(body.inputs[: attrs.get("carry")], body.outputs, strict=False)
        yield from (i for i, (before, after) in enumerate(pairs) if before is after)


def _is_smooth(kind: ValueSpec) -> bool:
    return isinstance(kind, TensorSpec) and kind.dtype.is_inexact


def graphs_of(attrs: Mapping[str, Any]) -> Iterator[Graph]:
    """The subgraphs among attributes."""
    for value in attrs.values():
        yield from (g for g in (value if type(value) is tuple else (value,)) if type(g) is Graph)


def nodes_of(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of its subgraphs."""
    for node in graph.nodes:
        yield node
        for inner in graphs_of(node.attrs):
            yield from nodes_of(inner)


def reads_any(node: Node, resources: Sequence[Any]) -> bool:
    """Whether a node, or one inside it, reads one of these variables."""
    if node.op == "read":
        return any(node.attrs["resource"] is r for r in resources)
    return bool(resources) and any(
        reads_any(inner, resources) for g in graphs_of(node.attrs) for inner in g.nodes
    )


def effects_of(graph: Graph) -> Iterator[Effectful]:
    """The effects of the nodes of ``graph`` on state, each with its resource."""
    for node in graph.nodes:
        if kind_of(node.op) in ("constant", "number"):
            continue
        if is_control(node.op) or node.op == "call":
            for inner in graphs_of(node.attrs):
                yield from effects_of(inner)
            continue
        effect = get_op(node.op).effect
        if effect != "pure":
            yield effect, node.attrs.get("resource")
