"""How long nodes take on cores of this machine, from what their ops cost, within a factor of ten.

Only one thing depends on it: which parts of a graph are worth a thread of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from eagerflow import settings
from eagerflow.core.op_records.cost_formulas import Cost
from eagerflow.graph.ir import Node
from eagerflow.hardware import Device
from eagerflow.placement.automatic.node_work import NodeWork

#: seconds from which on a part of a graph is worth a thread of its own
HEAVY_SECONDS: Final = 200e-6

_BYTES: Final = 8e9  # bytes that one core moves in a second
_FLOPS: Final = 4e9  # operations on elements, in units of an addition
_MATRIX: Final = 3e10  # operations in products of matrices


def op_threads() -> int:
    """How many threads the linear algebra libraries take for one op."""
    cores = os.cpu_count() or 1
    return min(settings.current().threads or cores, cores)


def worker_count() -> int:
    """How many threads may run parts of graphs at once, the calling one among them."""
    cores = os.cpu_count() or 1
    threads = settings.current().threads
    return cores if threads is None else max(1, cores // threads)


def node_seconds(
    threads: int = 1, sizes: Mapping[str, int] = MappingProxyType({}), unknown: int = 32
) -> Callable[[Node], float]:
    """A function that tells how long a node keeps one core busy while other threads can run.

    What it takes to call a kernel does not count: Python's threads do that one at a time.

    Args:
        threads: how many threads the linear algebra libraries take. Where these are all cores,
            another thread beside them gains nothing, and their ops count as nothing.
        sizes: what names of sizes stand for, as far as that is known.
        unknown: what the other names are taken for.
    """
    work = NodeWork(sizes, unknown=unknown)
    all_cores = threads > 1 and threads >= (os.cpu_count() or 1)

    def of_node(node: Node) -> float:
        return of_cost(work.cost(node))

    def of_cost(cost: Cost) -> float:
        flops = cost.flops / _FLOPS
        if cost.matrix and all_cores:
            return flops
        return max(cost.bytes / _BYTES, flops + cost.matrix / _MATRIX)

    return lambda node: work.seconds(node, of_node, _on_host)


def _on_host(node: Node) -> bool:
    """Whether a thread of the host computes it, not a device beside it."""
    return not isinstance(node.device, Device) or node.device.is_ready_at_once
