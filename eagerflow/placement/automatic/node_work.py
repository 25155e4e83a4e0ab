"""The work of the nodes of a graph: operations and bytes, from the records of their ops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, final

from eagerflow.core.op import find_op
from eagerflow.core.op_records.cost_formulas import Cost, moving
from eagerflow.dims import Dim, evaluate
from eagerflow.errors import EagerflowError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.signatures import kind_of
from eagerflow.placement.automatic.sites import OpSite, site_of
from eagerflow.types import TensorType

_SIZE: Final = 32  # assumed for a dim of which only the name is known
_ITERATIONS: Final = 100  # assumed for a loop that runs as long as a condition holds


@final
class NodeWork:
    """The work of nodes for some sizes.

    Args:
        sizes: values of symbolic dims by name, as far as they are known.
        learned: number of iterations of loops, as far as they were observed.
        unknown: the value assumed for other symbolic dims.

    Attributes:
        known: values of symbolic dims by name, as far as they are known.
        sizes: the same, with the assumed value for all others.
        learned: number of iterations of loops, as far as they were observed.
    """

    def __init__(
        self, sizes: Mapping[str, int] = MappingProxyType({}),
        learned: Mapping[OpSite, int] = MappingProxyType({}), unknown: int = _SIZE,
    ) -> None:  # fmt: skip
        self.known = sizes
        self.sizes = defaultdict(lambda: unknown, sizes)
        self._unknown = unknown
        self.learned = learned
        self._types: dict[Value, TensorType] = {}

    def seconds(
        self, node: Node, of_node: Callable[[Node], float],
        counts: Callable[[Node], bool] | None = None,
    ) -> float:  # fmt: skip
        """Seconds of a node: of a loop all iterations together, of branches the longest.

        Args:
            node: the node.
            of_node: returns the seconds of a node without subgraphs.
            counts: whether a node takes any time; all do by default.
        """
        kind = kind_of(node.op)
        if kind == "constant" or kind == "number" or not (counts is None or counts(node)):
            return 0.0
        inside = [
            sum([self.seconds(one, of_node, counts) for one in graph.nodes])
            for _, graph in (node.subgraphs() if node.attrs else ())
        ]
        if inside:
            return self.iterations(node) * (max if kind == "branches" else sum)(inside)
        return of_node(node)

    def cost(self, node: Node) -> Cost:
        """The cost by the op record; without a record, that of reading each element."""
        op = find_op(node.op)
        return (moving if op is None else op.cost)(
            self.types(node.inputs), self.types(node.outputs), node.attrs
        )

    def total(self, node: Node) -> Cost:
        """The operations and bytes of a node, subgraphs included."""
        costs: list[Cost] = []

        def note(one: Node) -> float:
            costs.append(self.cost(one))
            return 0.0

        self.seconds(node, note)
        times = self.iterations(node) if any(node.subgraphs()) else 1
        return (
            Cost(*[times * sum(parts) for parts in zip(*costs, strict=True)]) if costs else Cost()
        )

    def nbytes(self, value: Value) -> int:
        """The bytes of a tensor; none for a number."""
        if not isinstance(value.type, TensorType):
            return 0
        kind = self.sized(value, value.type)
        count = kind.dtype.itemsize
        for size in kind.shape:
            count *= int(size)
        return count

    def types(self, values: Sequence[Value]) -> list[TensorType]:
        """The types of the tensors among ``values``, with numbers for symbolic dims."""
        return [self.sized(v, v.type) for v in values if isinstance(v.type, TensorType)]

    def sized(self, value: Value, kind: TensorType) -> TensorType:
        """A type with numbers for its symbolic dims."""
        if value not in self._types:
            known = all(type(size) is int for size in kind.shape)
            self._types[value] = (
                kind if known else kind.like(shape=tuple(map(self.size, kind.shape)))
            )
        return self._types[value]

    def iterations(self, node: Node) -> int:
        """Number of runs of a node's subgraphs: as observed, as it states, or a guess."""
        known = self.learned.get(site_of(node)) if self.learned else None
        if known is not None:
            return known
        if node.op == "scan":
            return self.size(node.attrs["length"])
        if kind_of(node.op) == "loop":
            most = node.attrs.get("max_iterations")
            return _ITERATIONS if most is None else min(most, _ITERATIONS)
        return 1

    def size(self, size: Any) -> int:
        """The number of a size, or the number assumed for it."""
        if not isinstance(size, Dim):
            return int(size)
        try:
            return evaluate(size, self.sizes)
        except (EagerflowError, ZeroDivisionError):  # the run raises a better error
            return self._unknown
