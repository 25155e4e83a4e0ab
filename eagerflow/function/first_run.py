"""The run of the call that traced, where something that no code can undo holds its values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import ref

from eagerflow.core.tensor import Tensor
from eagerflow.function.leftover_handles import Remains
from eagerflow.graph.ir import Graph


@final
class FirstRun:
    """The run of the call that traced.

    Args:
        graph: as traced.
        remains: what is held.
        handles: the tensors that outputs of the graph were, by number, while something holds them.
    """

    def __init__(
        self, graph: Graph, remains: Remains, handles: Sequence[tuple[int, ref[Tensor]]]
    ) -> None:
        self._remains = remains
        self._handles = handles
        self._graph = copy.copy(graph)
        self._count = len(graph.outputs)
        self._graph.outputs = [*graph.outputs, *remains.values]

    def run(self, run: Callable[[Graph], Sequence[Any]], finish: Callable[..., Any]) -> Any:
        """Run the graph node by node.

        Args:
            run: gives the values of the outputs of a graph.
            finish: makes the result of these, and puts back what is stored outside.
        """
        outputs = list(run(self._graph))
        self._remains.fill(outputs[self._count :])
        for i, handle in self._handles:
            held = handle()
            outputs[i] = outputs[i] if held is None else held
        return finish(outputs[: self._count])

    def drop(self) -> None:
        """Let it be: what is held stays without a value."""
        self._remains.forget()
