"""`Structured`: a branch, a loop or a call with its subgraphs, as a node outside of any graph.

Finds its effects and the dependence of its results on its operands, and renames its sizes when it
moves into another trace. Insertion into a trace: `control/apply.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, final

from eagerflow.core.op import get_op
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim, Size, same
from eagerflow.dims.polynomial import Atom
from eagerflow.graph.edit import (
    all_nodes,
    atoms_in,
    copied,
    flat_items,
    named_axes,
    substitute_sizes,
)
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import RANKS
from eagerflow.graph.signatures import is_control, is_loop, is_read, kind_of
from eagerflow.graph.value_types import ValueSpec, ValueType
from eagerflow.tracing.effect_order import Effectful
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorSpec

#: numbers of operands; -1, -2, ... for values read from variables
OperandNumbers = frozenset[int]
_NONE: OperandNumbers = frozenset()


@final
class Structured:
    """The computation of a node with subgraphs.

    Attributes:
        op: ``"cond"``, ``"switch"``, ``"while_loop"`` or ``"scan"``.
        attrs: attributes of the node: the subgraphs and the number of their runs.
        inputs: the types of the operands.
        outputs: the types of the results.
        effects: effects of the subgraphs on state, each with its resource.
        fixed: the numbers of the loop operands that no iteration changes; the outputs of the same
            numbers equal them.
        reads: the nodes inside that read variables, the first read of each variable that a result
            with a derivative depends on.
        derivatives: derivatives made by `eagerflow.control.derivatives`, by the inputs that need
            one.
    """

    def __init__(
        self, op: str, attrs: dict[str, Any], inputs: Sequence[ValueSpec],
        outputs: Sequence[ValueSpec],
    ) -> None:  # fmt: skip
        self.op = op
        self.attrs = attrs
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.effects = tuple(dict.fromkeys(effects_of(self.nodes)))
        self.fixed = frozenset(_fixed(op, attrs))
        self.derivatives: dict[tuple[Any, ...], Any] = {}
        self.reads: list[Node] = []
        if any(effect == "reads" for effect, _ in self.effects):
            self._find_reads()

    def _find_reads(self) -> None:
        by_resource: dict[int, Node] = {}
        for node in self.nodes:
            if is_read(node.op):
                by_resource.setdefault(id(node.attrs["resource"]), node)
        reads = list(by_resource.values())
        numbers = {key: -1 - i for i, key in enumerate(by_resource)}
        depends = _dependence(self.op, self.attrs, len(self.inputs), numbers)
        smooth = [d for d, k in zip(depends, self.outputs, strict=True) if is_smooth(k)]
        reached = frozenset[int]().union(*smooth)
        self.reads = [node for i, node in enumerate(reads) if -1 - i in reached]

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in its subgraphs, at all levels."""
        return all_nodes(node for graph in _graphs_of(self.attrs) for node in graph.nodes)

    @cached_property
    def depends(self) -> list[OperandNumbers]:
        """For each output the numbers of operands it is computed from; -1 - i is ``reads[i]``."""
        numbers = {id(n.attrs["resource"]): -1 - i for i, n in enumerate(self.reads)}
        return _dependence(self.op, self.attrs, len(self.inputs), numbers)

    def own(self, results: Sequence[Any], items: Sequence[Any] | None = None) -> list[Any]:
        """The results that are tensors and not operands; or the ``items`` of these results."""
        return [
            x if items is None else items[i]
            for i, x in enumerate(results)
            if type(x) is Tensor and i not in self.fixed
        ]

    def names(self) -> frozenset[str]:
        """The names of sizes in its types and its subgraphs."""
        atoms = names_of(tuple(self.attrs.values()), (*self.inputs, *self.outputs))
        return frozenset(name for _, name, _ in atoms)

    @cached_property
    def outside(self) -> dict[str, Size]:
        """The sizes that are the same in all its parts, each mapped from its name.

        Operands have them, or a subgraph reads them although no value in it has them, such as the
        shape of zeros: then only the outer trace knows them.
        """
        atoms = names_of((), self.inputs) | _sizes_read(self.attrs)
        return {name: Dim(name, owner) for _, name, owner in atoms}

    def sizes(self, operands: Sequence[Any], more: Mapping[str, Size]) -> dict[str, Size]:
        """The sizes named in its types, by name.

        Args:
            operands: tensors and numbers.
            more: the values of names that no operand determines.
        """
        known = dict(more)
        for kind, x in zip(self.inputs, operands, strict=True):
            if type(x) is Tensor:
                known.update((name, x.shape[axis]) for axis, name in named_axes(kind))
        return known

    def renamed(
        self, tracer: Tracer, operands: Sequence[Any], sizes: Mapping[str, Size]
    ) -> tuple[dict[str, Any], Sequence[ValueSpec]]:
        """Its attributes and the types of its outputs, in the names of sizes of another trace.

        Args:
            tracer: the trace that it moves to.
            operands: tensors and numbers of that trace.
            sizes: the values of its own names that no operand determines.
        """
        attrs, outputs, types = self.attrs, self.outputs, (*self.inputs, *self.outputs)
        known = self.sizes(operands, sizes)
        moved: dict[str, Size] = {}
        for _, name, owner in sorted(names_of(tuple(attrs.values()), types)):
            if name in known:
                if not same(known[name], Dim(name, owner)):
                    moved[name] = known[name]
            elif owner != tracer.owner and name not in self.outside:
                # depends on data inside: the name may mean another size here
                moved[name] = tracer.sizes.fresh(name)
        if not moved:
            return attrs, outputs
        shell = Graph()  # a graph with all items to be renamed
        node = shell.add_node(
            "shell", (), [s.type for s in outputs], {k: copied(v) for k, v in attrs.items()},
            devices=[s.device for s in outputs],
        )  # fmt: skip
        substitute_sizes(shell, moved)
        return node.attrs, [v.spec for v in node.outputs]

    @property
    def effect(self) -> str:
        """The strongest of its effects on state."""
        return max((e for e, _ in self.effects), key=RANKS.index, default="pure")


