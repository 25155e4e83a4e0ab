"""How long nodes take, estimated from bytes and floating-point operations, within a factor of ten.

Only one thing depends on it: which parts of a graph are worth a thread of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import log2, prod
from types import MappingProxyType
from typing import Any, Final, final

from eagerflow import settings
from eagerflow.dims import Dim, evaluate
from eagerflow.errors import EagerflowError
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.kinds import ValueType
from eagerflow.types import TensorType

__all__ = ["HEAVY_SECONDS", "node_seconds", "op_threads", "worker_count"]

#: seconds from which on a part of a graph is worth a thread of its own
HEAVY_SECONDS: Final = 200e-6

_BYTES: Final = 8e9  # bytes that one core moves in a second
_FLOPS: Final = 3e10  # floating-point operations of one core in a second, in products of matrices
_SIZE: Final = 32  # of which only the name is known
_TURNS: Final = 100  # of a loop that runs as long as a condition holds

#: nanoseconds for an element; other ops take as long as moving their bytes
_SLOW: Final = {
    **dict.fromkeys(["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "tanh"], 8.0),
    **dict.fromkeys(["sin", "cos", "tan", "sinh", "cosh", "sigmoid", "power", "divide"], 10.0),
    **dict.fromkeys(["asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2"], 20.0),
    **dict.fromkeys(["erf", "erfinv", "lgamma", "digamma", "random_normal"], 25.0),
}
#: what gives a view, or an array that is there
_FREE: Final = frozenset({
    "broadcast_to", "expand_dims", "identity", "permute_dims", "positive", "read", "reshape",
    "squeeze", "stop_gradient", "unstack",
})  # fmt: skip
_SORTS: Final = frozenset({"argsort", "searchsorted", "sort", "topk", "unique_all"})
#: what LAPACK does, with operations per element and size of an axis
_CUBIC: Final = {
    "cholesky": 0.4, "det": 0.7, "eig": 25.0, "eigh": 9.0, "eigvalsh": 4.0, "expm": 30.0,
    "inv": 2.0, "pinv": 20.0, "qr": 3.0, "slogdet": 0.7, "solve": 2.0, "svd": 20.0, "svdvals": 6.0,
    "triangular_solve": 1.0,
}  # fmt: skip
_PRODUCTS: Final = frozenset({"einsum", "matmul", "vecdot"})
#: seconds for an element of bytes, outside of Python's lock
_DECODED: Final = {"decode_image": 500e-6, "read_file": 50e-6}


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
    node: Node, threads: int = 1, sizes: Mapping[str, int] = MappingProxyType({})
) -> float:
    """How long ``node`` keeps one core busy while other threads can run.

    What it takes to call a kernel does not count: Python's threads do that one at a time.

    Args:
        node: the node.
        threads: how many threads the linear algebra libraries take. Where these are all cores,
            another thread beside them gains nothing, and their ops count as nothing.
        sizes: what names of sizes stand for, as far as that is known.
    """
    return _Estimate(threads, sizes).node(node)


@final
class _Estimate:
    """Estimates for some sizes."""

    def __init__(self, threads: int, sizes: Mapping[str, int]) -> None:
        self.all_cores = threads > 1 and threads >= (os.cpu_count() or 1)
        self.sizes = _Nominal(sizes)

    def node(self, node: Node) -> float:
        op = node.op
        if op == "constant" or op in _FREE or op.startswith("python_"):
            return 0.0
        inside = [self.graph(graph) for _, graph in node.subgraphs()]
        if inside:
            return self.turns(node) * (max if op in ("cond", "switch") else sum)(inside)
        if self.all_cores and (op in _PRODUCTS or op in _CUBIC):
            return 0.0
        moved = sum(self.bytes(v.type) for v in (*node.inputs, *node.outputs))
        return max(moved / _BYTES, self.work(node))

    def graph(self, graph: Graph) -> float:
        return sum(map(self.node, graph.nodes))

    def turns(self, node: Node) -> int:
        if node.op == "scan":
            return self.size(node.attrs["length"])
        if node.op == "while_loop":
            most = node.attrs.get("max_iterations")
            return _TURNS if most is None else min(most, _TURNS)
        return 1

    def work(self, node: Node) -> float:
        op = node.op
        out = self.elements(node.outputs[0].type) if node.outputs else 0
        if op in _DECODED:
            return _DECODED[op] * self.elements(node.inputs[0].type)
        if op in _PRODUCTS:
            first = node.inputs[0].type.shape
            return 2.0 * out * (self.size(first[-1]) if first else 1) / _FLOPS
        if op in _CUBIC:
            shape = node.inputs[0].type.shape
            whole = self.elements(node.inputs[0].type)
            return _CUBIC[op] * whole * (self.size(shape[-1]) if shape else 1) / _FLOPS
        if op in _SORTS:
            whole = self.elements(node.inputs[0].type)
            return whole * log2(whole + 2) * 4e-9
        return out * _SLOW.get(op, 0.3) * 1e-9

    def elements(self, kind: ValueType) -> int:
        return prod([self.size(d) for d in kind.shape])

    def bytes(self, kind: ValueType) -> int:
        return self.elements(kind) * kind.dtype.itemsize if isinstance(kind, TensorType) else 0

    def size(self, size: Any) -> int:
        if not isinstance(size, Dim):
            return int(size)
        try:
            return evaluate(size, self.sizes)
        except (EagerflowError, ZeroDivisionError):  # the run says it better
            return _SIZE


@final
class _Nominal(dict[str, int]):
    """A size for every name."""

    def __missing__(self, name: str) -> int:
        return _SIZE
