"""Lower bound of the memory that a graph needs on devices that have a limit.

By liveness in the order of the graph: a value is live from its producer to its last consumer;
transfers are sent early. Inputs, constants and variables are live throughout. Unknown sizes count
as nothing, and so do outputs that may be written over an operand or share its memory: the result is
needed in any case, as long as nodes run in this order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple, final

from eagerflow.core.op import find_op
from eagerflow.graph.edit import nbytes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import is_read, is_structured, is_transfer
from eagerflow.resources.variable import VariableState


class Peak(NamedTuple):
    """The most that is held on a device at one time.

    Attributes:
        bytes: the number of bytes.
        node: the node that runs at the peak; None before the first.
    """

    bytes: int
    node: Node | None


def peaks(
    graph: Graph, devices: frozenset[Any], sizes: Mapping[str, int] = MappingProxyType({})
) -> Mapping[Any, Peak]:  # fmt: skip
    """The most that a graph holds at one time on some devices.

    Args:
        graph: the graph.
        devices: the devices.
        sizes: values of symbolic dims by name, as far as they are known.

    >>> from eagerflow.placement.memory_need import peaks
    >>> graph = ef.Graph.parse('''
    ...     graph f(%x: f32[2]@cpu:0) {
    ...       %y = reshape(%x) {shape=(2, 1)} : f32[2,1]@cpu:0
    ...       %z = matmul(%x, %y) : f32[1]@cpu:0
    ...       return %z
    ...     }''')
    >>> peaks(graph, frozenset([ef.hardware.as_device("cpu:0")]))
    {Device('cpu:0'): Peak(bytes=12, node=<node z: matmul>)}
    """
    occupancy = _Occupancy(graph, devices, sizes, given=True)
    for state in states_of(graph):
        if state.device in devices:
            occupancy.hold(state.device, prod(state.shape) * state.dtype.itemsize, None)
    return occupancy.run()


def states_of(graph: Graph) -> set[VariableState]:
    """The variables of a graph."""
    held = graph.resources.values()
    every = [one for resource in held for one in (resource, *getattr(resource, "states", ()))]
    return {one for one in every if isinstance(one, VariableState)}


@final
class _Occupancy:
    """Memory held while the nodes of one graph run, one after the other.

    Args:
        graph: the graph.
        devices: the devices that count.
        sizes: values of symbolic dims by name.
        given: whether the graph's inputs count; those of a subgraph do not.
    """

    def __init__(
        self, graph: Graph, devices: frozenset[Any], sizes: Mapping[str, int], *, given: bool
    ) -> None:  # fmt: skip
        self.graph = graph
        self.nodes = _sent_early(graph)
        self.devices = devices
        self.sizes = sizes
        self.held: Counter[Any] = Counter()
        self.peaks: dict[Any, Peak] = {}
        self.kept: set[Value] = set(graph.inputs)  # from the beginning to the end
        #: by value that shares the memory of another value, the latter
        self.bases: dict[Value, Value] = {}
        if given:
            for value in graph.inputs:
                self.hold(value.device, self.size(value), None)

    def hold(self, device: Any, size: int, node: Node | None) -> None:
        if device in self.devices:
            self.held[device] += size
            self.note(device, self.held[device], node)

    def note(self, device: Any, size: int, node: Node | None) -> None:
        if device not in self.peaks or size > self.peaks[device].bytes:
            self.peaks[device] = Peak(size, node)

    def size(self, value: Value) -> int:
        return 0 if value.device not in self.devices else nbytes((value,), self.sizes) or 0

    def base(self, value: Value) -> Value:
        return self.bases.get(value, value)

    def run(self) -> Mapping[Any, Peak]:
        ends = self.ends()
        taken = {v for node in self.nodes for v in node.inputs}
        for value in [v for n in self.nodes if _is_constant(n) for v in n.outputs]:
            if value in taken:  # each partition that takes it has a copy
                self.hold(value.device, self.size(value), None)
        for node in self.nodes:
            if _is_constant(node) or is_read(node.op):
                continue
            for device, size in self.within(node):
                self.note(device, self.held[device] + size, node)
            over = ends.get(node, ())
            for value in node.outputs:
                if self.base(value) is value:
                    over_it = max(map(self.size, over), default=0) if _is_elementwise(node) else 0
                    size = self.size(value)
                    self.note(value.device, self.held[value.device] + max(size - over_it, 0), node)
                    self.held[value.device] += size
            for value in over:
                self.held[value.device] -= self.size(value)
        return {device: peak for device, peak in self.peaks.items() if device in self.devices}

    def ends(self) -> dict[Node, list[Value]]:
        """By node, the values whose last consumer it is."""
        last: dict[Value, Node] = {}
        for node in self.nodes:
            if _may_share(node, self.sizes):
                self.bases.update(dict.fromkeys(node.outputs, self.base(node.inputs[0])))
            if _is_constant(node) or is_read(node.op):
                self.kept.update(node.outputs)
            last.update((self.base(v), node) for v in (*node.inputs, *node.outputs))
        self.kept.update(map(self.base, self.graph.outputs))
        ends: dict[Node, list[Value]] = {}
        for value, node in last.items():
            if value not in self.kept:
                ends.setdefault(node, []).append(value)
        return ends

    def within(self, node: Node) -> Iterator[tuple[Any, int]]:
        """Additional peaks in the subgraphs of a node, of which one runs at a time."""
        if is_structured(node.op):
            for _, graph in node.subgraphs():
                inner = _Occupancy(graph, self.devices, self.sizes, given=False).run()
                yield from ((device, peak.bytes) for device, peak in inner.items())


def _sent_early(graph: Graph) -> list[Node]:
    """The nodes, each transfer right after the producer of its operand."""
    first: list[Node] = []
    moves: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if is_transfer(node.op):
            maker = node.inputs[0].node
            (first if maker is None else moves.setdefault(maker, [])).append(node)
    order: list[Node] = []
    waiting = [n for n in reversed(graph.nodes) if not is_transfer(n.op)] + first[::-1]
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(moves.get(order[-1], ()))
    return order


def _is_constant(node: Node) -> bool:
    """Whether a node is a constant, or a transfer of one."""
    if node.op == "constant":
        return True
    return is_transfer(node.op) and all(v.node and _is_constant(v.node) for v in node.inputs)


def _may_share(node: Node, sizes: Mapping[str, int]) -> bool:
    """Whether a node's output may share the memory of its first input, as a reshaped array does."""
    op = find_op(node.op)
    if op is None or op.moves or not node.inputs or op.storage == "fresh":
        return False
    if op.storage in ("same", "view"):
        return True
    return op.precision == "exact" and nbytes(node.inputs[:1], sizes) == nbytes(node.outputs, sizes)


def _is_elementwise(node: Node) -> bool:
    op = find_op(node.op)
    return op is not None and op.elementwise
