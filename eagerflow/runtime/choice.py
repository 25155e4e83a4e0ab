"""Whether a graph runs as one function or by entries, some of them at once.

Estimates propose, measurements decide: entries are tried only where two parts of at least 200 us
each do not need each other, and kept only if they are faster. The results are the same bit for bit,
so that it does not matter which of both a call takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, final

from eagerflow import settings
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_on_one_device, is_whole
from eagerflow.graph.signatures import is_loop
from eagerflow.runtime.costs import HEAVY_SECONDS, node_seconds, op_threads, worker_count
from eagerflow.runtime.executor import Executor
from eagerflow.runtime.instructions import named_axes

__all__ = ["Choice", "Decision"]

#: runs of either way that are timed before the faster is taken
_RUNS: Final = 3
#: the part of the other's time that running by entries must stay below
_GAIN: Final = 0.95
#: how many times as large symbolic sizes may get before nobody looks any more
_GROWTH: Final = 64
#: seconds of a call of a kernel, in which no other thread runs Python
_CALL: Final = 1e-6


@final
class Decision:
    """What is known of the two ways for inputs of about one size.

    Attributes:
        executor: runs the graph by entries; None where it has no parts that are worth it.
        seconds: of the runs that were timed, as one function and by entries; None once it is
            decided.
    """

    __slots__ = ("executor", "seconds")

    def __init__(self, executor: Executor | None) -> None:
        self.executor = executor
        self.seconds: tuple[list[float], list[float]] | None = None
        if executor is not None:
            self.seconds = [], []

    def pick(self) -> Executor | None:
        """What the next run is to be done by; None for the function."""
        executor, seconds = self.executor, self.seconds  # other threads may decide meanwhile
        if seconds is None:
            return executor
        straight, cut = seconds
        return executor if len(cut) <= len(straight) else None

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


@final
class Choice:
    """What is known of the two ways to run one graph.

    Where inputs have symbolic sizes, it is known for each power of four of what these come to
    together: entries that gain with long inputs are in the way of short ones, and what is not worth
    it with the sizes of the first call may be with others.

    Args:
        graph: the graph.
        number: of its program.

    Attributes:
        decision: the one that the last run went by.
    """

    __slots__ = ("_axes", "_decisions", "_graph", "_number", "decision")

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph = graph
        self._number = number
        self._axes = [(i, axis) for i, axis, _ in _named(graph)]
        #: by the setting of threads, and the power of the sizes
        self._decisions: dict[Any, Decision] = {}
        self.decision = Decision(None)

    @property
    def executor(self) -> Executor | None:
        """What the last run could have been done by, or was; None for the function alone."""
        return self.decision.executor

    @property
    def straight(self) -> bool:
        """Whether it is decided that the function runs whatever comes, with these settings."""
        last = self.decision
        return not self._axes and last.executor is None and last.seconds is None

    @staticmethod
    def needed(graph: Graph, inputs: Sequence[Any]) -> bool:
        """Whether there may be anything to decide.

        Enough of ``graph`` is off the longest way, with inputs of these sizes, or of larger ones
        where they are symbolic.
        """
        sizes = _sizes(graph, inputs)
        return _is_wide(graph, sizes) or (
            bool(sizes) and _is_wide(graph, {name: _GROWTH * n for name, n in sizes.items()})
        )

    def pick(self, inputs: Sequence[Any]) -> Executor | None:
        """What the next run is to be done by; None for the function."""
        threads = settings.current().threads
        given = len(inputs)  # as many as there should be, or the run tells
        bits = sum([inputs[i].shape[axis].bit_length() for i, axis in self._axes if i < given])
        found = self._decisions.get((threads, bits // 2))
        if found is None:
            found = self._decisions[threads, bits // 2] = Decision(self._make(inputs))
        self.decision = found
        return found.pick()

    def took(self, executor: Executor | None, seconds: float) -> None:
        """Note how long the last run took."""
        if executor is None or executor is self.decision.executor:
            self.decision.took(executor, seconds)

    def _make(self, inputs: Sequence[Any]) -> Executor | None:
        workers, sizes = worker_count(), _sizes(self._graph, inputs)
        if workers == 1 or not _is_wide(self._graph, sizes):
            return None
        threads = op_threads()

        def seconds(node: Node) -> float:
            return node_seconds(node, threads, sizes)

        def whole(node: Node) -> bool:
            """A pure loop stays whole, all else if there is nothing in it to be run at once."""
            if is_whole(node) and is_loop(node.op):
                return True
            inside = [sum(map(seconds, graph.nodes)) for _, graph in node.subgraphs()]
            return is_on_one_device(node) and max(inside) < 2 * HEAVY_SECONDS

        # an error in one turn must not find that later ones have written
        found = Executor(self._graph, whole, seconds, self._number, overlap=False, workers=workers)
        return found if found.flow.parallel and found.flow.branches else None


def _is_wide(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether enough of a graph is off the longest way through it."""
    whole, longest = _lengths(graph, lambda node: node_seconds(node, 1, sizes))
    whole_with_calls = whole + _CALL * len(graph.nodes)
    return whole - longest >= max(HEAVY_SECONDS, (1 - _GAIN) * whole_with_calls)


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


def _named(graph: Graph) -> Iterator[tuple[int, int, str]]:
    """Input, axis and name where an input is the first to tell a symbolic size."""
    seen = set[str]()
    for i, value in enumerate(graph.inputs):
        for axis, name in named_axes(value.type):
            if name not in seen:
                seen.add(name)
                yield i, axis, name


def _sizes(graph: Graph, inputs: Sequence[Any]) -> dict[str, int]:
    """What the names of sizes stand for in one run, as far as the inputs tell."""
    given = len(inputs)
    return {name: inputs[i].shape[axis] for i, axis, name in _named(graph) if i < given}
