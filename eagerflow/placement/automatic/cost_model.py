"""The cost model: durations of nodes by device, and of moves.

Times observed in real steps take precedence over estimates from op records and the rates of the
machine. Virtual CPUs are the cores of one machine: a node is equally fast on each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple, final

from eagerflow.core.op_records.cost_formulas import Cost
from eagerflow.formatting import seconds_text, table_lines
from eagerflow.graph.edit import inner_nodes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import is_structured, is_transfer, kind_of
from eagerflow.hardware import Device
from eagerflow.placement.automatic.node_work import NodeWork
from eagerflow.placement.automatic.rates import MachineRates
from eagerflow.placement.automatic.sites import OpSite, site_of
from eagerflow.placement.rules import path_of

_ROWS: Final = 40  # of a table; the attributes have all of it
_CACHED: Final = 4 << 20  # bytes that the caches of one core may hold


@final
@dataclass(slots=True)
class ObservedTimes:
    """Times observed in a function's steps.

    Attributes:
        nodes: median seconds of one run of an op until its results are there, its call included,
            by its site and the kind of device.
        links: median seconds of moves, by the kinds of devices and the bytes.
        iterations: number of runs of the bodies of loops, by the site of the loop.
    """

    nodes: dict[tuple[OpSite, str], float] = field(default_factory=dict)
    links: dict[tuple[str, str, int], float] = field(default_factory=dict)
    iterations: dict[OpSite, int] = field(default_factory=dict)


class NodeEstimate(NamedTuple):
    """The cost of a node.

    Attributes:
        node: its path.
        op: the name of its op.
        device: where it runs.
        cost: its operations and bytes.
        predicted: seconds by the rates of the machine.
        measured: seconds in real steps; None if it was not observed.
    """

    node: str
    op: str
    device: str
    cost: Cost
    predicted: float
    measured: float | None


@final
class CostModel:
    """Durations of nodes and moves.

    Args:
        rates: the rates of the machine.
        sizes: values of symbolic dims by name.
        threads: number of threads that the libraries of linear algebra use for one op.
        cores: number of cores.
        observed: times observed in real steps.
    """

    def __init__(
        self, rates: MachineRates, sizes: Mapping[str, int] = MappingProxyType({}), *,
        threads: int = 1, cores: int = 1, observed: ObservedTimes | None = None,
    ) -> None:  # fmt: skip
        self.rates = rates
        self.observed = observed or ObservedTimes()
        self.work = NodeWork(sizes, self.observed.iterations)
        self.threads = threads
        self.cores = cores
        self._sites: dict[Node, OpSite] = {}

    def seconds(self, node: Node, device: Device) -> float:
        """Seconds that a node works on data on a device, without the host's part (`call`).

        For a branch or a loop the calls of the ops in it are included.
        """
        whole = self.work.seconds(node, lambda one: self._whole(one, device))
        return whole if is_structured(node.op) else whole - self.call(node, device)

    def _whole(self, node: Node, device: Device) -> float:
        """Seconds of an op until its results are there."""
        measured = self._seen(node, device)
        if measured is None:
            return self._estimated(node, device) + self._usual_call(node, device)
        return max(measured, self.call(node, device))

    def estimated(self, node: Node, device: Device) -> float:
        """Seconds of a node, its calls included, from op records and rates alone."""
        return self.work.seconds(
            node, lambda one: self._estimated(one, device) + self._usual_call(one, device)
        )

    def _estimated(self, node: Node, device: Device) -> float:
        if not _is_called(node):
            return 0.0
        threads = 1 if works_later(device) else self.threads
        return self.rates.of(device.kind).seconds(self.work.cost(node), threads)

    def measured(self, node: Node, device: Device) -> float | None:
        """Seconds of a node in real steps, calls included; None if not all of it was observed."""
        if not is_structured(node.op):
            return self._seen(node, device)
        inside = [n for n in inner_nodes([node]) if _is_called(n)]
        if not inside or any(self._seen(n, device) is None for n in inside):
            return None
        return self.seconds(node, device)

    def _seen(self, node: Node, device: Device) -> float | None:
        if not self.observed.nodes:
            return None
        site = self._sites.get(node)
        if site is None:
            site = self._sites[node] = site_of(node)
        return self.observed.nodes.get((site, device.kind))

    def sends(self, node: Node) -> float:
        """Seconds of the host for sends in a branch or a loop, where the program has its nodes."""
        return self.work.seconds(node, lambda one: self.rates.send if is_transfer(one.op) else 0.0)

    def call(self, node: Node, device: Device) -> float:
        """Seconds of the host to call a node's kernel, or to issue it.

        Zero where the observed time includes it, unless the device works beside the host.
        """
        in_it = device.is_ready_at_once and self._seen(node, device) is not None
        return 0.0 if in_it else self._usual_call(node, device)

    def _usual_call(self, node: Node, device: Device) -> float:
        return self.rates.of(device.kind).call if _is_called(node) else 0.0

    def crowding(self, node: Node, device: Device) -> float:
        """The factor by which a node slows down while all cores of the host work."""
        if works_later(device):
            return 1.0
        rates, cost = self.rates.of(device.kind), self.work.total(node)
        if cost.matrix / rates.matrix > cost.bytes / rates.bytes:
            return self.rates.crowded_matrix
        return self.rates.crowded_bytes if cost.bytes >= _CACHED else 1.0

    def move(self, source: Device, target: Device, nbytes: int) -> float:
        """Seconds of a move of so many bytes from one device to another."""
        known = self.observed.links.get((source.kind, target.kind, nbytes))
        return self.rates.link(source.kind, target.kind).of(nbytes) if known is None else known

    def nbytes(self, value: Value) -> int:
        """The bytes of a value."""
        return self.work.nbytes(value)

    def table(self, graph: Graph) -> list[NodeEstimate]:
        """The cost of each op of a graph on its device, in the order of the graph."""
        rows = []
        for node in graph.nodes:
            device = where(node)
            if device is None or is_transfer(node.op) or kind_of(node.op) == "constant":
                continue
            rows.append(
                NodeEstimate(
                    path_of(node), node.op, str(device), self.work.total(node),
                    self.estimated(node, device), self.measured(node, device),
                )
            )  # fmt: skip
        return rows


def _is_called(node: Node) -> bool:
    """Whether a node calls a kernel."""
    return kind_of(node.op) == "op" and not is_transfer(node.op)


def works_later(device: Device) -> bool:
    """Whether a device works beside the host, as null devices are assumed to do.

    All other devices, virtual CPUs above all, share the cores of the host.
    """
    return not (device.is_ready_at_once and device.holds_data)


def where(node: Node) -> Device | None:
    """The device of a node; None if it has none.

    A branch or a loop is on the device of its results, else of its operands, else of the first node
    in it.
    """
    if isinstance(node.device, Device):
        return node.device
    values: Iterator[Any] = (v.device for v in (*node.outputs, *node.inputs))
    within = (where(n) for _, graph in node.subgraphs() for n in graph.nodes)
    return next((d for d in chain(values, within) if isinstance(d, Device)), None)


@final
class CostTable:
    """The costs of the nodes of a function. Prints as text.

    Args:
        name: the name of the function.
        rows: the cost of each op.

    Attributes:
        rows: the same.
    """

    def __init__(self, name: str, rows: list[NodeEstimate]) -> None:
        self.name = name
        self.rows = rows

    def __str__(self) -> str:
        head = ["node", "op", "device", "operations", "bytes", "predicted", "measured"]
        rows = sorted(self.rows, key=lambda row: -(row.measured or row.predicted))
        cells = [head, *[_cells(row) for row in rows[:_ROWS]]]
        lines = [f"{self.name}: {len(rows):,} ops, the slowest first", *table_lines(cells, left=3)]
        more = [f"and {len(rows) - _ROWS:,} more"] if rows[_ROWS:] else []
        return "\n".join([*lines, *more, f"one after the other: {self._sums()}"])

    def _sums(self) -> str:
        """Text of the sum of predicted times, and of the sum of measured times where known."""
        texts = [f"predicted {seconds_text(sum(row.predicted for row in self.rows), precise=True)}"]
        known = [row.measured for row in self.rows if row.measured is not None]
        if known:
            part = "" if len(known) == len(self.rows) else f" for {len(known):,} of them"
            texts.append(f"measured {seconds_text(sum(known), precise=True)}{part}")
        else:
            texts.append("measured by f.place('auto') only, from steps that it observes")
        return ", ".join(texts)

    __repr__ = __str__


def _cells(row: NodeEstimate) -> list[str]:
    operations = row.cost.flops + row.cost.matrix
    measured = "-" if row.measured is None else seconds_text(row.measured, precise=True)
    return [
        row.node, row.op, row.device, f"{operations:,.0f}", f"{row.cost.bytes:,.0f}",
        seconds_text(row.predicted, precise=True), measured,
    ]  # fmt: skip
