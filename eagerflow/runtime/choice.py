"""Whether a graph runs as one function or by entries, some of them at once.

Estimates propose, measurements decide: entries are tried only where two parts of at least 200 us
each do not need each other, and kept only if they are faster. The results are the same bit for bit,
so that it does not matter which of both a call takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from eagerflow import settings
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_on_one_device, is_whole
from eagerflow.runtime.costs import HEAVY_SECONDS, node_seconds, op_threads, worker_count
from eagerflow.runtime.executor import Executor
from eagerflow.runtime.instructions import named_axes

__all__ = ["Choice"]

#: runs of either way that are timed before the faster is taken
_RUNS: Final = 3
#: the part of the other's time that running by entries must stay below
_GAIN: Final = 0.95
_NEVER: Final = object()
#: seconds of a call of a kernel, in which no other thread runs Python
_CALL: Final = 1e-6


@final
class Choice:
    """What is known of the two ways to run one graph.

    Args:
        graph: the graph.
        number: of its program.

    Attributes:
        executor: runs it by entries; None where it has no parts that are worth it.
        seconds: of the runs that were timed, as one function and by entries; None once it is
            decided.
    """

    __slots__ = ("_graph", "_number", "_threads", "executor", "seconds")

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph = graph
        self._number = number
        self._threads: Any = _NEVER  # the setting that it was chosen for
        self.executor: Executor | None = None
        self.seconds: tuple[list[float], list[float]] | None = None

    @staticmethod
    def needed(graph: Graph, inputs: Sequence[Any]) -> bool:
        """Whether enough of ``graph``, with inputs of these sizes, is off the longest way."""
        sizes = _sizes(graph, inputs)
        whole, longest = _lengths(graph, lambda node: node_seconds(node, 1, sizes))
        whole_with_calls = whole + _CALL * len(graph.nodes)
        return whole - longest >= max(HEAVY_SECONDS, (1 - _GAIN) * whole_with_calls)

    def pick(self, inputs: Sequence[Any]) -> Executor | None:
        """What the next run is to be done by; None for the function."""
        threads = settings.current().threads
        if threads != self._threads:
            self.executor = self._make(inputs)
            self.seconds = None if self.executor is None else ([], [])
            self._threads = threads
        executor, seconds = self.executor, self.seconds  # other threads may decide meanwhile
        if seconds is None:
            return executor
        straight, cut = seconds
        return executor if len(cut) <= len(straight) else None

    @property
    def straight(self) -> bool:
        """Whether it is decided that one function does it, as long as the settings stay."""
        return self.executor is None and self.seconds is None

    def took(self, executor: Executor | None, seconds: float) -> None:
        """Note how long a run took."""
        timed = self.seconds
        if timed is None:
            return
        straight, cut = timed
        (straight if executor is None else cut).append(seconds)
        if min(len(straight), len(cut)) > _RUNS:  # the first of each, which compiles, is left out
            self.seconds = None
            if min(cut[1:]) > _GAIN * min(straight[1:]):
                self.executor = None

    def _make(self, inputs: Sequence[Any]) -> Executor | None:
        workers = worker_count()
        if workers == 1:
            return None
        threads, sizes = op_threads(), _sizes(self._graph, inputs)

        def seconds(node: Node) -> float:
            return node_seconds(node, threads, sizes)

        def whole(node: Node) -> bool:
            """A pure loop stays whole, all else if there is nothing in it to be run at once."""
            if is_whole(node) and node.op in ("scan", "while_loop"):
                return True
            inside = [sum(map(seconds, graph.nodes)) for _, graph in node.subgraphs()]
            return is_on_one_device(node) and max(inside) < 2 * HEAVY_SECONDS

        # an error in one turn must not find that later ones have written
        found = Executor(self._graph, whole, seconds, self._number, overlap=False, workers=workers)
        return found if found.flow.parallel and found.flow.branches else None


def _lengths(graph: Graph, seconds: Callable[[Node], float]) -> tuple[float, float]:
    """How long all nodes take one after the other, and those on the longest way through them."""
    whole, longest = 0.0, 0.0
    ends: dict[Node, float] = {}
    for node in graph.nodes:
        own = least = seconds(node)
        if own >= HEAVY_SECONDS and any(node.subgraphs()):
            inside = [_lengths(inner, seconds) for _, inner in node.subgraphs()]
            least *= min([part / total for total, part in inside if total], default=1.0)
        before = [v.node for v in node.inputs if v.node is not None]
        begin = max([ends[n] for n in (*before, *node.control_inputs)], default=0.0)
        ends[node] = begin + least
        whole += own
        longest = max(longest, ends[node])
    return whole, longest


def _sizes(graph: Graph, inputs: Sequence[Any]) -> dict[str, int]:
    """What the names of sizes stand for in one run, as far as the inputs tell."""
    return {
        name: x.shape[axis]
        for value, x in zip(graph.inputs, inputs, strict=False)
        for axis, name in named_axes(value.type)
    }
