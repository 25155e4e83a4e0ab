"""Loops that are unrolled: each iteration is traced and puts its nodes into the graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Final, final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.tracking.regions import tracer_here
from eagerflow.control.structured import all_nodes
from eagerflow.core import interpreter
from eagerflow.errors import TraceError
from eagerflow.graph.ir import Graph
from eagerflow.runtime.threads import deadline
from eagerflow.tracing.tracer import Tracer, tracer_of

__all__ = [
    "LARGE",
    "Iterations",
    "Unrolled",
    "iterations_of",
    "loops",
    "unrolled",
    "unrolled_loops",
]

#: nodes from which on the user is told
LARGE: Final = 3000

_no_loops: Final[WeakKeyDictionary[Tracer, set[CodeType]]] = WeakKeyDictionary()
#: by trace; by the graph, or the subgraph, that the nodes went into, and the code
loops: Final[WeakKeyDictionary[Tracer, dict[tuple[Graph, CodeType], Unrolled]]] = (
    WeakKeyDictionary()
)


@final
@dataclass(slots=True)
class Unrolled:
    """A loop of Python in a traced function.

    Attributes:
        line: of the loop, for messages.
        iterations: their number, over all runs of the loop.
        nodes: the number of nodes that they put into the graph.
    """

    line: str
    iterations: int = 0
    nodes: int = 0

    @property
    def warning(self) -> str:
        """The warning if there are many."""
        return (
            f"{self}; to make it one loop of the graph, go over a tensor (`for x in xs`) or "
            "`range(x.shape[0])`, and index no Python list in it"
        )

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return f"{self.line.rstrip(':')}: {self.iterations:,} iterations made {nodes}"


def unrolled() -> set[CodeType]:
    """The bodies of loops in this trace that cannot become loops of the graph."""
    return _no_loops.setdefault(tracer_here().root, set())


def unrolled_loops(tracer: Tracer) -> list[Unrolled]:
    """The loops whose iterations put nodes into its graph, those with the most nodes first."""
    parts = {tracer.graph}  # others were given up, and traced in another way
    parts.update(g for node in all_nodes(tracer.graph.nodes) for _, g in node.subgraphs())
    by_code: dict[CodeType, Unrolled] = {}
    for (part, code), one in loops[tracer].items():
        if part in parts:
            whole = by_code.setdefault(code, Unrolled(one.line))
            whole.iterations += one.iterations
            whole.nodes += one.nodes
    large = [one for one in by_code.values() if one.iterations > 1 and one.nodes]
    return sorted(large, key=lambda one: (-one.nodes, one.iterations))


@final
class Iterations:
    """The iterations of a loop of Python that is traced.

    Args:
        line: of the loop.
        graph: which the nodes go into; None where nothing is traced.
        done: iterations that there were before, and the nodes that they made.
        most: after how many iterations that made nodes it is taken for one without an end; None:
            never.

    Attributes:
        count: their number.
        line: of the loop, for messages.
    """

    def __init__(
        self, line: str, graph: Graph | None, done: tuple[int, int], most: int | None
    ) -> None:
        self.count, self._made = done
        self.line = line
        self._graph = graph
        self._before = 0 if graph is None else len(graph.nodes)
        self._most = most

    def add(self) -> None:
        """Note one.

        Raises:
            DeadlineError: it is too late.
            TraceError: there seems to be no end.
        """
        self.count += 1
        if self._graph is None:
            return
        deadline.check()
        if self._most is not None and min(self.count, self.nodes) > self._most:
            raise TraceError(
                "a loop of Python has no end while it is traced",
                given=f"{self.count:,} iterations made {self.nodes:,} nodes, {self.line}",
                hint="let a tensor decide in its test, or in the `if` before its `break`; an "
                "error that the graph raises in an iteration is not there yet for an `except`",
            )

    @property
    def nodes(self) -> int:
        """The number of nodes that they made."""
        return self._made + (0 if self._graph is None else len(self._graph.nodes) - self._before)


@contextmanager
def iterations_of(
    code: CodeType, done: tuple[int, int] = (0, 0), *, most: int | None = None
) -> Iterator[Iterations]:
    """Note the iterations of a loop of Python: the block adds each.

    Args:
        code: of which the first line is that of the loop.
        done: iterations that there were before, and the nodes that they made.
        most: as for `Iterations`.
    """
    tracer = tracer_of(interpreter.current()) if interpreter.stack.installed else None
    line = line_text(code, code.co_firstlineno)
    iterations = Iterations(line, None if tracer is None else tracer.graph, done, most)
    yield iterations
    if tracer is not None:
        known = loops.setdefault(tracer.root, {})
        one = known.setdefault((tracer.graph, code), Unrolled(line))
        one.iterations += iterations.count
        one.nodes += iterations.nodes
