"""Names of sizes in subgraphs that move into another trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim, Size, same
from eagerflow.dims.polynomial import Atom, name_atoms
from eagerflow.graph.edit import copied, substitute_sizes
from eagerflow.graph.ir import Graph
from eagerflow.graph.kinds import ValueSpec, ValueType
from eagerflow.runtime.generated.instructions import named_axes, parts
from eagerflow.tracing.tracer import Tracer

__all__ = ["Renamed", "names_of", "rename", "sizes_in"]


class Renamed(NamedTuple):
    """A node with subgraphs in the names of sizes of another trace.

    Attributes:
        attrs: its attributes.
        outputs: the types of its outputs.
    """

    attrs: dict[str, Any]
    outputs: Sequence[ValueSpec]


def rename(
    tracer: Tracer, attrs: dict[str, Any], inputs: Sequence[ValueSpec],
    outputs: Sequence[ValueSpec], operands: Sequence[Any], sizes: Mapping[str, Size],
) -> Renamed:  # fmt: skip
    """Rename the sizes of a node of another trace to names of ``tracer``.

    Args:
        tracer: the trace that the node moves to.
        attrs: its attributes; shared with the result where all names stay.
        inputs: the types of its operands, in the old names.
        outputs: those of its outputs.
        operands: tensors and numbers of the trace.
        sizes: the values of old names that no operand determines.
    """
    known: dict[str, Size] = dict(sizes)
    for kind, x in zip(inputs, operands, strict=True):
        if type(x) is Tensor:
            known.update((name, x.shape[axis]) for axis, name in named_axes(kind))
    moved: dict[str, Size] = {}
    told = _told(attrs.values(), (*inputs, *outputs))
    for _, name, owner in sorted(names_of(tuple(attrs.values()), (*inputs, *outputs))):
        if name not in known:
            # of data inside: the name may mean another size here; else of a trace further out
            if owner != tracer.owner and name in told:
                moved[name] = tracer.fresh_size(name)
        elif not same(known[name], Dim(name, owner)):
            moved[name] = known[name]
    if not moved:
        return Renamed(attrs, outputs)
    shell = Graph()  # one graph with all items to be renamed
    node = shell.add_node(
        "shell", (), [s.type for s in outputs], {k: copied(v) for k, v in attrs.items()},
        devices=[s.device for s in outputs],
    )  # fmt: skip
    substitute_sizes(shell, moved)
    return Renamed(node.attrs, [v.spec for v in node.outputs])


def names_of(item: Any, types: Sequence[ValueSpec | ValueType] = ()) -> set[Atom]:
    """The names of sizes, with their owners, in an attribute, subgraphs included, and in types."""
    sizes = (*[size for kind in types for size in kind.shape], *parts(item))
    dims = [size for size in sizes if type(size) is Dim]
    names = set[Atom]().union(*(name_atoms(d.terms) for d in dims))
    for graph in _graphs(item):
        names |= names_of((), [v.type for v in graph.values()])
        for node in graph.nodes:
            names |= names_of(tuple(node.attrs.values()))
    return names


def sizes_in(types: Sequence[ValueSpec]) -> dict[str, Size]:
    """The sizes that types name, each as the name itself."""
    return {name: Dim(name, owner) for _, name, owner in names_of((), types)}


def _told(items: Iterable[Any], types: Iterable[ValueSpec | ValueType]) -> set[str]:
    """The names of sizes in given types or in types of values in subgraphs."""
    names = {name for kind in types for _, name in named_axes(kind)}
    for item in items:
        for graph in _graphs(item):
            names |= _told((), [v.type for v in graph.values()])
            for node in graph.nodes:
                names |= _told(node.attrs.values(), ())
    return names


def _graphs(item: Any) -> Iterator[Graph]:
    yield from (part for part in parts(item) if type(part) is Graph)
