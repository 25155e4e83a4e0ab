"""What passes need to look at graphs and to make new ones from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eagerflow.dims import Dim, Size, substitute
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import NumberType, ValueType
from eagerflow.types import TensorSpec, TensorType

__all__ = [
    "clone",
    "copied",
    "copy_node",
    "in_sizes",
    "named_sizes",
    "needed",
    "size_makers",
    "sizes_named_by",
    "substitute_sizes",
]


# --- looking ----------------------------------------------------------------------------------


def needed(graph: Graph, fetches: Iterable[Value | Node], fed: Iterable[Value] = ()) -> list[Node]:
    """The nodes that must run for ``fetches``, in order, by data and control edges.

    A node all of whose results are fed is not among them, unless it is fetched itself: it does not
    run, nor what only it needs, even if what is needed has a control edge to it.

    Args:
        graph: the graph.
        fetches: the values that are wanted, and nodes that are to run.
        fed: values that are there already.
    """
    given = set(fed)
    replaced = {v.node for v in given if v.node is not None and given.issuperset(v.node.outputs)}
    want: set[Node] = set()
    for one in fetches:
        if isinstance(one, Node):
            want.add(one)
        elif one.node is not None and one not in given:
            want.add(one.node)
    makers = size_makers(graph, given)
    nodes = []
    for node in reversed(graph.nodes):
        if node in want:
            nodes.append(node)
            if makers:
                want.update(makers[name] for name in sizes_named_by(node) if name in makers)
            want.update(v.node for v in node.inputs if v.node is not None and v not in given)
            want.update(n for n in node.control_inputs if n not in replaced)
    return nodes[::-1]


def size_makers(graph: Graph, fed: Iterable[Value] = ()) -> dict[str, Node]:
    """For each name of a data-dependent size the node whose result determines it.

    Args:
        graph: the graph.
        fed: values that are there already, as its inputs are: their sizes are known.
    """
    makers: dict[str, Node] = {}
    known = (v.type.shape for v in (*graph.inputs, *fed))
    given = {str(d) for shape in known for d in shape if isinstance(d, Dim) and d.is_name}
    for node in graph.nodes:
        for value in node.outputs:
            for size in value.type.shape:
                if isinstance(size, Dim) and size.is_name and str(size) not in given:
                    makers.setdefault(str(size), node)
    return makers


def named_sizes(item: Any) -> Iterator[str]:
    """The names of sizes in an attribute."""
    kind = type(item)
    if kind is Dim:
        yield from item.symbols
    elif kind is tuple:
        for part in item:
            yield from named_sizes(part)
    elif kind is slice:
        yield from named_sizes((item.start, item.stop, item.step))
    elif kind is Graph:
        for node in item.nodes:
            yield from sizes_named_by(node)


def sizes_named_by(node: Node) -> Iterator[str]:
    """The names of sizes that must be known to run ``node``, and what is inside it."""
    yield from named_sizes(tuple(node.attrs.values()))
    if node.op == "scan":  # its results are made before the first iteration
        for value in node.outputs[node.attrs["carry"] :]:
            yield from named_sizes(value.type.shape)


# --- copying ----------------------------------------------------------------------------------


def clone(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """A copy of ``graph``, and for each of its values that of the copy.

    Attributes, subgraphs among them, are shared with it.
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


def copy_node(graph: Graph, node: Node, inputs: Iterable[Value], **changes: Any) -> Node:
    """Append to ``graph`` a copy of ``node`` that takes ``inputs``.

    Args:
        graph: where to.
        node: what to copy.
        inputs: values of ``graph``.
        changes: arguments of `Graph.add_node` that differ from those of ``node``; its control
            edges are not copied.
    """
    same: dict[str, Any] = {
        "types": [v.type for v in node.outputs],
        "devices": [v.stated for v in node.outputs],
        "attrs": node.attrs,
        "name": node.name,
        "reuses": node.reuses,
        "device": node.device,
        "reason": node.reason,
        "scope": node.scope,
        "source": node.source,
    }
    return graph.add_node(changes.pop("op", node.op), inputs, **{**same, **changes})


def copied(item: Any) -> Any:
    """An attribute with copies of its subgraphs, and of theirs."""
    if type(item) is tuple:
        return tuple([copied(part) for part in item])
    if type(item) is not Graph:
        return item
    copy, _ = clone(item)
    for node in copy.nodes:
        node.attrs = {key: copied(value) for key, value in node.attrs.items()}
    return copy


def substitute_sizes(graph: Graph, sizes: Mapping[str, Size]) -> None:
    """Replace names by other sizes in all types and attributes, in place.

    Args:
        graph: the graph; its subgraphs are changed as well.
        sizes: by name.
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
