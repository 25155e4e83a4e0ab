"""Statistics of the nodes of graphs over many steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

from eagerflow import events
from eagerflow.events import AbstractEvent, NodeEvent
from eagerflow.formatting import escape, seconds_text
from eagerflow.profiling.rows import AbstractRow, RowTable

_KEPT: Final = 1000  # times of one node, from which the median is taken


def median(times: Iterable[float]) -> float:
    """The median; the module ``statistics`` would take 2 ms to load."""
    ordered = sorted(times)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


@final
@dataclass(frozen=True, slots=True, repr=False)
class NodeRow(AbstractRow):
    """The statistics of one node.

    Attributes:
        node: the name of the node.
        op: the name of its op.
        scope: the name scope of the node.
        device: the device of its runs.
        count: number of runs.
        total: seconds of all runs.
        median: the median in seconds of the last 1000 runs.
    """

    node: str
    op: str
    scope: str
    device: str
    count: int
    total: float
    median: float


@final
class _Times:
    """The runs of one node."""

    __slots__ = ("count", "event", "last", "total")

    def __init__(self, event: NodeEvent) -> None:
        self.event = event
        self.count = 0
        self.total = 0.0
        self.last: deque[float] = deque(maxlen=_KEPT)


@final
class NodeStatistics:
    """The number of runs of each node of a graph and their time, within ``with`` blocks.

    Args:
        executable: the number of the executable to count (`eagerflow.runtime.Executable.number`),
            or a predicate of such numbers; all if not given.

    >>> from eagerflow.profiling import NodeStatistics
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> with NodeStatistics() as statistics:
    ...     for _ in range(3):
    ...         y = graph.run(["y"], {"x": ef.zeros(2)})
    >>> [(row.node, row.op, row.count) for row in statistics.table()]
    [('y', 'exp', 3)]
    """

    kinds: Final = frozenset({NodeEvent})

    def __init__(self, executable: int | Callable[[int], bool] | None = None) -> None:
        self._counts = executable if callable(executable) else lambda n: executable in (None, n)
        self._times: dict[tuple[int, str], _Times] = {}
        self._lock = threading.Lock()
        self._depth = 0

    def __enter__(self) -> NodeStatistics:
        self._depth += 1
        events.add_instrument(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if not self._depth:
            events.remove_instrument(self)

    def begin(self, event: AbstractEvent, /) -> None:
        """Ignored: a node is reported at its end."""

    def end(self, event: AbstractEvent, /) -> None:
        """Count one run of a node."""
        if not isinstance(event, NodeEvent) or not self._counts(event.executable):
            return
        with self._lock:
            times = self._times.setdefault((event.executable, event.node), _Times(event))
            times.count += 1
            times.total += event.seconds
            times.last.append(event.seconds)

    def table(self) -> RowTable[NodeRow]:
        """The rows of the nodes, by decreasing total time."""
        with self._lock:
            rows = [
                NodeRow(
                    node=t.event.node,
                    op=t.event.name,
                    scope=t.event.scope,
                    device=t.event.device,
                    count=t.count,
                    total=t.total,
                    median=median(t.last),
                )
                for t in self._times.values()
            ]
        return RowTable(sorted(rows, key=lambda row: row.total, reverse=True))

    def __str__(self) -> str:
        """The table of the nodes."""
        rows = self.table()
        return f"{_summary(rows)}\n{rows}" if rows else _UNUSED

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self.table()
        if not rows:
            return f"<p>{escape(_UNUSED)}</p>"
        return f"<p>{escape(_summary(rows))}</p>{rows._repr_html_()}"


#: the text of statistics of nothing
_UNUSED: Final = (
    "no node has run in the block of these statistics yet: `with f.stats() as stats:` around calls "
    "of f, then print(stats)"
)


def _summary(rows: Sequence[NodeRow]) -> str:
    nodes = "1 node" if len(rows) == 1 else f"{len(rows)} nodes"
    runs, total = sum(row.count for row in rows), sum(row.total for row in rows)
    times = "once" if runs == 1 else f"{runs} times"
    return f"{nodes} run {times} in {seconds_text(total, precise=True)}"
