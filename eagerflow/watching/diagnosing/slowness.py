"""Which node or device is slower than its work lets expect.

How long a node should take is estimated from what its op costs, within a factor of ten. So a node
is held against others of the same op in the same graph: they are misjudged alike. And it is held
against them by the shortest times that were seen, for a machine that others use, and threads that
want the interpreter's lock, make any node slow now and then.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, final

from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.pictures.groups import is_move
from eagerflow.profiling.node_statistics import median
from eagerflow.runtime.scheduled.node_seconds import node_seconds

if TYPE_CHECKING:
    from eagerflow.watching.graph_columns import NodeIndex
    from eagerflow.watching.observed_steps import Observed

#: what a call of a kernel takes besides its work, in seconds, about
_CALL: Final = 5e-6
#: how many times as slow as others a node, and a device, has to be
_NODE: Final = 8.0
#: the same where there are no others of its op: estimates of two ops may be off by ten each way
_UNLIKE: Final = 50.0
#: seconds below which a node is what its call takes, about
_LEAST: Final = 5e-5
_DEVICE: Final = 2.5
#: the part that it has to take of the time in which a step computes
_MUCH: Final = 0.25
#: other nodes of one op that say together how fast it is, and ops that say it of a device
_ALIKE: Final = 2
_OPS: Final = 3
#: observed steps that this has to stand on; and for a node that is so short that it may have waited
#: for the interpreter's lock in each of a few, which other threads give back after an interval
_STEPS: Final = 3
ENOUGH_STEPS: Final = 9


class SlowNode(NamedTuple):
    """A node that takes too long.

    Attributes:
        number: its number.
        seconds: of one step.
        share: of what the step computes.
        factor: how many times as long as expected.
    """

    number: int
    seconds: float
    share: float
    factor: float


class Straggler(NamedTuple):
    """A device that takes too long.

    Attributes:
        name: of the device.
        share: of what the step computes.
        factor: how many times as long as other devices.
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
    """What the nodes of a graph should take; each is estimated once, since they stay as they are.

    Args:
        index: the nodes.
    """

    def __init__(self, index: NodeIndex) -> None:
        self._nodes = index.nodes
        self._known: dict[int, _Expected | None] = {}
        self._seconds = node_seconds()

    def of(self, number: int) -> _Expected | None:
        """None of a node that waits or moves data: such a node is not slow by itself."""
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
    """A node with its time: ``rate`` is that over the estimate."""

    number: int
    op: str
    device: str
    seconds: float
    share: float
    rate: float


def _timed(observed: Observed, busy: float) -> list[_Timed]:
    """The nodes that compute."""
    rows: list[_Timed] = []
    if observed.costs.steps < _STEPS:
        return rows
    least = observed.costs.least()
    whole = max(sum(least.values()), 1e-12)
    for cost in observed.costs.table():
        expected = observed.expectations.of(cost.index)
        if cost.runs and expected is not None:
            took = least[cost.index]
            rate = took / cost.runs / expected.seconds
            share = busy * took / whole
            rows.append(_Timed(cost.index, expected.op, expected.device, took, share, rate))
    return rows


def slow_node(observed: Observed, busy: float = 1.0) -> SlowNode | None:
    """The node that takes many times as long as others of its op, and much of a step.

    Args:
        observed: what is known of the nodes.
        busy: the part of the time in which steps do not wait for queues and the like.
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
    """The device that takes longer than others for each of the ops that it shares with them.

    Args:
        observed: what is known of the nodes.
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
