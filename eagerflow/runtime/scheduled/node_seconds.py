"""How long nodes take on cores of this machine, from what their ops cost, within a factor of ten.

Only one thing depends on it: which parts of a graph are worth a thread of their own.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, final

from eagerflow import settings
from eagerflow.core.cost_rules import Cost, moving
from eagerflow.core.op import find_op
from eagerflow.dims import Dim, evaluate
from eagerflow.errors import EagerflowError
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import kind_of
from eagerflow.hardware import Device
from eagerflow.types import TensorType

#: seconds from which on a part of a graph is worth a thread of its own
HEAVY_SECONDS: Final = 200e-6

_BYTES: Final = 8e9  # bytes that one core moves in a second
_FLOPS: Final = 4e9  # operations on elements, in units of an addition
_MATRIX: Final = 3e10  # operations in products of matrices
_SIZE: Final = 32  # of which only the name is known
_ITERATIONS: Final = 100  # of a loop that runs as long as a condition holds


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
    threads: int = 1, sizes: Mapping[str, int] = MappingProxyType({})
) -> Callable[[Node], float]:
    """A function that tells how long a node keeps one core busy while other threads can run.

    What it takes to call a kernel does not count: Python's threads do that one at a time.

    Args:
        threads: how many threads the linear algebra libraries take. Where these are all cores,
            another thread beside them gains nothing, and their ops count as nothing.
        sizes: what names of sizes stand for, as far as that is known.
    """
    return _Estimate(threads, sizes).node


@final
class _Estimate:
    """Estimates for some sizes."""

    def __init__(self, threads: int, sizes: Mapping[str, int]) -> None:
        self.all_cores = threads > 1 and threads >= (os.cpu_count() or 1)
        self.sizes = defaultdict(lambda: _SIZE, sizes)
        self._types: dict[Value, TensorType] = {}

    def node(self, node: Node) -> float:
        kind = kind_of(node.op)
        if kind == "constant" or kind == "number":
            return 0.0
        if isinstance(node.device, Device) and not node.device.is_ready_at_once:
            return 0.0  # that device computes
        inside = [self.graph(graph) for _, graph in node.subgraphs()]
        if inside:
            return self.iterations(node) * (max if kind == "branches" else sum)(inside)
        cost = self.cost(node)
        work = cost.flops / _FLOPS
        if cost.matrix and self.all_cores:
            return work
        return max(cost.bytes / _BYTES, work + cost.matrix / _MATRIX)

    def cost(self, node: Node) -> Cost:
        op = find_op(node.op)
        return (moving if op is None else op.cost)(
            self.types(node.inputs), self.types(node.outputs), node.attrs
        )

    def types(self, values: Sequence[Value]) -> list[TensorType]:
        """The types of the tensors among ``values``, with sizes."""
        return [self.sized(v, v.type) for v in values if isinstance(v.type, TensorType)]

    def sized(self, value: Value, kind: TensorType) -> TensorType:
        if value not in self._types:
            known = all(type(size) is int for size in kind.shape)
            self._types[value] = (
                kind if known else kind.like(shape=tuple(map(self.size, kind.shape)))
            )
        return self._types[value]

    def graph(self, graph: Graph) -> float:
        return sum(map(self.node, graph.nodes))

    def iterations(self, node: Node) -> int:
        if node.op == "scan":
            return self.size(node.attrs["length"])
        if kind_of(node.op) == "loop":
            most = node.attrs.get("max_iterations")
            return _ITERATIONS if most is None else min(most, _ITERATIONS)
        return 1

    def size(self, size: Any) -> int:
        if not isinstance(size, Dim):
            return int(size)
        try:
            return evaluate(size, self.sizes)
        except (EagerflowError, ZeroDivisionError):  # the run says it better
            return _SIZE
