"""The cost model: how long each node takes on each device, and each move.

What was observed in real steps counts before what is estimated from op records and the rates of
the machine. Virtual CPUs are the cores of one machine: a node is as fast on each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, final

from eagerflow.core.cost_rules import Cost
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import is_structured, is_transfer, kind_of
from eagerflow.hardware import Device
from eagerflow.placement.automatic.rates import MachineRates
from eagerflow.placement.automatic.work import NodeWork
from eagerflow.placement.rules import path_of
from eagerflow.text_tables import table_lines

_ROWS: Final = 40  # of a table; the attributes have all of it


@final
@dataclass(slots=True)
class ObservedTimes:
    """What was seen of a function's steps.

    Attributes:
        nodes: median seconds of the ops, by their path and the kind of device.
        links: median seconds of moves, by the kinds of devices and the bytes.
    """

    nodes: dict[tuple[str, str], float] = field(default_factory=dict)
    links: dict[tuple[str, str, int], float] = field(default_factory=dict)


class NodeEstimate(NamedTuple):
    """What a node costs.

    Attributes:
        node: its path.
        op: the name of its op.
        device: where it runs.
        cost: its operations and bytes.
        predicted: seconds by the rates of the machine.
        measured: seconds in real steps; None if it was not seen.
    """

    node: str
    op: str
    device: str
    cost: Cost
    predicted: float
    measured: float | None


@final
class CostModel:
    """How long nodes and moves take.

    Args:
        rates: of the machine.
        sizes: what names of sizes stand for.
        threads: how many the libraries of linear algebra take for one op.
        cores: how many there are.
        observed: what was seen of real steps.
    """

    def __init__(
        self, rates: MachineRates, sizes: Mapping[str, int] = MappingProxyType({}), *,
        threads: int = 1, cores: int = 1, observed: ObservedTimes | None = None,
    ) -> None:  # fmt: skip
        self.rates = rates
        self.work = NodeWork(sizes)
        self.threads = threads
        self.cores = cores
        self.observed = observed or ObservedTimes()

    def seconds(self, node: Node, device: Device) -> float:
        """How long a node works on data on a device, without its call unless that was measured."""
        measured = self.measured(node, device)
        return self.estimated(node, device) if measured is None else measured

    def estimated(self, node: Node, device: Device) -> float:
        """The same, from op records and rates alone."""
        rates = self.rates.of(device.kind)
        threads = self.threads if device.kind == "cpu" else 1
        inner = rates.call if is_structured(node.op) else 0.0  # each op in it is called

        def of_cost(cost: Cost) -> float:
            return rates.seconds(cost, threads) + inner

        return self.work.seconds(node, of_cost)

    def measured(self, node: Node, device: Device) -> float | None:
        """Seconds of a node in real steps, its call included; None if it was not seen."""
        return self.observed.nodes.get((path_of(node), device.kind))

    def call(self, node: Node, device: Device) -> float:
        """Seconds of the host to call a node's kernel, or to issue it."""
        return 0.0 if self.measured(node, device) is not None else self._usual_call(node, device)

    def _usual_call(self, node: Node, device: Device) -> float:
        if kind_of(node.op) in ("constant", "number") or is_transfer(node.op):
            return 0.0
        return self.rates.of(device.kind).call

    def move(self, source: Device, target: Device, nbytes: int) -> float:
        """How long a value takes from one device to another."""
        known = self.observed.links.get((source.kind, target.kind, nbytes))
        return self.rates.link(source.kind, target.kind).of(nbytes) if known is None else known

    def nbytes(self, value: Value) -> int:
        """The bytes of a value."""
        return self.work.nbytes(value)

    def table(self, graph: Graph) -> list[NodeEstimate]:
        """What each op of a graph costs where it is, in the order of the graph."""
        rows = []
        for node in graph.nodes:
            device = where(node)
            if device is None or is_transfer(node.op) or kind_of(node.op) == "constant":
                continue
            rows.append(
                NodeEstimate(
                    path_of(node), node.op, str(device), self.work.total(node),
                    self.estimated(node, device) + self._usual_call(node, device),
                    self.measured(node, device),
                )
            )  # fmt: skip
        return rows


def where(node: Node) -> Device | None:
    """The device of a node, of a branch or a loop that of its results; None for one of none."""
    if isinstance(node.device, Device):
        return node.device
    devices: Any = (v.device for v in (*node.outputs, *node.inputs))
    return next((d for d in devices if isinstance(d, Device)), None)


@final
class CostTable:
    """What the nodes of a function cost. Prints as text.

    Args:
        name: of the function.
        rows: what each op costs.

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
        return "\n".join([*lines, *([f"and {len(rows) - _ROWS:,} more"] if rows[_ROWS:] else [])])

    __repr__ = __str__


def _cells(row: NodeEstimate) -> list[str]:
    operations = row.cost.flops + row.cost.matrix
    measured = "-" if row.measured is None else duration(row.measured)
    return [
        row.node, row.op, row.device, f"{operations:,.0f}", f"{row.cost.bytes:,.0f}",
        duration(row.predicted), measured,
    ]  # fmt: skip


def duration(seconds: float) -> str:
    """Seconds in the unit that keeps them short.

    >>> from eagerflow.placement.automatic.cost_model import duration
    >>> duration(0.0123), duration(4.56e-5)
    ('12.3 ms', '45.6 us')
    """
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-6:.3g} us"
