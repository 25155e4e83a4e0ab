"""How long nodes take, estimated from bytes and floating-point operations, within a factor of ten.

Only one thing depends on it: which parts of a graph are worth a thread of their own.
"""

from __future__ import annotations

import os
from math import log2, prod
from typing import Any, Final, final

from eagerflow import settings
from eagerflow.dims import Dim, evaluate
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.kinds import ValueType
from eagerflow.types import TensorType

__all__ = ["HEAVY_SECONDS", "node_seconds", "op_threads", "worker_count"]

#: seconds from which on a part of a graph is worth a thread of its own
HEAVY_SECONDS: Final = 200e-6

_CALL: Final = 1e-6  # seconds of a call of a kernel
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
_SORTS: Final = frozenset({"argsort", "searchsorted", "sort", "topk", "unique_all"})
#: what LAPACK does, with operations per element and size of an axis
_CUBIC: Final = {
    "cholesky": 0.4, "det": 0.7, "eig": 25.0, "eigh": 9.0, "eigvalsh": 4.0, "expm": 30.0,
    "inv": 2.0, "pinv": 20.0, "qr": 3.0, "slogdet": 0.7, "solve": 2.0, "svd": 20.0, "svdvals": 6.0,
    "triangular_solve": 1.0,
}  # fmt: skip
_PRODUCTS: Final = frozenset({"einsum", "matmul", "vecdot"})


def op_threads() -> int:
    """How many threads the linear algebra libraries take for one op."""
    cores = os.cpu_count() or 1
    return min(settings.current().threads or cores, cores)


def worker_count() -> int:
    """How many threads may run parts of graphs at once, the calling one among them."""
    cores = os.cpu_count() or 1
    threads = settings.current().threads
    return cores if threads is None else max(1, cores // threads)


def node_seconds(node: Node, threads: int = 1) -> float:
    """How long ``node`` keeps one core busy that could do something else.

    Args:
        node: a node without effect.
        threads: how many threads the linear algebra libraries take. Where these are all cores,
            another thread beside them gains nothing, and their ops count as calls.
    """
    op = node.op
    if op == "constant" or op.startswith("python_"):
        return 0.0
    inside = [(key, _graph_seconds(graph, threads)) for key, graph in node.subgraphs()]
    if inside:
        return _turns(node) * (
            max(s for _, s in inside) if op in ("cond", "switch") else sum(s for _, s in inside)
        )
    library = op in _PRODUCTS or op in _CUBIC
    if library and threads > 1 and threads >= (os.cpu_count() or 1):
        return _CALL
    moved = sum(_bytes(v.type) for v in (*node.inputs, *node.outputs))
    return _CALL + max(moved / _BYTES, _work(node))


def _graph_seconds(graph: Graph, threads: int) -> float:
    return sum(node_seconds(node, threads) for node in graph.nodes)


def _turns(node: Node) -> int:
    if node.op == "scan":
        return _size(node.attrs["length"])
    if node.op == "while_loop":
        most = node.attrs.get("max_iterations")
        return _TURNS if most is None else min(most, _TURNS)
    return 1


def _work(node: Node) -> float:
    op = node.op
    out = _elements(node.outputs[0].type) if node.outputs else 0
    if op in _PRODUCTS:
        first = node.inputs[0].type.shape
        return 2.0 * out * (_size(first[-1]) if first else 1) / _FLOPS
    if op in _CUBIC:
        shape = node.inputs[0].type.shape
        whole = _elements(node.inputs[0].type)
        return _CUBIC[op] * whole * (_size(shape[-1]) if shape else 1) / _FLOPS
    if op in _SORTS:
        whole = _elements(node.inputs[0].type)
        return whole * log2(whole + 2) * 4e-9
    return out * _SLOW.get(op, 0.3) * 1e-9


def _elements(kind: ValueType) -> int:
    return prod([_size(d) for d in kind.shape])


def _bytes(kind: ValueType) -> int:
    return _elements(kind) * kind.dtype.itemsize if isinstance(kind, TensorType) else 0


def _size(size: Any) -> int:
    return evaluate(size, _Nominal()) if isinstance(size, Dim) else int(size)


@final
class _Nominal(dict[str, int]):
    """A size for every name."""

    def __missing__(self, name: str) -> int:
        return _SIZE
