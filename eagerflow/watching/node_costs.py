"""Durations of nodes, from single observed steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, final

from eagerflow.graph.ir import Node
from eagerflow.profiling.node_statistics import median
from eagerflow.runtime.observed_step import NodeTimes, Observation
from eagerflow.runtime.scheduled.node_seconds import node_seconds
from eagerflow.watching.graph_columns import NodeIndex
from eagerflow.watching.limits import OBSERVED_STEPS

#: observed steps after which the shortest times are taken anew; those before count as long again
_ROUND: Final = 12
#: seconds that a look at the clock costs an instruction at most
_MOST_OF_A_LOOK: Final = 2e-6
#: seconds of a kernel's call at least: the weight of a light node of a chain besides its elements
_CALL: Final = 2e-7


@final
@dataclass(frozen=True, slots=True)
class NodeCost:
    """The time of a node in a step.

    Attributes:
        index: its number among the nodes (see `NodeIndex`).
        node: its name.
        layer: the layer that it works for (`eagerflow.pictures.layers`).
        seconds: seconds of all its runs in one step, scaled to an unobserved step.
        p95: the 95th percentile of these seconds.
        share: its share of the step, from 0 to 1.
        runs: number of its runs in a step.
        steps: number of observed steps from which these figures are computed.
        seen: when the last of them ended, in seconds of ``time.perf_counter``.
    """

    index: int
    node: str
    layer: str
    seconds: float
    p95: float
    share: float
    runs: float
    steps: int
    seen: float


@final
@dataclass(frozen=True, slots=True)
class _Observed:
    """An observed step: seconds and runs by the number of the node, corrected."""

    total: float
    seen: float
    seconds: dict[int, float]
    runs: dict[int, float]


@final
class NodeCosts:
    """Observed times of the nodes of one executable.

    Args:
        nodes: the nodes of the graph that it runs.

    Attributes:
        version: a number that changes with each observed step.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self._observed: deque[_Observed] = deque(maxlen=OBSERVED_STEPS)
        self._least: tuple[dict[int, float], dict[int, float]] = {}, {}
        self._index = nodes
        self._seconds = node_seconds()
        self._weights: dict[Node, float] = {}
        self._table: tuple[int, Sequence[NodeCost]] = 0, ()
        self.version = 0

    def add(self, observation: Observation, step: float, regions: Mapping[int, float]) -> None:
        """Take in an observed step.

        The cost of observing is subtracted: each instruction had one look at the clock, so the same
        time is taken off each. The rest is scaled to the unobserved time of the region.

        Args:
            observation: the observation of a step that has ended.
            step: seconds of an unobserved step.
            regions: seconds of its unobserved regions, by number; a region that is missing takes
                the whole step.
        """
        assert observation.stop is not None
        seconds: dict[int, float] = {}
        bare: dict[int, float] = {}
        runs: dict[int, float] = {}
        for number, times in observation.regions.items():
            # both are medians, of unequally many steps, so a region may exceed its step
            whole = min(regions[number] * times.begun, step) if number in regions else step
            without = _without_looks(times, whole)
            scale = whole / max(sum(without.values()), 1e-12)
            for index, took in without.items():
                for node, weight in self._nodes(times, index):
                    bare[node] = bare.get(node, 0.0) + took * weight
                    seconds[node] = seconds.get(node, 0.0) + took * weight * scale
                    runs[node] = runs.get(node, 0.0) + times.runs[index]
        if seconds:
            self._observed.append(_Observed(step, observation.stop, seconds, runs))
            self._note_least(bare)
            self.version += 1

    def _note_least(self, seconds: dict[int, float]) -> None:
        if self.version % _ROUND == 0:
            self._least = {}, self._least[0]
        now = self._least[0]
        for node, took in seconds.items():
            now[node] = min(took, now.get(node, took))

    def _nodes(self, times: NodeTimes, index: int) -> list[tuple[int, float]]:
        """The nodes whose time was noted with an instruction, each with its fraction."""
        members = [times.instructions[i].node for i in times.chains.get(index, (index,))]
        nodes = [node for node in members if node is not None]
        weights = [self._weight_of(node) for node in nodes] if len(nodes) > 1 else [1.0]
        whole = sum(weights)
        parts = [(self._index.of(n), w / whole) for n, w in zip(nodes, weights, strict=False)]
        return [(index, weight) for index, weight in parts if index is not None]

    def _weight_of(self, node: Node) -> float:
        """The weight of a node of a chain: an estimate in seconds, cached."""
        weight = self._weights.get(node)
        if weight is None:
            weight = self._weights[node] = self._seconds(node) + _CALL
        return weight

    @property
    def steps(self) -> int:
        """Number of observed steps from which the figures are computed."""
        return len(self._observed)

    def least(self) -> Mapping[int, float]:
        """The shortest observed time of each node in a step, of the last 12 to 24.

        Other users of the machine, or of the interpreter's lock, slow down nodes and regions now
        and then; so these times are for comparing nodes, and do not add up to a step.
        """
        now, before = self._least
        return {node: min(took, before.get(node, took)) for node, took in {**before, **now}.items()}

    def table(self) -> Sequence[NodeCost]:
        """The nodes that ran, the slowest first."""
        version = self.version
        if self._table[0] != version:
            self._table = version, self._ordered(list(self._observed))
        return self._table[1]

    def _ordered(self, observed: Sequence[_Observed]) -> Sequence[NodeCost]:
        whole = sum(o.total for o in observed)
        # an interrupted step overstates one node; medians are robust to that
        ranked = _ranked([o.seconds for o in observed])
        seconds = {node: median(times) for node, times in ranked.items()}
        scale = sum(sum(o.seconds.values()) for o in observed) / max(sum(seconds.values()), 1e-12)
        runs = _summed([o.runs for o in observed])
        count, seen = len(observed), observed[-1].seen
        high = ceil(0.95 * count) - 1
        rows = [
            NodeCost(
                index=index, node=self._index.nodes[index].name,
                layer=self._index.layers[index], seconds=took * scale / count,
                p95=ranked[index][high] * scale / count, share=took * scale / whole,
                runs=runs[index] / count, steps=count, seen=seen,
            )
            for index, took in seconds.items()
        ]  # fmt: skip
        return tuple(sorted(rows, key=lambda row: -row.seconds))


