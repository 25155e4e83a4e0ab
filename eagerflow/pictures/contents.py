"""The contents of a picture of a graph: boxes, edges, and the groups around them.

For the style of each kind see `eagerflow.pictures.by_graphviz` and
`eagerflow.pictures.by_own_layout`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

from eagerflow.core.tensor import Tensor
from eagerflow.graph.edit import flat_items, nbytes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import is_loop, lead_of
from eagerflow.graph.text.constants import has_values, numbers
from eagerflow.graph.text.printer import Printer
from eagerflow.graph.value_types import Reference
from eagerflow.pictures.groups import ENDS, Group, group_nodes, is_move, is_on_several
from eagerflow.resources.kind_words import class_of, kind_name

BoxKind = Literal["op", "input", "output", "constant", "resource", "closed"]
EdgeKind = Literal["data", "control", "state", "body"]

#: characters of a line, and of a title
_LINE: Final = 32
_TITLE: Final = 600


@final
@dataclass(slots=True, eq=False)
class Box:
    """A box of the picture.

    Attributes:
        kind: its kind, which decides its style.
        lines: its text.
        title: more text, shown under the pointer.
        group: the open group that it is in.
        device: the device of its nodes, if all run on one device.
    """

    kind: BoxKind
    lines: list[str]
    title: str
    group: Group
    device: str | None = None


@final
@dataclass(slots=True, eq=False)
class Edge:
    """An edge from one box to another.

    Attributes:
        source: the box where it begins.
        target: the box where it ends.
        kind: ``"data"``, ``"control"``, ``"state"`` (between a resource and an op), or ``"body"``
            (from an op to the inputs of its body).
        values: the values of a data edge, each once.
        moved: the values among them that go to another device, each with its original.
        both: whether it has arrows at both ends.
    """

    source: Box
    target: Box
    kind: EdgeKind
    values: dict[Value, None] = field(default_factory=dict)
    moved: dict[Value, Value] = field(default_factory=dict)
    both: bool = False

    @property
    def label(self) -> str:
        """The type, or the number of values; and the number of bytes that go to another device."""
        if len(self.values) > 1:
            text = f"{len(self.values)} values"
        else:
            text = "".join(clip(str(v.type), 24) for v in self.values)
        size = nbytes(self.moved) if self.moved else None
        return text if size is None else f"{text}, {size_text(size)}"

    @property
    def title(self) -> str:
        """The label, with the devices of moves."""
        ways = dict.fromkeys(f"{made.device} to {v.device}" for v, made in self.moved.items())
        return "\n".join([self.label, *ways])


@final
@dataclass(slots=True, eq=False)
class Contents:
    """The contents of a picture.

    Attributes:
        root: the group of the whole graph.
        boxes: the boxes, roughly in the order of the graph.
        edges: the edges, in the order of their first use.
        devices: the devices of boxes, in the order of their first use.
    """

    root: Group
    boxes: list[Box]
    edges: list[Edge]
    devices: list[str]


def size_text(count: int) -> str:
    """A number of bytes in the unit that keeps it short."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def clip(text: str, length: int = _LINE) -> str:
    """``text`` in one line of 1 to ``length`` characters."""
    text = " ".join(text.split()) or " "  # Graphviz 14 dies of empty lines
    return text if len(text) <= length else text[: length - 1] + "…"


def visible(text: str) -> str:
    """``text`` with unprintable characters replaced."""
    return "".join(
        [c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text]
    )


def contents_of(graph: Graph, limit: int = 300) -> Contents:
    """The contents of a picture of ``graph`` with at most about ``limit`` boxes."""
    several = is_on_several(graph)
    drawing = _Drawing(group_nodes(graph, limit, several=several), several)
    drawing.add(graph)
    drawing.add_resources()
    devices = dict.fromkeys(b.device for b in drawing.boxes if b.device is not None)
    return Contents(drawing.root, drawing.boxes, drawing.needed_edges(), list(devices))


