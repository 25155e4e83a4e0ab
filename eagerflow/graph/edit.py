"""What passes need to look at graphs and to make new ones from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any

from eagerflow.dims import Dim, Size, substitute
from eagerflow.errors import GraphError
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import ValueType
from eagerflow.graph.text.printer import Printer, print_literal
from eagerflow.types import TensorType

__all__ = [
    "clone",
    "computation",
    "copied",
    "copy_node",
    "find_early_use",
    "named_sizes",
    "needed",
    "size_makers",
    "sizes_named_by",
    "sort_nodes",
    "structural_hash",
    "substitute_sizes",
    "users",
]


# --- looking ----------------------------------------------------------------------------------


def users(graph: Graph) -> dict[Value, list[Node]]:
    """For each value that has readers its readers, in order, each once.

    >>> from eagerflow.graph.edit import users
    >>> text = "graph f(%x: f32[]) { %y = exp(%x) : f32[] %z = add(%x, %y) : f32[] return %z }"
    >>> {v.name: [n.name for n in nodes] for v, nodes in users(ef.Graph.parse(text)).items()}
    {'x': ['y', 'z'], 'y': ['z']}
    """
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(node.inputs):
            readers.setdefault(value, []).append(node)
    return readers


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


def find_early_use(graph: Graph) -> tuple[Node, Node] | None:
    """The first node that precedes a node which it needs, and that node; None if there is none.

    Raises:
        GraphError: a node needs a node that is not in the graph.
    """
    place = {node: i for i, node in enumerate(graph.nodes)}
    for i, node in enumerate(graph.nodes):
        for before in _before(node):
            if before not in place:
                raise GraphError(f"&{node.name} needs &{before.name}, which is not in the graph")
            if place[before] >= i:
                return node, before
    return None


def sort_nodes(graph: Graph) -> None:
    """Bring the nodes into an order in which they can run, moving as few as possible.

    Of the nodes that can come next, the first in the old order is taken.

    Raises:
        GraphError: nodes need each other, or a node that is not in the graph.
    """
    if find_early_use(graph) is None:
        return
    place = {node: i for i, node in enumerate(graph.nodes)}
    after: dict[Node, list[Node]] = {}
    missing: dict[Node, int] = {}
    for node in graph.nodes:
        before = dict.fromkeys(_before(node))
        missing[node] = len(before)
        for other in before:
            after.setdefault(other, []).append(node)
    ready = [place[node] for node, count in missing.items() if not count]
    ordered = []
    while ready:
        node = graph.nodes[heappop(ready)]
        ordered.append(node)
        for other in after.get(node, ()):
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, place[other])
    if len(ordered) < len(graph.nodes):
        stuck = [f"&{node.name}" for node, count in missing.items() if count]
        raise GraphError("nodes need each other", given=", ".join(stuck[:10]))
    graph.nodes = ordered


def _before(node: Node) -> Iterable[Node]:
    yield from (v.node for v in node.inputs if v.node is not None)
    yield from node.control_inputs


# --- copying ----------------------------------------------------------------------------------


def clone(
    graph: Graph,
    *,
    replace: Mapping[Value, Value] | None = None,
    keep: Callable[[Node], bool] | None = None,
) -> tuple[Graph, dict[Value, Value]]:
    """A copy of ``graph``; attributes, subgraphs among them, are shared with it.

    Args:
        graph: the graph.
        replace: values to take other values of the graph for, wherever they are used.
        keep: which nodes to keep; by default all. What waited for a dropped node waits for those
            that the dropped one waited for.

    Where something is replaced or dropped, no node of the copy reuses a buffer.

    Returns:
        The copy, and for each value of ``graph`` that is in it the one of the copy.

    Raises:
        GraphError: a dropped node is needed.
    """
    result = Graph(graph.name)
    result.resources = dict(graph.resources)
    values: dict[Value, Value] = {}
    nodes: dict[Node, tuple[Node, ...]] = {}  # what a control edge from a node has become
    for value in graph.inputs:
        values[value] = result.add_input(value.type, value.label, value.stated)
        values[value].label = value.label
    for node in graph.nodes:
        before = tuple(dict.fromkeys(n for c in node.control_inputs for n in nodes[c]))
        if keep is None or keep(node):
            inputs = [_resolve(v, replace, values) for v in node.inputs]
            made = copy_node(result, node, inputs, control_inputs=before)
            if replace or keep is not None:  # other values may be needed for longer
                made.reuses = None
            values.update(zip(node.outputs, made.outputs, strict=True))
            nodes[node] = (made,)
        else:
            nodes[node] = before
    result.outputs = [_resolve(v, replace, values) for v in graph.outputs]
    return result, values


def _resolve(
    value: Value, replace: Mapping[Value, Value] | None, values: Mapping[Value, Value]
) -> Value:
    met = {value}
    while replace and value in replace:
        value = replace[value]
        if value in met:
            raise GraphError(f"%{value.name} is replaced by itself")
        met.add(value)
    if value not in values:
        raise GraphError(f"%{value.name} is used, and its node was dropped or comes later")
    return values[value]


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
            known[id(kind)] = kind, _substitute_type(kind, sizes)
        value.type = known[id(kind)][1]
    for node in graph.nodes:
        for key, item in node.attrs.items():
            node.attrs[key] = _substitute_item(item, sizes)


def _substitute_type(kind: ValueType, sizes: Mapping[str, Size]) -> ValueType:
    if isinstance(kind, TensorType) and any(isinstance(d, Dim) for d in kind.shape):
        return kind.like(shape=_substitute_item(kind.shape, sizes))
    return kind


def _substitute_item(item: Any, sizes: Mapping[str, Size]) -> Any:
    kind = type(item)
    if kind is Dim:
        return substitute(item, sizes)
    if kind is tuple:
        return tuple([_substitute_item(i, sizes) for i in item])
    if kind is slice:
        return slice(*_substitute_item((item.start, item.stop, item.step), sizes))
    if kind is Graph:
        substitute_sizes(item, sizes)
    return item


# --- comparing --------------------------------------------------------------------------------


def computation(node: Node) -> tuple[Any, ...]:
    """What tells apart nodes that compute different things: op, inputs, attributes, device.

    Attributes are compared by their text, for which ``1``, ``1.0`` and ``True``, or ``0.0`` and
    ``-0.0``, are different, and all NaNs alike; objects without a text by identity.
    """
    attrs = tuple([(k, _attribute_key(v)) for k, v in sorted(node.attrs.items())])
    return node.op, node.inputs, attrs, node.device


def _attribute_key(value: Any) -> str | int:
    if type(value) is Graph:
        return id(value)
    try:
        return print_literal(value)
    except GraphError:
        return id(value)


def structural_hash(graph: Graph) -> str:
    """Equal for graphs that differ in names, scopes and sources only.

    The order of nodes counts. Resources are told apart, but not by what they hold; constants are
    compared bit by bit.
    """
    printer = Printer(strict=True, canonical=True)
    digest = blake2b(digest_size=16)
    for line in printer.graph(graph):
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()
