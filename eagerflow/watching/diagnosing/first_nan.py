"""Where a NaN comes from: looks at all values of one step, and the way back from the results."""

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
    """Looks at the values of one step for NaN.

    Args:
        index: the nodes; those within branches and loops run any number of times, and are left out.

    Attributes:
        makers: the numbers of nodes that gave a NaN.
        seen: of all whose values could be looked at.
    """

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self.makers: set[int] = set()
        self.seen: set[int] = set()

    def looks(self) -> dict[str, Callable[[Sequence[Any]], object]]:
        """Functions that look at what nodes give, by their names."""
        return {
            node.name: partial(self._look, number)
            for number, node in enumerate(self._index.nodes)
            if self._index.parents[number] < 0 and node.outputs and node.op != "constant"
        }

    def _look(self, number: int, outputs: Sequence[Any]) -> None:
        try:
            has_nan = any(map(_has_nan, outputs))
        except Exception:  # whatever it is, the step that shows it must go on
            return
        self.seen.add(number)
        if has_nan:
            self.makers.add(number)

    def first(self) -> int | None:
        """The number of the node that made the NaN which got into a result or into state.

        It gave one, and what it got had none. Of several it is the first that ran.

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
        """Those that gave a NaN; of one that was not seen, such as a move, what it got."""
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
    """Whether it gets an argument of its graph, of which nobody knows whether it has NaN."""
    return any(value.node is None for value in node.inputs)


def _has_nan(value: Any) -> bool:
    array = np.asarray(value)
    # the least element is NaN if any is: faster than to look at each, and without another array
    return array.dtype.kind in "fc" and array.size > 0 and bool(np.isnan(array.min()))
