"""Estimated seconds of nodes on this machine's cores, from the costs of ops, to a factor of ten.

They find the parts of a graph that are worth a thread of their own, and divide the measured time
of a call that ran several nodes among these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
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
_FLOPS: Final = 4e9  # operations on elements in a second, in units of an addition
_MATRIX: Final = 3e10  # operations of matrix products in a second
_CALL: Final = 2e-7  # seconds of a call at least: what a light node weighs besides its elements


def op_threads() -> int:
    """Number of threads that the linear algebra libraries take for one op."""
    cores = os.cpu_count() or 1
    return min(settings.current().threads or cores, cores)


def worker_count() -> int:
    """Number of threads that may run parts of graphs at once, the calling one included."""
    cores = os.cpu_count() or 1
    threads = settings.current().threads
    return cores if threads is None else max(1, cores // threads)


def node_seconds(
    threads: int = 1, sizes: Mapping[str, int] = MappingProxyType({}), unknown: int = 32
) -> Callable[[Node], float]:
    """A function that estimates how long a node keeps one core busy while other threads can run.

    The time to call a kernel does not count: Python's threads do that one at a time.

    Args:
        threads: number of threads that the linear algebra libraries take. Where these are all
            cores, another thread beside them gains nothing, and their ops count as nothing.
        sizes: the sizes behind names, as far as they are known.
        unknown: the value assumed for other names.
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


def shares_of_call(nodes: Sequence[Node]) -> list[float]:
    """The fraction of the time of a call that each of the nodes it ran has, by their work."""
    if len(nodes) == 1:
        return [1.0]
    seconds = node_seconds()
    weights = [seconds(node) + _CALL for node in nodes]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def _on_host(node: Node) -> bool:
    """Whether a thread of the host computes a node, not an asynchronous device."""
    return not isinstance(node.device, Device) or node.device.is_ready_at_once