@final
class _Drawing:
    def __init__(self, root: Group, several: bool) -> None:
        self.root = root
        self.several = several  # whether there are several devices; a single one is not shown
        self.printer = Printer(sources=False, bodies=False)
        self.boxes: list[Box] = []
        self.edges: dict[tuple[int, int, EdgeKind], Edge] = {}
        self.homes = {node: group for group in root.walk() for node in group.nodes}
        self.closed = {group: group.shown() for group in root.walk()}
        self.graphs = {g.graph: g for g in root.walk() if g.graph is not None}
        self.added: set[Graph] = set()  # a body that two calls share is drawn once
        self.moves: set[Node] = set()  # drawn as edges, not as boxes
        self.sends: dict[Any, Node] = {}  # by the names of their edges
        self.made: dict[Any, Box] = {}  # by node, value, or closed group
        self.names: dict[int, str] = {}  # of resources, by identity
        #: by identity: a resource, its name, and the nodes that use it
        self.resources: dict[int, tuple[Any, str, list[Node]]] = {}

    # --- nodes ---

    def add(self, graph: Graph, owner: Node | None = None) -> None:
        """Draw the inputs, nodes and outputs of ``graph``, a subgraph of ``owner`` if given.

        Unused inputs of a body or a branch, and results of a loop's body that are its unchanged
        inputs, are left out as uninformative.
        """
        self.added.add(graph)
        self.printer.enter(graph)
        home = self.graphs[graph]
        for name, resource in graph.resources.items():
            self.names.setdefault(id(resource), name)
        outputs = _results(graph, owner)
        self.moves |= _single_moves(graph) if self.several else set()
        taken = {v for n in graph.nodes for v in n.inputs}.union(outputs.values())
        if self.closed[home] is None:
            inputs = [v for v in graph.inputs if owner is None or v in taken]
            self.ends("input", dict(enumerate(inputs)), home)
        for node in graph.nodes:
            if (self.is_small(node) or node in self.moves) and not taken.isdisjoint(node.outputs):
                continue
            box = self.box(node)
            for value in node.inputs:
                self.join_value(value, graph, box, node)
            for before in node.control_inputs:
                self.join(self.box(before), box, "control")
            self.join_ends(node, box)
            for item in flat_items(node.attrs.values()):
                if id(item) in self.names:
                    entry = self.resources.setdefault(id(item), (item, self.names[id(item)], []))
                    entry[2].append(node)
            for body in [b for _, b in node.subgraphs() if b not in self.added]:
                self.add(body, node)
                self.join_body(box, body)
        if self.closed[home] is None:
            results = self.ends("output", outputs, home)
            for value, result in zip(outputs.values(), results, strict=True):
                self.join_value(value, graph, result)

    def join_value(self, value: Value, graph: Graph, user: Box, taker: Node | None = None) -> None:
        """Draw an edge from the box that ``value`` comes from, perhaps on another device."""
        made = value
        while made.node is not None and made.node in self.moves:
            made = made.node.inputs[0]
        origin = self.source(made, graph, user)
        if origin is user:
            return
        if taker is not None and self.several and is_move(taker):
            (value,) = taker.outputs
        edge = self.join(origin, user, "data")
        edge.values[value] = None
        if made.device != value.device:
            edge.moved[value] = made

    def join_ends(self, node: Node, box: Box) -> None:
        """Draw an edge from a Send to its Recv, if the graph has both."""
        lead = lead_of(node.op)
        if lead == "send":
            self.sends[node.attrs["edge"]] = node
        sent = self.sends.get(node.attrs["edge"]) if lead == "receive" else None
        if sent is None:
            return
        edge = self.join(self.box(sent), box, "data" if node.outputs else "control")
        edge.values.update(dict.fromkeys(node.outputs))
        if not sent.attrs.get("shape"):
            edge.moved.update(zip(node.outputs, sent.inputs, strict=True))

    def join_body(self, box: Box, body: Graph) -> None:
        """Draw edges from the node to the inputs of its body that are drawn."""
        if self.closed[self.graphs[body]] is None:
            for value in body.inputs:
                if value in self.made:
                    self.join(box, self.made[value], "body")

    def box(self, node: Node) -> Box:
        """The box in which ``node`` is shown."""
        home = self.homes[node]
        closed = self.closed[home]
        key: Any = node if closed is None else closed
        box = self.made.get(key)
        if box is None:
            box = self.op_box(node, home) if closed is None else self.closed_box(closed)
            self.made[key] = box
            self.boxes.append(box)
        return box

    def is_small(self, node: Node) -> bool:
        """Whether a node is a constant, which has a separate box beside each consumer."""
        return node.op == "constant" and self.closed[self.homes[node]] is None

    def source(self, value: Value, graph: Graph, user: Box) -> Box:
        """The box that ``value`` comes from, for its consumer ``user``."""
        if value.node is not None and self.is_small(value.node):
            key = (value.node, user)
            if key not in self.made:
                box = self.made[key] = self.op_box(value.node, user.group)
                self.boxes.insert(self.boxes.index(user), box)
            return self.made[key]
        if value.node is not None:
            return self.box(value.node)
        closed = self.closed[self.graphs[graph]]
        return self.made[value if closed is None else closed]

    def ends(self, kind: BoxKind, values: dict[int, Value], home: Group) -> list[Box]:
        """Boxes for the inputs or outputs of a graph: one each, or one for all if many."""
        if len(values) > ENDS:
            text = "\n".join(map(repr, values.values()))
            boxes = [Box(kind, [f"{len(values)} {kind}s"], text[:_TITLE], home)]
            ends = boxes * len(values)
        else:
            boxes = ends = [
                Box(kind, _end_lines(kind, v, i), repr(v), home, self.device(v))
                for i, v in values.items()
            ]
        self.boxes += boxes
        if kind == "input":
            self.made.update(zip(values.values(), ends, strict=True))
        return ends

    def join(self, source: Box, target: Box, kind: EdgeKind) -> Edge:
        """The edge between two boxes (not drawn if they are the same)."""
        key = (id(source), id(target), kind)
        edge = self.edges.get(key)
        if edge is None:
            edge = Edge(source, target, kind)
            if source is not target:
                self.edges[key] = edge
        return edge

    def needed_edges(self) -> list[Edge]:
        """The edges without control edges that other paths imply."""
        kept = list(self.edges.values())
        ways: dict[Box, list[Box]] = {}
        for edge in kept:
            if edge.kind in ("data", "control"):
                ways.setdefault(edge.source, []).append(edge.target)
        for edge in [e for e in kept if e.kind == "control"]:
            ways[edge.source].remove(edge.target)
            if _leads(ways, edge.source, edge.target):
                kept.remove(edge)
            else:
                ways[edge.source].append(edge.target)
        return kept

    # --- resources ---

    def add_resources(self) -> None:
        """Draw each resource, unless all its users are shown as one box.

        A resource has one box for its writers and one for all other users: state is read at the top
        of a graph and written at its end, and edges back to the top would cover everything.
        """
        shown = []
        for resource, name, nodes in self.resources.values():
            users = list(dict.fromkeys(map(self.box, nodes)))
            if len(users) > 1 or users[0].kind != "closed":
                shown.append((resource, name, nodes))
        together: dict[tuple[int, ...], Box] = {}
        many = len(shown) > ENDS
        for resource, name, nodes in shown:
            for writes in (False, True):
                part = [node for node in nodes if (effect_of(node) == "writes") is writes]
                users = list(dict.fromkeys(map(self.box, part)))
                if users:
                    key = (*map(id, users), writes) if many else (id(resource), writes)
                    box = together.get(key)
                    if box is None:
                        box = together[key] = self.resource_box(users)
                    _name_resource(box, name, resource)
                    for node in part:
                        self.join_resource(box, node)

    def resource_box(self, users: list[Box]) -> Box:
        """A box, without a text as yet, for resources of ``users``."""
        box = Box("resource", [], "", users[0].group, users[0].device)
        self.boxes.insert(self.boxes.index(users[0]), box)
        return box

    def join_resource(self, box: Box, node: Node) -> None:
        effect = effect_of(node)
        if effect == "writes":
            self.join(self.box(node), box, "state")
        else:
            self.join(box, self.box(node), "state").both = effect != "reads"

    # --- texts ---

    def device(self, of: Node | Value) -> str | None:
        """The device of a node or a value, if devices are shown."""
        return str(of.device) if self.several and of.device is not None else None

    def op_box(self, node: Node, home: Group) -> Box:
        """The box of a node."""
        title = self.printer.node(node, "")
        if node.source is not None:
            title += f"\n{node.source}"
        if node.op == "constant":
            return Box("constant", [constant_text(node)], title[:_TITLE], home, self.device(node))
        lines = [clip(node.op)]
        if self.several and is_move(node):
            where = self.device(node.outputs[0])
            return Box("op", [f"from {node.inputs[0].device}"], title[:_TITLE], home, where)
        if not node.name.startswith((node.op, node.op.lower())):
            lines.append(clip(f"%{node.name}"))
        if "edge" in node.attrs:  # the edge to the other end shows the other attributes
            lines.append(clip(str(node.attrs["edge"])))
            return Box("op", lines, title[:_TITLE], home, self.device(node))
        attrs = [
            f"{k}={self.printer.literal(v, '')}"
            for k, v in node.attrs.items()
            if v is not None and v is not False and _is_short(v)
        ]
        if attrs:
            lines.append(clip(", ".join(attrs)))
        return Box("op", lines, title[:_TITLE], home, self.device(node))

    def closed_box(self, group: Group) -> Box:
        """The box of a closed group."""
        count = group.count()
        ops = [op if n == 1 else f"{n} {op}" for op, n in count.most_common()]
        title = f"{group.name}: {', '.join(ops)}"
        home = group.parent
        assert home is not None
        if group.kind == "node":
            (owner,) = group.nodes
            lines = [clip(owner.op), f"{_nodes(count.total() - 1)} inside"]
            title = f"{self.printer.node(owner, '')}\n{title}"
            return Box("closed", lines, title[:_TITLE], home, self.device(owner))
        lines = [clip(group.name), _nodes(count.total()), clip(", ".join(ops))]
        return Box("closed", lines, title[:_TITLE], home, group.device() if self.several else None)


