"""The choice between generated code and scheduled nodes, some of which run at once.

Estimates propose, measurements decide: scheduled nodes are tried only where two independent parts
take at least 200 us each, and kept only if they are faster. The results of both are the same bit
for bit, so that a call may take either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, final

from eagerflow import settings
from eagerflow.events import NodeEvent, step_of
from eagerflow.graph.edit import size_places
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_on_one_device, is_whole
from eagerflow.graph.signatures import is_loop
from eagerflow.runtime.generated.generated_tier import GeneratedTier
from eagerflow.runtime.node_seconds import (
    HEAVY_SECONDS,
    node_seconds,
    op_threads,
    worker_count,
)
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier

#: runs of either tier that are timed before the faster is taken
_TIMED_RUNS: Final = 3
#: the fraction of the time of generated code that scheduled nodes must stay below
_GAIN: Final = 0.95
#: growth of symbolic sizes up to which it is checked whether a choice can arise
_GROWTH: Final = 64
#: seconds of a kernel call during which no other thread runs Python
_CALL: Final = 1e-6


@final
class Decision:
    """The choice between the two tiers for inputs of about one size.

    Attributes:
        scheduled: runs the graph by scheduled nodes; None where no parts are worth that.
        seconds: of the timed steps, in generated code and by scheduled nodes; None once the
            choice is made.
    """

    __slots__ = ("scheduled", "seconds")

    def __init__(self, scheduled: ScheduledTier | None) -> None:
        self.scheduled = scheduled
        self.seconds: tuple[list[float], list[float]] | None = None
        if scheduled is not None:
            self.seconds = [], []

    def pick(self, generated: GeneratedTier) -> GeneratedTier | ScheduledTier | Trial:
        """The tier, or the trial of one, for the next step."""
        scheduled, seconds = self.scheduled, self.seconds  # another thread may decide concurrently
        if seconds is None or scheduled is None:
            return scheduled or generated
        straight, cut = seconds
        return Trial(scheduled if len(cut) <= len(straight) else generated, self)

    def took(self, scheduled: bool, seconds: float) -> None:
        """Note how long a step took."""
        timed = self.seconds
        if timed is None:
            return
        straight, cut = timed
        (cut if scheduled else straight).append(seconds)
        # the first time of each, which includes compilation, is left out
        if min(len(straight), len(cut)) > _TIMED_RUNS:
            self.seconds = None
            if min(cut[1:]) > _GAIN * min(straight[1:]):
                self.scheduled = None


@final
class Trial:
    """A step that is timed in order to decide; it stands for the tier that runs it.

    Attributes:
        tier: the tier that runs it.
        name: the name of the tier.
    """

    __slots__ = ("_decision", "name", "tier")

    def __init__(self, tier: GeneratedTier | ScheduledTier, decision: Decision) -> None:
        self.tier = tier
        self.name = tier.name
        self._decision = decision

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run the step."""
        start, told = perf_counter(), step_of.told
        results = self.tier.run(inputs)
        looked_at = NodeEvent.listeners or step_of.observation is not None or step_of.verifies
        if not looked_at:  # observed steps run other code
            self.took(perf_counter() - start - (step_of.told - told))
        return results

    def took(self, seconds: float) -> None:
        """Note how long the step took, without the time of its instruments."""
        self._decision.took(type(self.tier) is ScheduledTier, seconds)


