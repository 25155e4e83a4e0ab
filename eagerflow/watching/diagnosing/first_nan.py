"""The origin of a NaN: a check of all values of one step, traced back from the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from eagerflow.graph.ir import Node
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.watching.graph_columns import NodeIndex


@final
class NanCheck:
    """A check of the values of one step for NaN.

    Args:
        index: the nodes; nodes in branches and loops run any number of times, and are left out.

    Attributes:
        makers: the numbers of nodes with a NaN in an output.
        seen: the numbers of all nodes whose outputs could be checked.
    """

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self.makers: set[int] = set()
        self.seen: set[int] = set()

    def looks(self) -> dict[str, Callable[[Sequence[Any]], object]]:
        """Functions that check the outputs of nodes, by the names of the nodes."""
        return {
            node.name: partial(self._look, number)
            for number, node in enumerate(self._index.nodes)
            if self._index.parents[number] < 0 and node.outputs and node.op != "constant"
        }

    def _look(self, number: int, outputs: Sequence[Any]) -> None:
        try:
            has_nan = any(map(_has_nan, outputs))
        except Exception:  # whatever the value is, the step must go on
            return
        self.seen.add(number)
        if has_nan:
            self.makers.add(number)

    def first(self) -> int | None:
        """The number of the node that made the NaN which reached a result or state.

        Its output has a NaN, and its inputs have none. Of several such nodes it is the first.

        >>> from eagerflow.watching.diagnosing.first_nan import NanCheck
        >>> from eagerflow.watching.graph_columns import NodeIndex
        >>> graph = ef.Graph.parse(
        ...     "graph f(%x: f32[n]) { %y = exp(%x) : f32[n]"
        ...     "  %z = log(%y) : f32[n]  %w = negative(%z) : f32[n]  return %w }"
        ... )
        >>> check = NanCheck(NodeIndex(graph))
        >>> for name, value in (("y", -1.0), ("z", float("nan")), ("w", float("nan"))):
        ...     check.looks()[name]([value])
        >>> check.first()
        1
        """
        if not self.makers:
            return None
        graph = self._index.graph
        results = [value.node for value in graph.outputs]
        changes = [node for node in graph.nodes if node.inputs and effect_of(node) != "pure"]
        makers = [value.node for node in changes for value in node.inputs]
        roots, known = set[int](), set[int]()
        ahead = self._with_nan([*results, *makers])
        while ahead:
            number = ahead.pop()
            if number not in known:
                known.add(number)
                before = self._with_nan([value.node for value in self._index.nodes[number].inputs])
                if not before:
                    roots.add(number)
                ahead += before
        return min(roots, default=None)

    def _with_nan(self, nodes: Iterable[Node | None]) -> list[int]:
        """Nodes with a NaN in an output; of unchecked ones, such as moves, their producers."""
        wrong, known, ahead = list[int](), set[int](), list(nodes)
        while ahead:
            node = ahead.pop()
            number = None if node is None else self._index.of(node)
            if node is None or number is None or number in known:
                continue
            known.add(number)
            if number in self.makers:
                wrong.append(number)
            elif number not in self.seen:
                ahead += [value.node for value in node.inputs]
        return wrong


def takes_arguments(node: Node) -> bool:
    """Whether a node takes an input of its graph, which is not checked for NaN."""
    return any(value.node is None for value in node.inputs)


def _has_nan(value: Any) -> bool:
    array = np.asarray(value)
    # the least element is NaN if any is: faster than a look at each, and without another array
    return array.dtype.kind in "fc" and array.size > 0 and bool(np.isnan(array.min()))