def _without_looks(times: NodeTimes, whole: float) -> dict[int, float]:
    """The seconds of the instructions of a region that ran, without the cost of observing.

    Args:
        times: the observed times.
        whole: seconds of the unobserved region.
    """
    looks, seen = sum(times.runs), sum(times.seconds)
    if not looks or not seen:
        return {}
    look = min(max(seen - whole, 0.0) / looks, _MOST_OF_A_LOOK)
    return {
        index: max(times.seconds[index] - look * count, 0.0)
        for index, count in enumerate(times.runs) if count
    }  # fmt: skip


def _ranked(parts: Sequence[dict[int, float]]) -> dict[int, list[float]]:
    """The seconds of each node in all observed steps, the shortest first."""
    return {
        key: sorted(part.get(key, 0.0) for part in parts)
        for key in dict.fromkeys(key for part in parts for key in part)
    }


def _summed(parts: Sequence[dict[int, float]]) -> dict[int, float]:
    whole: dict[int, float] = {}
    for part in parts:
        for key, value in part.items():
            whole[key] = whole.get(key, 0.0) + value
    return whole


def layer_shares(costs: Iterable[NodeCost]) -> dict[str, float]:
    """The share of a step by layer, enclosing layers included; "" is the step.

    >>> from eagerflow.watching.node_costs import NodeCost, layer_shares
    >>> cost = NodeCost(0, "exp", "net/layer2", 0.2, 0.3, 0.5, 1.0, 1, 0.0)
    >>> layer_shares([cost])
    {'': 0.5, 'net': 0.5, 'net/layer2': 0.5}
    """
    shares: dict[str, float] = {}
    for cost in costs:
        names = cost.layer.split("/") if cost.layer else []
        for length in range(len(names) + 1):
            layer = "/".join(names[:length])
            shares[layer] = shares.get(layer, 0.0) + cost.share
    return shares


@final
class Duty:
    """The budget for observing steps, which keeps its cost a small part of the time of steps.

    Args:
        share: the cost of observing, at most, as a fraction of the time of all steps.
        ahead: seconds of steps by which observing may be ahead of its budget.

    Attributes:
        spent: seconds that observing took.

    >>> from eagerflow.watching.node_costs import Duty
    >>> duty = Duty(share=0.01, ahead=1.0)
    >>> duty.worked(4.0)
    >>> duty.allows(0.05), duty.allows(0.06)
    (True, False)
    >>> duty.looked(0.05)
    >>> duty.allows(0.01)
    False
    """

    __slots__ = ("_allowed", "_share", "spent")

    def __init__(self, share: float = 0.005, ahead: float = 10.0) -> None:
        self._share = share
        self._allowed = share * ahead
        self.spent = 0.0

    def worked(self, seconds: float) -> None:
        """Add seconds that steps took."""
        self._allowed += self._share * seconds

    def looked(self, seconds: float) -> None:
        """Add seconds that observing took."""
        self.spent += seconds

    def allows(self, seconds: float) -> bool:
        """Whether the budget allows an observation of this many seconds."""
        return self.spent + seconds <= self._allowed + 1e-12