def _single_moves(graph: Graph) -> set[Node]:
    """The nodes that only move a value to a single consumer, or to a single result."""
    users = Counter(v for node in graph.nodes for v in dict.fromkeys(node.inputs))
    users.update(graph.outputs)
    before = {n for node in graph.nodes for n in node.control_inputs}
    moves = (node for node in graph.nodes if is_move(node) and node not in before)
    return {n for n in moves if not n.control_inputs and users[n.outputs[0]] == 1}


def _results(graph: Graph, owner: Node | None) -> dict[int, Value]:
    """The outputs of a graph that are drawn, by index."""
    iteration = owner is not None and is_loop(owner.op) and owner.attrs.get("body") is graph
    same = zip(graph.inputs, graph.outputs, strict=False) if iteration else ()
    handed_on = {i for i, (given, result) in enumerate(same) if given is result}
    return {i: v for i, v in enumerate(graph.outputs) if i not in handed_on}


def _name_resource(box: Box, name: str, resource: Any) -> None:
    """Add a resource to the text of its box."""
    box.title += f"@{name}: {resource_type(resource)}\n"
    box.lines = [clip(f"@{name}"), clip(resource_type(resource))]
    count = box.title.count("\n")
    if count > 1:
        box.lines = [f"{count} resources"]


def _leads(ways: dict[Box, list[Box]], source: Box, target: Box) -> bool:
    """Whether there is a path between two boxes."""
    waiting, met = [source], {source}
    while waiting:
        for box in ways.get(waiting.pop(), ()):
            if box is target:
                return True
            if box not in met:
                met.add(box)
                waiting.append(box)
    return False