@final
class Choice:
    """The choice between the two tiers for one graph.

    Where inputs have symbolic sizes, there is a decision for each power of four of the product of
    these: scheduled nodes that gain with long inputs slow down short ones, and parts too small at
    the sizes of the first call may be worth scheduling at others.

    Args:
        generated: the tier that runs the graph as one function.
        graph: the graph.
        number: of its executable.

    Attributes:
        needed: whether a choice can arise; None before the first step.
    """

    __slots__ = ("_axes", "_decisions", "_generated", "_graph", "_last", "_number", "needed")

    def __init__(self, generated: GeneratedTier, graph: Graph, number: int = 0) -> None:
        self._generated = generated
        self._graph = graph
        self._number = number
        #: inputs and axes off which symbolic sizes are read, if a choice can arise
        self._axes: list[tuple[int, int]] = []
        #: by the setting of threads, and the power of four of the sizes
        self._decisions: dict[Any, Decision] = {}
        self._last = Decision(None)  # the decision for the last step
        self.needed: bool | None = None

    @property
    def last(self) -> GeneratedTier | ScheduledTier:
        """The scheduled tier if it could have run the last step, else generated code."""
        return self._last.scheduled or self._generated

    @property
    def settled(self) -> bool:
        """Whether generated code is chosen for all inputs under the present settings."""
        last = self._last
        return not self._axes and last.scheduled is None and last.seconds is None

    def pick(self, inputs: Sequence[Any]) -> GeneratedTier | ScheduledTier | Trial:
        """The tier, or the trial of one, for a step on ``inputs``."""
        if self.needed is None:
            self._begin(inputs)
        if not self.needed:
            return self._generated
        threads = settings.current().threads
        given = len(inputs)  # if the number is wrong, the run raises
        bits = sum([inputs[i].shape[axis].bit_length() for i, axis in self._axes if i < given])
        decision = self._decisions.get((threads, bits // 2))
        if decision is None:
            decision = self._decisions[threads, bits // 2] = Decision(self._make(inputs))
        self._last = decision
        return decision.pick(self._generated)

    def _begin(self, inputs: Sequence[Any]) -> None:
        """Determine whether enough of the graph is off its critical path.

        This holds for inputs of these sizes, and for larger ones where sizes are symbolic.
        """
        graph, sizes = self._graph, _sizes(self._graph, inputs)
        largest = _lengths(graph, {name: _GROWTH * n for name, n in sizes.items()})
        needed = largest[0] >= HEAVY_SECONDS and (
            _is_wide(graph, largest) or (bool(sizes) and _is_wide(graph, _lengths(graph, sizes)))
        )
        if needed:
            self._axes = list(size_places([v.type for v in graph.inputs]).values())
        self.needed = needed

    def _make(self, inputs: Sequence[Any]) -> ScheduledTier | None:
        workers, sizes = worker_count(), _sizes(self._graph, inputs)
        if workers == 1 or not _is_wide(self._graph, _lengths(self._graph, sizes)):
            return None
        seconds = node_seconds(op_threads(), sizes)

        def whole(node: Node) -> bool:
            """Whether a node stays whole: a pure loop, or too little inside to run at once."""
            if is_whole(node) and is_loop(node.op):
                return True
            inside = [sum(map(seconds, graph.nodes)) for _, graph in node.subgraphs()]
            return is_on_one_device(node) and max(inside) < 2 * HEAVY_SECONDS

        # no overlap: at an error in one iteration, later ones must not have written yet
        tier = ScheduledTier(
            self._graph, self._number, whole=whole, seconds=seconds, overlap=False, workers=workers
        )
        return tier if tier.parallel and tier.branches else None


def _is_wide(graph: Graph, lengths: tuple[float, float]) -> bool:
    """Whether enough of a graph is off its critical path, by its `_lengths`."""
    whole, longest = lengths
    whole_with_calls = whole + _CALL * len(graph.nodes)
    return whole - longest >= max(HEAVY_SECONDS, (1 - _GAIN) * whole_with_calls)


def _lengths(graph: Graph, sizes: Mapping[str, int]) -> tuple[float, float]:
    """Seconds of all nodes one after the other, and of the critical path."""
    return _path_lengths(graph, node_seconds(1, sizes))


def _path_lengths(graph: Graph, seconds: Callable[[Node], float]) -> tuple[float, float]:
    whole, longest = 0.0, 0.0
    ends: dict[Node, float] = {}
    for node in graph.nodes:
        own = least = seconds(node)
        if own >= HEAVY_SECONDS and any(node.subgraphs()):
            inside = [_path_lengths(inner, seconds) for _, inner in node.subgraphs()]
            least *= min([part / total for total, part in inside if total], default=1.0)
        before = [v.node for v in node.inputs if v.node is not None]
        begin = max([ends[n] for n in (*before, *node.control_inputs)], default=0.0)
        ends[node] = begin + least
        whole += own
        longest = max(longest, ends[node])
    return whole, longest


def _sizes(graph: Graph, inputs: Sequence[Any]) -> dict[str, int]:
    """The sizes behind names in one run, as far as the inputs determine them."""
    given = len(inputs)
    places = size_places([v.type for v in graph.inputs])
    return {name: inputs[i].shape[axis] for name, (i, axis) in places.items() if i < given}
