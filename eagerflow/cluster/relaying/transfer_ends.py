"""Transfers between tasks: start times from senders, matched with arrival times from receivers."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, final

from eagerflow.events import TransferEvent

#: seconds to wait for the time of arrival; after that the sender's estimate counts
_PATIENCE: Final = 0.5
#: limit of arrivals, and of transfers, that are not matched yet
_MOST: Final = 4096

#: the step of the session, and the name of the value
Crossed = tuple[int, str]


@final
class Arrivals(OrderedDict[Crossed, float]):
    """Arrival times of values; the oldest are forgotten."""

    def __setitem__(self, crossed: Crossed, time: float) -> None:
        super().__setitem__(crossed, time)
        if len(self) > _MOST:
            self.popitem(last=False)


@final
class TransferEnds:
    """Matches transfers with their arrivals.

    A sender learns late that a value has arrived: the acknowledgement waits for other messages.

    Attributes:
        arrived: arrival times of values.

    >>> from eagerflow.cluster.relaying.transfer_ends import TransferEnds
    >>> from eagerflow.events import TransferEvent
    >>> ends = TransferEnds()
    >>> ends.sent((1, "y"), TransferEvent(start=1.0, stop=1.75, nbytes=8))
    >>> ends.take(2.0)
    []
    >>> ends.arrived[1, "y"] = 1.5
    >>> [move.stop for move in ends.take(2.0)]
    [1.5]
    """

    def __init__(self) -> None:
        self.arrived: Final = Arrivals()
        self._sent: deque[tuple[Crossed, TransferEvent]] = deque(maxlen=_MOST)

    def sent(self, crossed: Crossed, move: TransferEvent) -> None:
        """Add a transfer, whose ``stop`` is the sender's estimate."""
        self._sent.append((crossed, move))

    def take(self, now: float) -> list[TransferEvent]:
        """The transfers that are matched, or have waited long enough."""
        waiting, taken = list(self._sent), []
        self._sent.clear()
        for crossed, move in waiting:
            time = self.arrived.pop(crossed, None)
            if time is not None:
                move.stop = max(time, move.start)
            elif move.stop is not None and now < move.stop + _PATIENCE:
                self._sent.append((crossed, move))
                continue
            taken.append(move)
        return taken
