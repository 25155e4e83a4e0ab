"""Loops of Python in a traced function, which are unrolled: their numbers, warnings and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.errors import TraceError, TraceWarning
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.ir import Graph
from eagerflow.runtime.threads import deadline
from eagerflow.source import warn
from eagerflow.tracing.tracer import Tracer, current_tracer

#: number of nodes of an unrolled loop from which on there is a warning
LARGE: Final = 3000
#: numbers of iterations and of nodes at which a loop over numbers is reported while it is unrolled;
#: a network has fewer layers
_MANY: Final = 64
_GROWN: Final = 512

#: by trace, the unrolled loops: by the graph or subgraph that their nodes went into, and the code
loops: Final[WeakKeyDictionary[Tracer, dict[tuple[Graph, CodeType], UnrolledLoop]]] = (
    WeakKeyDictionary()
)
#: the lines of loops that were reported while they were unrolled: file and number
_reported: Final[set[tuple[str, int]]] = set()
#: the remedy for a large loop
_OVER_TENSORS: Final = (
    "Over a tensor it is one loop of the graph: `for i in ef.arange(n)` with a Python number n, "
    "`for x in xs`, or `while i < n` with a tensor n. Its body must index no Python list"
)


@final
@dataclass(slots=True)
class UnrolledLoop:
    """A loop of Python in a traced function.

    Attributes:
        line: of the loop, for messages.
        iterations: their number, over all runs of the loop.
        runs: the number of runs.
        lengths: the numbers of iterations of single runs.
        nodes: the number of nodes that they put into the graph.
        reported: whether there was a warning while it was unrolled.
    """

    line: str
    iterations: int = 0
    nodes: int = 0
    runs: int = 0
    lengths: set[int] = field(default_factory=set)
    reported: bool = False

    @property
    def warning(self) -> str:
        """The warning for a large loop."""
        return f"{self}. {_OVER_TENSORS}"

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return f"{self.line.rstrip(':')}: {self._times} made {nodes}"

    @property
    def _times(self) -> str:
        """The number of iterations: of each run, if there were several of that many."""
        if self.runs < 2:
            return f"{self.iterations:,} iterations"
        if len(self.lengths) > 1:
            return f"{self.iterations:,} iterations in {self.runs:,} runs"
        (each,) = self.lengths
        return f"{each:,} iteration{'s' * (each != 1)}, {self.runs:,} times,"


def unrolled_loops(tracer: Tracer) -> list[UnrolledLoop]:
    """The loops whose iterations put nodes into the graph, loops with the most nodes first."""
    parts = {tracer.graph}  # other graphs were given up, and traced in another way
    parts.update(g for node in all_nodes(tracer.graph.nodes) for _, g in node.subgraphs())
    by_code: dict[CodeType, UnrolledLoop] = {}
    for (part, code), one in loops[tracer].items():
        if part in parts:
            whole = by_code.setdefault(code, UnrolledLoop(one.line))
            whole.iterations += one.iterations
            whole.nodes += one.nodes
            whole.runs += one.runs
            whole.lengths |= one.lengths
            whole.reported |= one.reported
    large = [one for one in by_code.values() if one.iterations > 1 and one.nodes]
    return sorted(large, key=lambda one: (-one.nodes, one.iterations))


@final
class Iterations:
    """The iterations of a loop of Python: a context manager around them, which are added to it.

    Args:
        code: code whose first line is the line of the loop.
        done: number of earlier iterations, and of the nodes that they made.
        most: number of iterations that made nodes after which the loop is taken to be endless;
            None: never.
        counts: whether the loop is over numbers, such as a range.

    Attributes:
        count: their number.
        line: of the loop, for messages.
    """

    def __init__(
        self, code: CodeType, done: tuple[int, int] = (0, 0), *, most: int | None = None,
        counts: bool = False,
    ) -> None:  # fmt: skip
        self.count, self._made = done
        self.line = line_text(code, code.co_firstlineno)
        self._code = code
        self._most = most
        self._counts = counts
        self._reported = False
        self._tracer = current_tracer()
        self._graph = Graph() if self._tracer is None else self._tracer.graph
        self._before = len(self._graph.nodes)

    def __enter__(self) -> Iterations:
        return self

    def add(self) -> None:
        """Note an iteration.

        Raises:
            DeadlineError: the deadline has passed.
            TraceError: the loop seems to be endless.
        """
        self.count += 1
        if self._tracer is None:
            return
        deadline.check()
        if self._counts and self.count >= _MANY and self._nodes >= max(_GROWN, self.count):
            self._report()
        if self._most is not None and min(self.count, self._nodes) > self._most:
            raise TraceError(
                "a loop of Python has no end while it is traced",
                given=f"{self.count:,} iterations made {self._nodes:,} nodes, {self.line}",
                hint="let a tensor decide in its test, or in the `if` before its `break`; an "
                "error that the graph raises in an iteration is not there yet for an `except`",
            )

    def _report(self) -> None:
        """Warn, once for each line, while the trace goes on: it may take minutes."""
        self._counts, self._reported = False, True
        line = self._code.co_filename, self._code.co_firstlineno
        if line not in _reported:
            _reported.add(line)
            warn(
                f"{self.line.rstrip(':')} is unrolled: so far {self.count:,} iterations made "
                f"{self._nodes:,} nodes. {_OVER_TENSORS}", TraceWarning,
            )  # fmt: skip

    @property
    def _nodes(self) -> int:
        """The number of nodes that they made."""
        return self._made + len(self._graph.nodes) - self._before

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None and self._tracer is not None:
            known = loops.setdefault(self._tracer.root, {})
            one = known.setdefault((self._graph, self._code), UnrolledLoop(self.line))
            one.iterations += self.count
            one.nodes += self._nodes
            one.runs += 1
            one.lengths.add(self.count)
            one.reported |= self._reported
