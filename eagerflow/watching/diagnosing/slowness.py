"""Which node or device is slower than its work lets expect.

How long a node should take is estimated from what its op costs, within a factor of ten. So a node
is held against others of the same op in the same graph: they are misjudged alike.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.pictures.groups import is_move
from eagerflow.profiling.nodes import median
from eagerflow.runtime.scheduled.node_seconds import node_seconds

if TYPE_CHECKING:
    from eagerflow.watching.observed_steps import Observed

#: what a call of a kernel takes besides its work, in seconds, about
_CALL: Final = 5e-6
#: how many times as slow as others a node, and a device, has to be
_NODE: Final = 8.0
_DEVICE: Final = 2.5
#: the part of a step that it has to take
_MUCH: Final = 0.25
#: other nodes of one op that say together how fast it is, and ops that say it of a device
_ALIKE: Final = 2
_OPS: Final = 3
#: observed steps that this has to stand on
_STEPS: Final = 3


class SlowNode(NamedTuple):
    """A node that takes too long.

    Attributes:
        number: its number.
        seconds: of one step.
        share: of the step.
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
        share: of the step.
        factor: how many times as long as other devices.
    """

    name: str
    share: float
    factor: float


class _Timed(NamedTuple):
    """A node with its time: ``rate`` is that over the estimate."""

    number: int
    op: str
    device: str
    seconds: float
    share: float
    rate: float


def _timed(observed: Observed) -> list[_Timed]:
    """The nodes that compute; those that wait or move data are not slow by themselves."""
    seconds, rows = node_seconds(), []
    if observed.costs.steps < _STEPS:
        return []
    least = observed.costs.least()
    for cost in observed.costs.table():
        node = observed.index.nodes[cost.index]
        if cost.runs and not is_move(node) and effect_of(node) != "blocks":
            took = least[cost.index]
            rate = took / cost.runs / (seconds(node) + _CALL)
            share = cost.share * took / max(cost.seconds, 1e-12)
            rows.append(_Timed(cost.index, node.op, str(node.device or ""), took, share, rate))
    return rows


def slow_node(observed: Observed) -> SlowNode | None:
    """The node that takes many times as long as others of its op, and much of a step."""
    rows = _timed(observed)
    if len(rows) <= _OPS:
        return None
    slowest = max(rows, key=lambda row: row.seconds)
    others = [row for row in rows if row is not slowest]
    alike = [row.rate for row in others if row.op == slowest.op]
    usual = median(alike if len(alike) >= _ALIKE else [row.rate for row in others])
    factor = slowest.rate / max(usual, 1e-12)
    if slowest.share < _MUCH or factor < _NODE:
        return None
    return SlowNode(slowest.number, slowest.seconds, slowest.share, factor)


def straggler(observed: Observed) -> Straggler | None:
    """The device that takes longer than others for each of the ops that it shares with them."""
    rows = _timed(observed)
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
