"""Construction of the scheduled nodes of a lowered graph, with their edges, slots and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, final

from eagerflow.dims import Dim, evaluate
from eagerflow.errors import GraphError
from eagerflow.graph.edit import size_places, sizes_named_by
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering import is_steering
from eagerflow.graph.lowering.frame_paths import (
    FramePath,
    FramePaths,
    find_size_values,
    is_pivot,
)
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import is_constant, lead_of
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.late_values import late_inputs
from eagerflow.runtime.node_region_graphs import readers_of, region_graph
from eagerflow.runtime.node_seconds import HEAVY_SECONDS
from eagerflow.runtime.scheduled.actions import (
    HEAVY,
    HERE,
    Action,
    asynchronous,
    steering,
)
from eagerflow.runtime.scheduled.node_regions import find_regions
from eagerflow.runtime.scheduled.plan import ENTER, MERGE, NEXT, RUN, SWITCH, Plan, ScheduledNode

_FENCES: Final = ("fence", "blocks")
_PARALLEL: Final = 10


@final
class FrameLayout:
    """The slots of one frame, and the actions of its scheduled nodes.

    Attributes:
        op: the op of the loop, for errors.
        name: the name of its node, for events.
        source: the line of the loop.
        key: the name of the frame in all partitions of a graph.
        actions: of each scheduled node, as the plan numbers them in this frame.
        readers: for each slot the number of scheduled nodes that read it; one more for an output.
        backwards: the slot with the length of a loop that counts iterations downwards; else -1.
    """

    __slots__ = ("actions", "backwards", "key", "name", "op", "readers", "source")

    def __init__(
        self, op: str = "", name: str = "", source: Any = None, key: str = ""
    ) -> None:  # fmt: skip
        self.op = op
        self.key = key
        self.name = name
        self.source = source
        self.actions: list[Action] = []
        self.readers: list[int] = []
        self.backwards = -1

    def slot(self) -> int:
        """A new slot."""
        self.readers.append(0)
        return len(self.readers) - 1


@final
@dataclass(slots=True, eq=False)
class _Record:
    """A scheduled node under construction.

    Attributes:
        kind: as in `ScheduledNode`.
        path: its frame path.
        nodes: the nodes that it runs.
        action: its action.
        inputs: the values that it reads.
        edges: ``(port, record, port there)``.
    """

    kind: int
    path: FramePath
    nodes: Sequence[Node]
    action: Action
    inputs: list[Value]
    edges: list[tuple[int, _Record, int]] = field(default_factory=list)


@final
class PlanBuilder:
    """The scheduled nodes of one or more graphs that run together, and the frames they lie in.

    Attributes:
        frames: the slots and actions of each frame; all graphs share frame 0.
        nodes: the scheduled nodes, as descriptions for `Plan`.
    """

    def __init__(self) -> None:
        self.frames = [FrameLayout()]
        self.nodes: list[ScheduledNode] = []
        self._parents: list[int] = []
        self._limits: list[int] = []

    def add_frame(self, frame: FrameLayout, parent: int, limit: int) -> int:
        """Add a loop, of which up to ``limit`` iterations may run at once."""
        self.frames.append(frame)
        self._parents.append(parent)
        self._limits.append(limit)
        return len(self._parents)

    def plan(self) -> Plan:
        """The plan of all nodes, checked."""
        return Plan(self.nodes, self._parents, self._limits)


@final
class ScheduledNodes:
    """Makes the scheduled nodes of a lowered graph, and their actions.

    Args:
        graph: a lowered graph (see `eagerflow.graph.lowering`).
        seconds: estimated seconds of a node; independent heavy parts become nodes of their own.
        number: of the executable that it belongs to, for events.
        overlap: whether iterations of a loop may overlap; if not, each ends before the next begins.
        workers: number of threads that regions are cut for (see `find_regions`).
        builder: takes the nodes and their frames.

    Attributes:
        branches: whether some heavy nodes could run at once.

    Raises:
        GraphError: the graph is not well formed, or a node of it cannot run.
    """

    def __init__(
        self, graph: Graph, seconds: Callable[[Node], float], number: int, overlap: bool,
        workers: int, builder: PlanBuilder,
    ) -> None:  # fmt: skip
        self.builder = builder
        self.workers = workers
        self.graph = graph
        self.overlap = overlap
        self.seconds = seconds
        self.number = number
        self.paths = FramePaths(graph)
        self.frames = builder.frames
        self.frame_of: dict[FramePath, int] = {(): 0}
        self.slots: dict[Value, int] = {}
        self.records: list[_Record] = []
        self.maker: dict[Node, _Record] = {}
        self.next_slots: dict[str, int] = {}  # the output slot of each NextIteration, by its name
        self._find_frames()
        self.size_values = find_size_values(graph, self.paths)
        self.readers = readers_of(graph, self.size_values)

    # --- frames and slots ---

    def _find_frames(self) -> None:
        for node in self.graph.nodes:
            if lead_of(node.op) != "enter":
                continue
            path = self.paths.values[node.outputs[0]]
            if path not in self.frame_of:
                most = int(node.attrs.get("parallel_iterations", _PARALLEL))
                frame = node.attrs["frame"]
                op, name = node.attrs.get("loop", (frame, frame))  # none in a graph from text
                self.frame_of[path] = self.builder.add_frame(
                    FrameLayout(op, name, node.source, frame),
                    self.frame(path[:-1]), most if self.overlap else 1,
                )  # fmt: skip

    def frame(self, path: FramePath) -> int:
        """The frame of a frame path, which may end in a branch."""
        while path not in self.frame_of:
            path = path[:-1]
        return self.frame_of[path]

    def slot(self, value: Value) -> int:
        """The slot of a value in its frame."""
        slot = self.slots.get(value)
        if slot is None:
            frame = self.frames[self.frame(self.paths.values[value])]
            slot = self.slots[value] = frame.slot()
        return slot

    # --- records ---

    def make(self) -> None:
        """Make all scheduled nodes."""
        groups = find_regions(self.graph, self.paths, self.seconds, self._before, self.workers)
        self.branches = any(len(parts) > 1 for parts in groups)
        regions = [nodes for parts in groups for nodes in parts]
        for nodes in regions:
            self._region(nodes)
        together = {n for nodes in regions for n in nodes}
        for node in self.graph.nodes:
            if node not in together and node.op != "constant":
                self._single(node)
        for value in self.graph.outputs:
            self._make(value)
        for record in list(self.records):
            self._connect(record)
        self._drop_pivots()
        for record in self.records:
            self._count(record)
        self._add()

    def _before(self, node: Node) -> Iterator[Node]:
        """The nodes that must have run before a node."""
        for value in (*node.inputs, *self.size_values.get(node, ())):
            if value.node is not None:
                yield value.node
        yield from node.control_inputs

    def _record(
        self, kind: int, nodes: Sequence[Node], action: Action, inputs: Sequence[Value]
    ) -> None:
        record = _Record(kind, self.paths.nodes[nodes[0]], nodes, action, list(inputs))
        self.records.append(record)
        self.maker.update(dict.fromkeys(nodes, record))
        for value in inputs:
            self._make(value)

    def _make(self, value: Value) -> None:
        """Make the scheduled node of a constant, which has one only where no region contains it."""
        if is_constant(value) and value.node is not None and value.node not in self.maker:
            self._region([value.node])

    def _region(self, nodes: Sequence[Node]) -> None:
        graph, inputs, outputs = region_graph(self.graph, nodes, self.size_values, self.readers)
        code = RegionCode(
            graph, self.number, self.graph.name, len(self.builder.nodes) + len(self.records),
            is_part=True,
        )  # fmt: skip
        action = Action(nodes[0], code.run, [self.slot(v) for v in outputs])
        action.region = code
        action.writes = Written.by(nodes)
        action.late = late_inputs(nodes, inputs)
        if any(effect_of(n) in _FENCES for n in nodes):
            action.queue = HERE
        elif code.checked and sum(map(self.seconds, nodes)) >= HEAVY_SECONDS:
            action.queue = HEAVY
        self._record(RUN, nodes, action, inputs)

    def _single(self, node: Node) -> None:
        """Make the scheduled node of a node that steers tokens, waits, or has an effect."""
        if node.op in asynchronous:
            action = Action(node, None, [self.slot(v) for v in node.outputs])
            inputs = [*node.inputs, *self.size_values.get(node, ())]
            action.begin = asynchronous[node.op]
            if any(sizes_named_by(node)):
                action.begin = _with_sizes(asynchronous[node.op], [v.type for v in inputs])
            action.writes = Written.by([node])
            self._record(RUN, [node], action, inputs)
            return
        if is_steering(node.op):
            kind, call = steering(node)
            outputs = [self.slot(v) if v in self.readers else -1 for v in node.outputs]
            if kind == RUN:
                outputs = [slot for slot in outputs if slot >= 0]
            action = Action(node, call, outputs)
            action.chooses = kind == SWITCH
            action.late = late_inputs([node], node.inputs)
            action.stays = bool(node.attrs.get("invariant"))
            if node.attrs.get("backwards") and outputs[0] >= 0:
                frame = self.frames[self.frame(self.paths.values[node.outputs[0]])]
                frame.backwards = outputs[0]
                frame.readers[outputs[0]] += 1
            if kind == NEXT:
                frame = self.frames[self.frame(self.paths.nodes[node])]
                slot = self.next_slots[node.name] = frame.slot()
                frame.readers[slot] += 1
                action.outputs = (slot,)
            self._record(kind, [node], action, node.inputs)
            return
        self._region([node])

    # --- edges ---

    def _connect(self, record: _Record) -> None:
        """Add the edges to a record from the records that it waits for."""
        frame = self.frame(record.path)
        sources: dict[tuple[int, int], _Record] = {}  # without duplicates
        for port, value in enumerate(record.inputs):
            if self.frame(self.paths.values[value]) != frame:
                raise GraphError(
                    f"%{value.name} is used in another loop than the one that makes it"
                )
            if value.node is None:
                continue
            maker = self.maker[value.node]
            out = value.index if maker.kind == SWITCH else 0
            if record.kind == MERGE:
                maker.edges.append((out, record, port))
            else:
                sources[id(maker), out] = maker
        if record.kind == MERGE:
            self._connect_back(record)
            return
        gated = self._is_gated(record)
        for node in record.nodes:
            for before in node.control_inputs:
                if not (gated and is_pivot(before)):
                    source, out = self._waited_for(before)
                    if source is not None and source is not record:
                        sources[id(source), out] = source
        for (_, out), source in sources.items():
            source.edges.append((out, record, 0))

    def _waited_for(self, node: Node) -> tuple[_Record | None, int]:
        """The record and port behind a control edge from a node; pivots are passed through."""
        while is_pivot(node):
            (value,) = node.inputs
            if value.node is None:
                break
            node = value.node
            maker = self.maker.get(node)
            if maker is not None and maker.kind == SWITCH:
                return maker, value.index
        return self.maker.get(node), 0

    def _connect_back(self, record: _Record) -> None:
        (node,) = record.nodes
        name = node.attrs.get("back")
        if name is None:
            return
        maker = next((r for n, r in self.maker.items() if n.name == name), None)
        if maker is None or maker.kind != NEXT:
            raise GraphError(f"&{node.name} goes back to &{name}, which is not a NextIteration")
        maker.edges.append((0, record, 1))

    def _is_gated(self, record: _Record) -> bool:
        """Whether its inputs imply that its frame path is reached, so that it needs no pivot."""
        if any(is_steering(n.op) or effect_of(n) != "pure" for n in record.nodes):
            return False
        return any(
            self.paths.values[v] == record.path
            and v.node is not None
            and lead_of(v.node.op) != "enter"
            for v in record.inputs
        )

    def _drop_pivots(self) -> None:
        """Drop the pivots that no scheduled node waits for."""
        self.records = [
            r for r in self.records
            if r.edges or not is_pivot(r.nodes[0]) or r.nodes[0].outputs[0] in self.readers
        ]  # fmt: skip
        kept = set(map(id, self.records))
        for record in self.records:
            record.edges = [e for e in record.edges if id(e[1]) in kept]

    def _count(self, record: _Record) -> None:
        """Set the slots that an action reads, and count it as a reader."""
        slots = [self.slot(v) for v in record.inputs]
        (node, *_) = record.nodes
        readers = self.frames[self.frame(record.path)].readers
        for slot in slots:
            readers[slot] += 1
        if "back" in node.attrs and record.kind == MERGE:
            slots.append(self.next_slots[node.attrs["back"]])
        record.action.read(slots)

    def _add(self) -> None:
        nodes = self.builder.nodes
        number = {id(r): i for i, r in enumerate(self.records, len(nodes))}
        for record in self.records:
            first, last = record.nodes[0], record.nodes[-1]
            frame = self.frame(record.path)
            node = ScheduledNode(record.kind, frame)
            node.label = first.name if first is last else f"{first.name} … {last.name}"
            if record.kind == ENTER:
                node.into = self.frame(self.paths.values[first.outputs[0]])
                node.invariant = bool(first.attrs.get("invariant"))
            node.ports = len(first.outputs)
            node.edges = [(port, number[id(r)], there) for port, r, there in record.edges]
            nodes.append(node)
            self.frames[frame].actions.append(record.action)


def _with_sizes(begin: Callable[..., Any], types: Sequence[Any]) -> Callable[..., Any]:
    """``begin`` of an op whose attributes name sizes, read off its inputs and further values."""
    places = size_places(types)

    def begin_with_sizes(node: Node, given: Sequence[Any], completion: Any) -> Any:
        sizes = {name: given[i].shape[axis] for name, (i, axis) in places.items()}
        known = copy(node)
        known.attrs = {
            key: evaluate(x, sizes) if type(x) is Dim else x for key, x in node.attrs.items()
        }
        return begin(known, given[: len(node.inputs)], completion)

    return begin_with_sizes
