"""Durations of nodes, from single observed steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Final, NamedTuple, final

import numpy as np

from eagerflow.runtime.node_seconds import shares_of_call
from eagerflow.runtime.observed_step import NodeTimes, Observation
from eagerflow.watching.graph_columns import NodeIndex
from eagerflow.watching.limits import OBSERVED_STEPS

#: observed steps after which the shortest times are taken anew; those before count as long again
_ROUND: Final = 12
#: seconds that a look at the clock costs an instruction at most
_MOST_OF_A_LOOK: Final = 2e-6
#: difference of two steps, as a fraction, from which on their nodes may take other shares
_ALIKE: Final = 0.2


class NodeCost(NamedTuple):
    """The time of a node in a step.

    Attributes:
        number: its number among the nodes (see `NodeIndex`).
        node: its name.
        layer: the layer that it works for (`eagerflow.pictures.layers`).
        seconds: seconds of all its runs in one step, scaled to an unobserved step.
        p95: the 95th percentile of these seconds.
        share: its share of the step, from 0 to 1.
        runs: number of its runs in a step.
        steps: number of observed steps from which these figures are computed.
        seen: when the last of them ended, in seconds of ``time.perf_counter``.
    """

    number: int
    node: str
    layer: str
    seconds: float
    p95: float
    share: float
    runs: float
    steps: int
    seen: float


#: numbers for each node, or for each instruction
_Numbers = np.ndarray[Any, np.dtype[Any]]


class _Observed(NamedTuple):
    """An observed step: seconds and runs of each node, corrected."""

    total: float
    seen: float
    seconds: _Numbers
    runs: _Numbers


class _Places(NamedTuple):
    """The nodes of the instructions of a region: pairs, each with a fraction of the time."""

    times: NodeTimes
    instructions: _Numbers
    nodes: _Numbers
    fractions: _Numbers


@final
class NodeCosts:
    """Observed times of the nodes of one executable.

    They are arrays, since there may be many nodes: a loop over them took as long as ten looks.

    Args:
        nodes: the nodes of the graph that it runs.

    Attributes:
        version: a number that changes with each observed step.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self._observed: deque[_Observed] = deque(maxlen=OBSERVED_STEPS)
        self._least: tuple[_Numbers, _Numbers] = (np.full(len(nodes.nodes), np.inf),) * 2
        self._index = nodes
        self._places: dict[int, _Places] = {}
        self._table: tuple[int, Sequence[NodeCost]] = 0, ()
        self.version = 0

    def add(self, observation: Observation, step: float, regions: Mapping[int, float]) -> None:
        """Take in an observed step.

        The cost of observing is subtracted: each instruction had one look at the clock, so the same
        time is taken off each. The rest is scaled to the unobserved time of the region.

        Args:
            observation: the observation of a step that has ended.
            step: seconds of an unobserved step.
            regions: seconds of its unobserved regions, by number; a region that is missing, or is
                no part of the graph but all of it, takes the whole step.
        """
        assert observation.stop is not None
        count = len(self._index.nodes)
        seconds, bare, runs = np.zeros((3, count))
        for number, times in observation.regions.items():
            # both are medians, of unequally many steps, so a region may exceed its step
            known = times.is_part and number in regions
            whole = min(regions[number] * times.begun, step) if known else step
            ran = np.array(times.runs, np.float64)
            without = _without_looks(np.array(times.seconds), ran, whole)
            places = self._places_of(number, times)
            took = np.bincount(places.nodes, without[places.instructions] * places.fractions, count)
            bare += took
            seconds += took * (whole / max(float(without.sum()), 1e-12))
            runs += np.bincount(places.nodes, ran[places.instructions], count)
        if runs.any():
            self._observed.append(_Observed(step, observation.stop, seconds, runs))
            self._note_least(np.where(runs, bare, np.inf))
            self.version += 1

    def _note_least(self, seconds: _Numbers) -> None:
        now, before = self._least
        if self.version % _ROUND == 0:
            now, before = np.full(len(now), np.inf), now
        self._least = np.minimum(now, seconds), before

    def _places_of(self, region: int, times: NodeTimes) -> _Places:
        """The nodes of the instructions of a region; cached, since most steps run the same code."""
        known = self._places.get(region)
        if known is None or (
            known.times.instructions is not times.instructions
            or known.times.chains is not times.chains
        ):
            pairs = [
                (i, node, fraction)
                for i in range(len(times.runs)) for node, fraction in self._nodes(times, i)
            ]  # fmt: skip
            lines, nodes, fractions = zip(*pairs, strict=True) if pairs else ((), (), ())
            known = self._places[region] = _Places(
                times, np.array(lines, int), np.array(nodes, int), np.array(fractions, float)
            )
        return known

    def _nodes(self, times: NodeTimes, index: int) -> list[tuple[int, float]]:
        """The nodes whose time was noted with an instruction, each with its fraction."""
        members = [times.instructions[i].node for i in times.chains.get(index, (index,))]
        nodes = [node for node in members if node is not None]
        parts = zip(map(self._index.of, nodes), shares_of_call(nodes), strict=True)
        return [(index, share) for index, share in parts if index is not None]

    @property
    def steps(self) -> int:
        """Number of observed steps from which the figures are computed."""
        return len(self._observed)

    def is_settled(self, step: float) -> bool:
        """Whether there are enough observed steps, and most took about as long as steps do now.

        Args:
            step: seconds of an unobserved step.
        """
        alike = [o for o in self._observed if abs(o.total - step) < _ALIKE * step]
        return len(self._observed) == OBSERVED_STEPS and 2 * len(alike) > OBSERVED_STEPS

    def least(self) -> Mapping[int, float]:
        """The shortest observed time of each node in a step, of the last 12 to 24.

        Other users of the machine, or of the interpreter's lock, slow down nodes and regions now
        and then; so these times are for comparing nodes, and do not add up to a step.
        """
        least = np.minimum(*self._least)
        nodes = np.flatnonzero(np.isfinite(least))
        return dict(zip(nodes.tolist(), least[nodes].tolist(), strict=True))

    def table(self) -> Sequence[NodeCost]:
        """The nodes that ran, the slowest first."""
        version = self.version
        if self._table[0] != version:
            self._table = version, self._ordered(list(self._observed))
        return self._table[1]

    def _ordered(self, observed: Sequence[_Observed]) -> Sequence[NodeCost]:
        # an interrupted step overstates one node; medians are robust to that
        ranked = np.sort([o.seconds for o in observed], axis=0)
        count, seen = len(observed), observed[-1].seen
        middle = (ranked[(count - 1) // 2] + ranked[count // 2]) / 2
        scale = float(ranked.sum()) / max(float(middle.sum()), 1e-12)
        runs = np.sum([o.runs for o in observed], axis=0)
        ran = np.flatnonzero(runs)
        order = ran[np.argsort(-middle[ran], kind="stable")]
        whole = sum([o.total for o in observed])
        seconds = middle[order] * scale
        columns = (
            seconds / count, ranked[ceil(0.95 * count) - 1][order] * (scale / count),
            seconds / whole, runs[order] / count,
        )  # fmt: skip
        nodes, layers = self._index.nodes, self._index.layers
        return tuple([
            NodeCost(i, nodes[i].name, layers[i], took, p95, share, runs_of, count, seen)
            for i, took, p95, share, runs_of in zip(
                order.tolist(), *[c.tolist() for c in columns], strict=True
            )
        ])  # fmt: skip


def _without_looks(seconds: _Numbers, runs: _Numbers, whole: float) -> _Numbers:
    """The seconds of the instructions of a region, without the cost of observing.

    Args:
        seconds: the observed seconds of each.
        runs: number of runs of each.
        whole: seconds of the unobserved region.
    """
    looks, seen = float(runs.sum()), float(seconds.sum())
    if not looks or not seen:
        return np.zeros(len(seconds))
    look = min(max(seen - whole, 0.0) / looks, _MOST_OF_A_LOOK)
    return np.where(runs, np.maximum(seconds - look * runs, 0.0), 0.0)


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
    """The account of what looking costs, which keeps it a small part of the time of steps.

    All parts are charged to it: reports of steps, looks, observed steps. Observing is what can
    wait, so it gets what the others leave.

    Args:
        share: the cost of looking, at most, as a fraction of the time of all steps.
        ahead: seconds of steps by which it may be ahead of that.

    Attributes:
        spent: seconds that looking took.

    >>> from eagerflow.watching.node_costs import Duty
    >>> duty = Duty(share=0.01, ahead=1.0)
    >>> duty.worked(4.0)
    >>> duty.allows(0.05), duty.allows(0.06)
    (True, False)
    >>> duty.looked(0.05)
    >>> duty.allows(0.01)
    False
    """

    __slots__ = ("_ahead", "_allowed", "_share", "spent")

    def __init__(self, share: float = 0.009, ahead: float = 5.0) -> None:
        self._share = share
        self._allowed = self._ahead = share * ahead
        self.spent = 0.0

    def worked(self, seconds: float) -> None:
        """Add seconds that steps took."""
        self._allowed += self._share * seconds

    def looked(self, seconds: float) -> None:
        """Add seconds that observing took."""
        self.spent += seconds

    def ran(self, seconds: float) -> None:
        """Add seconds of what runs on when there are no steps: looks, and reports.

        Of these no more is owed than it may be ahead, so that a pause is soon made up for.
        """
        self.spent += seconds
        self._allowed = max(self._allowed, self.spent - self._ahead)

    def allows(self, seconds: float) -> bool:
        """Whether the budget allows an observation of this many seconds."""
        return self.spent + seconds <= self._allowed + 1e-12
