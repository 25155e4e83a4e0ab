"""A graph encoded as columns, compressed and in pieces, for views that draw it; sent once.

The bytes are a zlib stream. In it come, all little-endian:

- ``u32`` the number of bytes of the head; the head, JSON in UTF-8; zeros up to a multiple of 8;
- the columns one after the other, each padded with zeros to a multiple of 8.

The head has ``version``, ``graph`` (its name), ``nodes`` and ``edges`` (their numbers), ``inputs``
and ``outputs`` of the graph (the text of each), ``strings`` (a list) and ``columns``: for each its
name, its type (``u4`` or ``i4``) and its length. A column of texts holds indices into ``strings``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import Any, Final, final

import numpy as np

from eagerflow.graph.edit import flat_items, nbytes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import kind_of
from eagerflow.pictures.contents import constant_text, resource_type
from eagerflow.pictures.groups import is_move
from eagerflow.pictures.layers import layers_of
from eagerflow.resources.variable import VariableState
from eagerflow.types import DType, text_of

VERSION: Final = 1
#: bytes of a piece at most
PIECE: Final = 64_000
#: compression level: a third of the time of the usual level, and a tenth more bytes
_LEVEL: Final = 2
#: bytes of a value at most; larger sizes are reported as this one
_MOST_BYTES: Final = (1 << 31) - 1
#: types of attributes shown (others are graphs, resources and functions); and characters of one
_SAID: Final = (bool, int, float, str, tuple, DType)
_LONGEST: Final = 60


@final
class NodeIndex:
    """The nodes of a graph and of its subgraphs, numbered in the order of the text form.

    Args:
        graph: the graph, which must not change afterwards.

    Attributes:
        graph: the same.
        nodes: all nodes, each before the nodes of its subgraphs.
        parents: for each node the number of the node whose subgraph it is in; -1 for none.
        within: for each node the name of that subgraph, such as ``body``.

    >>> from eagerflow.watching.graph_columns import NodeIndex
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> index = NodeIndex(graph)
    >>> index.of(graph.nodes[0]), index.named("y")
    (0, 0)
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.parents: list[int] = []
        self.within: list[str] = []
        for node, parent, within in _walk(graph, -1, "", self.nodes):
            self.nodes.append(node)
            self.parents.append(parent)
            self.within.append(within)
        self._numbers = {id(node): number for number, node in enumerate(self.nodes)}
        self._names: dict[str, int] = {}
        for number, node in enumerate(self.nodes):
            self._names.setdefault(node.name, number)

    @cached_property
    def layers(self) -> list[str]:
        """For each node the layer that it works for (`eagerflow.pictures.layers`)."""
        return layers_of(self.graph, self.nodes, self.parents)

    def of(self, node: Node) -> int | None:
        """The number of a node; of a node of a derived graph, the number of its namesake."""
        number = self._numbers.get(id(node))
        return self._names.get(node.name) if number is None else number

    def named(self, name: str) -> int | None:
        """The number of the first node of this name."""
        return self._names.get(name)


def _walk(
    graph: Graph, parent: int, within: str, known: list[Node]
) -> Iterator[tuple[Node, int, str]]:  # fmt: skip
    for node in graph.nodes:
        yield node, parent, within
        number = len(known) - 1
        for name, inner in node.subgraphs():
            yield from _walk(inner, number, name, known)


@final
class _Strings:
    """A table of distinct texts, by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, texts: Iterable[str]) -> list[int]:
        known = self.numbers
        return [known.setdefault(text, len(known)) for text in texts]


@final
class _Types:
    """Texts of types with their devices; values of one op in one place share the record."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Any], str] = {}  # by id, as symbolic dims cannot be hashed

    def __call__(self, value: Value) -> str:
        key = id(value.type), value.device
        text = self._known.get(key)
        if text is None:
            text = self._known[key] = text_of(value.type, value.device)
        return text


