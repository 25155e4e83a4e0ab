"""Detection of nodes and devices that are slower than expected for their work.

The expected time of a node is estimated from its op's cost, within a factor of ten. So a node is
compared with others of the same op in the same graph, whose estimates are off by the same factor.
The shortest observed times are compared, as other load on the machine, and threads that compete for
the interpreter's lock, make any node slow now and then.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, final

from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.pictures.groups import is_move
from eagerflow.profiling.node_statistics import median
from eagerflow.runtime.node_seconds import node_seconds

if TYPE_CHECKING:
    from eagerflow.watching.graph_columns import NodeIndex
    from eagerflow.watching.observed_steps import Observed

#: seconds of a kernel's call besides its work, about
_CALL: Final = 5e-6
#: factor by which a slow node exceeds others of its op
_NODE: Final = 8.0
#: the same if there are no others of its op: estimates of two ops may be off by ten each way
_UNLIKE: Final = 50.0
#: seconds below which a node takes little more than its call
_LEAST: Final = 5e-5
#: factor by which a straggler exceeds other devices
_DEVICE: Final = 2.5
#: least share that a slow node or a straggler has of a step's computing time
_MUCH: Final = 0.25
#: least number of other nodes of an op to compare a node with, and of ops to compare a device by
_ALIKE: Final = 2
_OPS: Final = 3
#: least number of observed steps; and for a node so short that it may have waited for the
#: interpreter's lock in each of a few, which other threads release after an interval
_STEPS: Final = 3
ENOUGH_STEPS: Final = 9


class SlowNode(NamedTuple):
    """A node that takes too long.

    Attributes:
        number: its number.
        seconds: its seconds in one step.
        share: its share of the step's computing time.
        factor: ratio of its time to the expected one.
    """

    number: int
    seconds: float
    share: float
    factor: float


class Straggler(NamedTuple):
    """A device that takes too long.

    Attributes:
        name: the name of the device.
        share: its share of the step's computing time.
        factor: ratio of its times to those of other devices.
    """

    name: str
    share: float
    factor: float


class _Expected(NamedTuple):
    """A node that computes, and the seconds that one run of it should take."""

    op: str
    device: str
    seconds: float


@final
class Expectations:
    """Expected times of the nodes of a graph; cached, since the nodes do not change.

    Args:
        index: the nodes.
    """

    def __init__(self, index: NodeIndex) -> None:
        self._nodes = index.nodes
        self._known: dict[int, _Expected | None] = {}
        self._seconds = node_seconds()

    def of(self, number: int) -> _Expected | None:
        """The expected time of a node; None if it waits or moves data, as it is not slow itself."""
        if number not in self._known:
            node = self._nodes[number]
            computes = not is_move(node) and effect_of(node) != "blocks"
            self._known[number] = (
                _Expected(node.op, str(node.device or ""), self._seconds(node) + _CALL)
                if computes
                else None
            )
        return self._known[number]


class _Timed(NamedTuple):
    """A node with its time; ``rate`` is the ratio of its time to the estimate."""

    number: int
    op: str
    device: str
    seconds: float
    share: float
    rate: float


def _timed(observed: Observed, busy: float) -> list[_Timed]:
    """The nodes that compute, with their times; none if too few steps were observed."""
    rows: list[_Timed] = []
    if observed.costs.steps < _STEPS:
        return rows
    least = observed.costs.least()
    whole = max(sum(least.values()), 1e-12)
    for cost in observed.costs.table():
        expected = observed.expectations.of(cost.number)
        if cost.runs and expected is not None:
            took = least[cost.number]
            rate = took / cost.runs / expected.seconds
            share = busy * took / whole
            rows.append(_Timed(cost.number, expected.op, expected.device, took, share, rate))
    return rows


def slow_node(observed: Observed, busy: float = 1.0) -> SlowNode | None:
    """The node that takes many times as long as others of its op, and much of a step.

    Args:
        observed: the observations of the nodes.
        busy: the fraction of time in which steps do not wait for queues and the like.
    """
    rows = _timed(observed, busy)
    if len(rows) <= _OPS:
        return None
    slowest = max(rows, key=lambda row: row.seconds)
    others = [row for row in rows if row is not slowest]
    alike = [row.rate for row in others if row.op == slowest.op]
    has_alike = len(alike) >= _ALIKE
    usual = median(alike if has_alike else [row.rate for row in others])
    factor = slowest.rate / max(usual, 1e-12)
    if slowest.share < _MUCH or factor < (_NODE if has_alike else _UNLIKE):
        return None
    if slowest.seconds < _LEAST:
        return None
    if observed.costs.steps < ENOUGH_STEPS and slowest.seconds < 2 * sys.getswitchinterval():
        return None
    return SlowNode(slowest.number, slowest.seconds, slowest.share, factor)


def straggler(observed: Observed, busy: float = 1.0) -> Straggler | None:
    """The device that takes longer than others for the ops that it shares with them.

    Args:
        observed: the observations of the nodes.
        busy: as in `slow_node`.
    """
    rows = _timed(observed, busy)
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    shares: dict[str, float] = defaultdict(float)
    for row in rows:
        rates[row.op][row.device].append(row.rate)
        shares[row.device] += row.share
    factors: dict[str, list[float]] = defaultdict(list)
    for by_device in rates.values():
        usual = {device: median(values) for device, values in by_device.items()}
        for device, rate in usual.items():
            others = [value for other, value in usual.items() if other != device]
            if others:
                factors[device].append(rate / max(median(others), 1e-12))
    known = {d: median(values) for d, values in factors.items() if len(values) >= _OPS}
    worst = max(known, key=known.__getitem__, default="")
    if not worst or known[worst] < _DEVICE or shares[worst] < _MUCH:
        return None
    return Straggler(worst, shares[worst], known[worst])