# --- texts ------------------------------------------------------------------------------------


def _nodes(count: int) -> str:
    return f"{count:,} node{'' if count == 1 else 's'}"


def _is_short(value: Any) -> bool:
    """Whether an attribute is worth showing in the picture."""
    kinds = (bool, int, float, complex, str, tuple, slice, type(None))
    return isinstance(value, kinds) and not any(isinstance(v, Graph) for v in flat_items((value,)))


def constant_text(node: Node) -> str:
    """The value of a constant if it is short, else its type."""
    value = node.attrs.get("value")
    if isinstance(value, Tensor):
        texts = numbers(value) if has_values(value) else None
        if texts is None or len(texts) > 4:
            return clip(str(value.type))
        return clip(", ".join(texts))
    return clip(str(value.type) if isinstance(value, Reference) else repr(value))


def _end_lines(kind: BoxKind, value: Value, position: int) -> list[str]:
    if kind == "output":
        return [f"result {position}", clip(str(value.type))]
    return [clip(f"%{value.name}"), clip(str(value.type))]


def resource_type(resource: Any) -> str:
    """Text of a resource's kind: the type of a variable, else words such as ``fifo queue``."""
    if hasattr(resource, "dtype") and hasattr(resource, "shape"):
        return f"{resource.dtype.short}[{','.join(map(str, resource.shape))}]"
    if isinstance(resource, Reference):
        return resource.kind
    words = [getattr(resource, "kind", ""), kind_name(class_of(resource))]
    return " ".join(dict.fromkeys(filter(None, words)))  # such as "fifo queue"