def _fixed(op: str, attrs: Mapping[str, Any]) -> Iterator[int]:
    if is_loop(op):
        body: Graph = attrs["body"]
        pairs = zip(body.inputs[: attrs.get("carry")], body.outputs, strict=False)
        yield from (i for i, (before, after) in enumerate(pairs) if before is after)


def is_smooth(kind: ValueSpec) -> bool:
    """Whether values of that type have derivatives."""
    return isinstance(kind, TensorSpec) and kind.dtype.is_inexact


def _graphs_of(attrs: Mapping[str, Any]) -> Iterator[Graph]:
    """The subgraphs among attributes."""
    for value in attrs.values():
        yield from (g for g in (value if type(value) is tuple else (value,)) if type(g) is Graph)


def changes_state(graph: Graph) -> bool:
    """Whether a run of a graph has effects beyond reads and checks, such as draws or prints."""
    return any(
        what != "reads" and not getattr(of, "checks", False)
        for what, of in effects_of(all_nodes(graph.nodes))
    )


def effects_of(nodes: Iterable[Node]) -> Iterator[Effectful]:
    """The effects of nodes on state, each with its resource."""
    for node in nodes:
        effect = get_op(node.op).effect if kind_of(node.op) == "op" else "pure"
        if effect != "pure":
            yield effect, node.attrs.get("resource")


# --- dependences of outputs on operands ----------------------------------------------------------


def _dependence(
    op: str, attrs: Mapping[str, Any], count: int, reads: Mapping[int, int]
) -> list[OperandNumbers]:
    """For each output of a node with subgraphs, the numbers of the operands it is computed from.

    Operands that only decide on branches or on the number of iterations do not count: derivatives
    ignore decisions, as they ignore decisions of Python.

    Args:
        op: ``"cond"``, ``"switch"``, ``"while_loop"``, ``"scan"`` or ``"call"``.
        attrs: attributes of the node.
        count: the number of its operands.
        reads: the numbers of values read from variables, by id of the resource.
    """
    operands = [frozenset((i,)) for i in range(count)]
    if op == "call":
        return _of_graph(attrs["body"], operands, reads)
    if kind_of(op) == "branches":
        branches = [_of_graph(g, operands[1:], reads) for g in attrs["branches"]]
        return [_NONE.union(*alternatives) for alternatives in zip(*branches, strict=True)]
    total: int = attrs.get("carry", count)  # a `while_loop` carries all
    carried = operands[:total]
    while True:
        outputs = _of_graph(attrs["body"], [*carried, *operands[total:]], reads)
        after = [a | b for a, b in zip(carried, outputs, strict=False)]
        if after == carried:
            return [*carried, *outputs[total:]]
        carried = after


def _of_graph(
    graph: Graph, inputs: Sequence[OperandNumbers], reads: Mapping[int, int]
) -> list[OperandNumbers]:
    known: dict[Value, OperandNumbers] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        given = [known[v] for v in node.inputs]
        if node.op == "call" or is_control(node.op):
            depends = _dependence(node.op, node.attrs, len(given), reads)
            outputs = [_NONE.union(*[given[i] if i >= 0 else {i} for i in f]) for f in depends]
        elif is_read(node.op):
            number = reads.get(id(node.attrs["resource"]))
            outputs = [_NONE if number is None else frozenset((number,))]
        else:
            outputs = [_NONE.union(*given)] * len(node.outputs)
        known.update(zip(node.outputs, outputs, strict=True))
    return [known[v] for v in graph.outputs]


# --- names of sizes -------------------------------------------------------------------------------


def names_of(item: Any, types: Iterable[ValueSpec | ValueType] = ()) -> set[Atom]:
    """The names of sizes, with their owners, in an attribute, subgraphs included, and in types."""
    items = (*[size for kind in types for size in kind.shape], *flat_items((item,)))
    names = atoms_in(items)
    for part in items:
        if type(part) is Graph:
            attrs = tuple([value for node in part.nodes for value in node.attrs.values()])
            names |= names_of(attrs, [v.type for v in part.values()])
    return names


def _sizes_read(attrs: Mapping[str, Any]) -> set[Atom]:
    """The names of sizes that attributes read; in subgraphs, names that no value inside has."""
    read = atoms_in(flat_items(attrs.values()))
    for graph in _graphs_of(attrs):
        had = names_of((), [v.type for v in graph.inputs])
        for node in graph.nodes:
            read |= _sizes_read(node.attrs) - had
            had |= names_of((), [v.type for v in node.outputs])
    return read
