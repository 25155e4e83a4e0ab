"""Queries on graphs, and the copying and rewriting of graphs, for passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from eagerflow.dims import Dim, Size, evaluate, substitute
from eagerflow.dims.polynomial import Atom, name_atoms
from eagerflow.errors import EagerflowError
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.value_types import NumberType, ValueSpec, ValueType
from eagerflow.hardware import Device
from eagerflow.types import TensorSpec, TensorType

# --- looking ----------------------------------------------------------------------------------


def needed(graph: Graph, fetches: Iterable[Value | Node], fed: Iterable[Value] = ()) -> list[Node]:
    """The nodes that must run for ``fetches``, in order, by data and control edges.

    A node all of whose results are fed is not among them, unless it is fetched itself: neither it
    nor the nodes that only it needs run, even if a needed node has a control edge to it.

    Args:
        graph: the graph.
        fetches: the values that are wanted, and nodes that are to run.
        fed: values that are given.
    """
    given = set(fed)
    replaced = {v.node for v in given if v.node is not None and given.issuperset(v.node.outputs)}
    want: set[Node] = set()
    for one in fetches:
        if isinstance(one, Node):
            want.add(one)
        elif one.node is not None and one not in given:
            want.add(one.node)
    told = {name for v in (*graph.inputs, *given) for name in lone_names(v.type)}
    tellers = size_values((v for node in graph.nodes for v in node.outputs), told)
    nodes = []
    for node in reversed(graph.nodes):
        if node in want:
            nodes.append(node)
            taken = [v for v in node.inputs if v not in given]
            if tellers:
                taken += [tellers[name] for name in sizes_named_by(node) if name in tellers]
            want.update([v.node for v in taken if v.node is not None])
            if node.control_inputs:
                want.update([n for n in node.control_inputs if n not in replaced])
    return nodes[::-1]


def inner_graphs(nodes: Iterable[Node]) -> set[Graph]:
    """The graphs within nodes, at any depth."""
    known = set[Graph]()
    waiting = [node for node in nodes if node.attrs]
    for node in waiting:  # the list grows meanwhile
        inner = {graph for _, graph in node.subgraphs()} - known
        known |= inner
        waiting += [n for graph in inner for n in graph.nodes if n.attrs]
    return known


def inner_nodes(nodes: Iterable[Node]) -> list[Node]:
    """The nodes of `inner_graphs`, each once."""
    return [node for graph in inner_graphs(nodes) for node in graph.nodes]


def all_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, each followed by those in its subgraphs."""
    for node in nodes:
        yield node
        if node.attrs:
            for _, graph in node.subgraphs():
                yield from all_nodes(graph.nodes)


def devices_in(nodes: Collection[Node]) -> set[Any]:
    """The devices of nodes and their values, and of all that is in their subgraphs."""
    every = [*nodes, *inner_nodes(nodes)]
    devices = {v.device for node in every for v in (*node.inputs, *node.outputs)}
    return (devices | {node.device for node in every}) - {None}


def size_values(values: Iterable[Value], known: Container[str]) -> dict[str, Value]:
    """For each name of a size that is not known the first of ``values`` whose shape gives it."""
    first: dict[str, Value] = {}
    for value in values:
        for name in lone_names(value.type):
            if name not in known:
                first.setdefault(name, value)
    return first


def named_axes(kind: ValueType | ValueSpec) -> Iterator[tuple[int, str]]:
    """The axes whose size is a single name, with the name."""
    for axis, size in enumerate(kind.shape):
        if isinstance(size, Dim) and size.is_name:
            yield axis, str(size)


def tells_size(kind: ValueType | ValueSpec) -> bool:
    """Whether the size of some axis is a single name."""
    for size in kind.shape:  # asked of each value of a graph: no generator
        if type(size) is not int and isinstance(size, Dim) and size.is_name:
            return True
    return False


def size_places(types: Iterable[ValueType]) -> dict[str, tuple[int, int]]:
    """For each name of a size the first of ``types`` that gives it, by position, and the axis."""
    places = [(name, (i, axis)) for i, t in enumerate(types) for axis, name in named_axes(t)]
    return dict(reversed(places))


def lone_names(kind: ValueType | ValueSpec) -> Iterator[str]:
    """The names that are the whole size of an axis."""
    return (name for _, name in named_axes(kind))


def flat_items(values: Iterable[Any]) -> Iterator[Any]:
    """The items of attributes, with tuples, lists and slices flattened."""
    for value in values:
        if type(value) is slice:
            yield from flat_items((value.start, value.stop, value.step))
        elif isinstance(value, (tuple, list)):
            yield from flat_items(value)
        else:
            yield value


def atoms_in(items: Iterable[Any]) -> set[Atom]:
    """The names of sizes among ``items``, with their owners."""
    return set[Atom]().union(*[name_atoms(item.terms) for item in items if type(item) is Dim])


def named_sizes(item: Any) -> Iterator[str]:
    """The names of sizes in an attribute."""
    for part in flat_items((item,)):
        if type(part) is Dim:
            yield from part.symbols
        elif type(part) is Graph:
            for node in part.nodes:
                yield from sizes_named_by(node)