def encode_structure(index: NodeIndex) -> bytes:
    """The columns of a graph, compressed (see above).

    For each node: ``op``, ``name``, ``scope``, ``layer`` (`layers_of`), ``device``, ``reason``,
    ``source``, ``type`` (of its outputs) are texts; ``parent`` is the node whose subgraph it is in,
    ``forward`` its forward node, both -1 for none. ``within`` names that subgraph; ``kind`` is
    ``move``, or the kind of the node (`eagerflow.graph.signatures`); ``value`` is the value of a
    constant; ``resources`` are the names and types of the resources that it uses, a line each, and
    ``effect`` is its effect on them; ``attributes`` are its attributes of types such as number and
    text, a line each; ``bytes`` is the size of its outputs, -1 if it is not known.

    For each edge: ``from`` and ``to`` are nodes, or -1 - i for input i, and output i, of the graph;
    ``output`` is the index of the output of ``from``, -1 for a control edge.
    """
    strings = _Strings()
    nodes = index.nodes
    names = _resource_names(index)
    types = _Types()
    source_text = cache(str)  # all nodes of a line share one record
    kind = cache(kind_of)
    columns: dict[str, tuple[str, list[int]]] = {
        "op": ("u4", strings(n.op for n in nodes)),
        "name": ("u4", strings(n.name for n in nodes)),
        "scope": ("u4", strings(n.scope for n in nodes)),
        "layer": ("u4", strings(index.layers)),
        "device": ("u4", strings(str(n.device or "") for n in nodes)),
        "reason": ("u4", strings(n.because for n in nodes)),
        "source": ("u4", strings(source_text(n.source or "") for n in nodes)),
        "type": ("u4", strings(", ".join(map(types, n.outputs)) for n in nodes)),
        "parent": ("i4", index.parents),
        "forward": ("i4", [_number(index, n.forward) for n in nodes]),
        "within": ("u4", strings(index.within)),
        "kind": ("u4", strings("move" if is_move(n) else kind(n.op) for n in nodes)),
        "value": ("u4", strings(constant_text(n) if n.op == "constant" else "" for n in nodes)),
        "resources": ("u4", strings(_resources(n, names) for n in nodes)),
        "effect": ("u4", strings(effect_of(n) for n in nodes)),
        "attributes": ("u4", strings(_attributes(n) for n in nodes)),
        "bytes": ("i4", [_bytes(n) for n in nodes]),
    }  # fmt: skip
    edges = list(_edges(index))
    for place, name in enumerate(("from", "to", "output")):
        columns[name] = "i4", [edge[place] for edge in edges]
    head = {
        "version": VERSION, "graph": index.graph.name, "nodes": len(nodes), "edges": len(edges),
        "inputs": [f"{v.name}: {v.type}" for v in index.graph.inputs],
        "outputs": [str(v.type) for v in index.graph.outputs],
        "strings": list(strings.numbers),
        "columns": [[name, kind, len(numbers)] for name, (kind, numbers) in columns.items()],
    }  # fmt: skip
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    parts = [_padded(len(text).to_bytes(4, "little") + text)]
    parts += [_padded(np.array(n, f"<{kind}").tobytes()) for kind, n in columns.values()]
    return zlib.compress(b"".join(parts), _LEVEL)


def decode_structure(data: bytes) -> dict[str, Any]:
    """The inverse of `encode_structure`: the head, with lists of numbers for its columns."""
    raw = zlib.decompress(data)
    length = int.from_bytes(raw[:4], "little")
    head: dict[str, Any] = json.loads(raw[4 : 4 + length])
    position = _multiple(4 + length)
    columns: dict[str, list[int]] = {}
    for name, kind, count in head["columns"]:
        columns[name] = np.frombuffer(raw, f"<{kind}", count, position).tolist()
        position += _multiple(4 * count)
    return {**head, "columns": columns}


def pieces(data: bytes) -> list[bytes]:
    """The bytes in pieces that fit into messages."""
    return [data[i : i + PIECE] for i in range(0, len(data), PIECE)]


def _edges(index: NodeIndex) -> Iterator[tuple[int, int, int]]:
    inputs = {value: -1 - i for i, value in enumerate(index.graph.inputs)}
    for number, node in enumerate(index.nodes):
        for value in node.inputs:
            maker = _number(index, value.node)
            if maker >= 0 or value in inputs:
                yield inputs.get(value, maker), number, value.index
        for before in node.control_inputs:
            maker = _number(index, before)
            if maker >= 0:
                yield maker, number, -1
    for i, value in enumerate(index.graph.outputs):
        maker = _number(index, value.node)
        if maker >= 0 or value in inputs:
            yield inputs.get(value, maker), -1 - i, value.index


def _resource_names(index: NodeIndex) -> dict[int, str]:
    """The names of resources, by their identity."""
    names: dict[int, str] = {}
    graphs = [index.graph, *(inner for node in index.nodes for _, inner in node.subgraphs())]
    for graph in graphs:
        for name, resource in graph.resources.items():
            names.setdefault(id(resource), name)
    return names


def _resources(node: Node, names: dict[int, str]) -> str:
    if not node.attrs:
        return ""
    used = {id(item): item for item in flat_items(node.attrs.values()) if id(item) in names}
    return "\n".join([f"{names[key]}: {_resource(item)}" for key, item in used.items()])


def _resource(resource: Any) -> str:
    """The type of a resource; a variable also says if it is no parameter."""
    is_state = isinstance(resource, VariableState) and not resource.trainable
    return f"{resource_type(resource)}, not trainable" if is_state else resource_type(resource)


def _attributes(node: Node) -> str:
    if not node.attrs or node.op == "constant":
        return ""
    texts = [f"{k}={_clipped(str(v))}" for k, v in node.attrs.items() if isinstance(v, _SAID)]
    return "\n".join(texts)


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _bytes(node: Node) -> int:
    size = nbytes(node.outputs)
    return -1 if size is None else min(size, _MOST_BYTES)


def _number(index: NodeIndex, node: Node | None) -> int:
    number = None if node is None else index.of(node)
    return -1 if number is None else number


def _multiple(length: int) -> int:
    return -(-length // 8) * 8


def _padded(data: bytes) -> bytes:
    return data.ljust(_multiple(len(data)), b"\0")