def sizes_named_by(node: Node) -> Iterator[str]:
    """The names of sizes that must be known to run ``node`` and its subgraphs."""
    yield from named_sizes(tuple(node.attrs.values()))
    if node.op == "scan":  # its results are made before the first iteration
        for value in node.outputs[node.attrs["carry"] :]:
            yield from named_sizes(value.type.shape)


def nbytes(
    values: Iterable[Value], sizes: Mapping[str, int] = MappingProxyType({})
) -> int | None:  # fmt: skip
    """The memory that values take, in bytes; None if one of their sizes is not known.

    Args:
        values: the values, of which numbers take none.
        sizes: the sizes that names stand for, as far as known.
    """
    total = 0
    for value in values:
        kind = value.type
        if isinstance(kind, TensorType):
            shape = _sized(kind.shape, sizes)
            if shape is None:
                return None
            total += prod(shape) * kind.dtype.itemsize
    return total


def _sized(shape: Sequence[Size], sizes: Mapping[str, int]) -> list[int] | None:
    """A shape in numbers; None if a size is not known or cannot be computed from ``sizes``."""
    known = [size for size in shape if type(size) is int]
    if len(known) == len(shape):  # the usual case
        return known
    try:
        return [evaluate(size, sizes) for size in shape]
    except (EagerflowError, ZeroDivisionError):
        return None


# --- copying ----------------------------------------------------------------------------------


def clone(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """A copy of ``graph``, and for each of its values the value of the copy.

    Attributes, subgraphs among them, are shared with the original.
    """
    result = Graph(graph.name)
    result.resources = dict(graph.resources)
    values: dict[Value, Value] = {}
    nodes: dict[Node, Node] = {}
    for value in graph.inputs:
        values[value] = result.add_input(value.type, value.label, value.stated)
        values[value].label = value.label
    for node in graph.nodes:
        inputs = [values[v] for v in node.inputs]
        before = tuple([nodes[n] for n in node.control_inputs])
        made = nodes[node] = copy_node(result, node, inputs, control_inputs=before)
        values.update(zip(node.outputs, made.outputs, strict=True))
    result.outputs = [values[v] for v in graph.outputs]
    return result, values


def copy_node(
    graph: Graph, node: Node, inputs: Iterable[Value], control_inputs: tuple[Node, ...] = (),
    home: Device | None = None,
) -> Node:  # fmt: skip
    """Append to ``graph`` a copy of ``node`` that takes ``inputs``.

    Args:
        graph: the graph that gets the copy.
        node: the node to copy.
        inputs: values of ``graph``.
        control_inputs: nodes of ``graph`` that the copy waits for; those of ``node`` are dropped.
        home: the device of the copy and its outputs, if not that of ``node`` and its outputs.
    """
    made = Node(
        node.op, graph.unique(node.name), tuple(inputs), dict(node.attrs), (), control_inputs,
        node.device if home is None else home, node.because, node.scope, node.source, node.reuses,
        node.forward, node.within,
    )  # fmt: skip
    made.outputs = tuple(
        [
            Value(value.type, made, i, "", value.stated if home is None else None)
            for i, value in enumerate(node.outputs)
        ]
    )
    graph.nodes.append(made)
    return made


def with_graphs(item: Any, change: Callable[[Graph], Graph]) -> Any:
    """An attribute with each subgraph mapped by ``change``; itself if none changes."""
    if type(item) is Graph:
        return change(item)
    if type(item) is tuple and Graph in map(type, item):
        parts = tuple([with_graphs(part, change) for part in item])
        return item if all(a is b for a, b in zip(item, parts, strict=True)) else parts
    return item


def copied(item: Any) -> Any:
    """An attribute with deep copies of its subgraphs."""
    return with_graphs(item, _deep_copy)


def _deep_copy(graph: Graph) -> Graph:
    copy, _ = clone(graph)
    for node in copy.nodes:
        node.attrs = {key: copied(value) for key, value in node.attrs.items()}
    return copy


def substitute_sizes(graph: Graph, sizes: Mapping[str, Size]) -> None:
    """Replace names by other sizes in all types and attributes, in place.

    Args:
        graph: the graph; its subgraphs are changed as well.
        sizes: the new size of each name.
    """
    known: dict[int, tuple[ValueType, ValueType]] = {}  # types are shared: by identity
    for value in graph.values():
        kind = value.type
        if id(kind) not in known:
            known[id(kind)] = kind, in_sizes(kind, sizes)
        value.type = known[id(kind)][1]
    for node in graph.nodes:
        for key, item in node.attrs.items():
            if type(item) is Graph:
                substitute_sizes(item, sizes)
            else:
                node.attrs[key] = in_sizes(item, sizes)


def in_sizes(item: Any, sizes: Mapping[str, Size]) -> Any:
    """A type, or an attribute, with other sizes in place of names; subgraphs are copied."""
    kind = type(item)
    if not sizes or kind is NumberType:
        return item
    if kind is TensorType or kind is TensorSpec:
        named = any(type(d) is Dim for d in item.shape)
        return item.like(shape=in_sizes(item.shape, sizes)) if named else item
    if kind is Dim:
        return substitute(item, sizes)
    if kind is tuple:
        return tuple([in_sizes(part, sizes) for part in item])
    if kind is slice:
        return slice(*in_sizes((item.start, item.stop, item.step), sizes))
    if kind is Graph:
        item = copied(item)
        substitute_sizes(item, sizes)
    return item
