"""Values between tasks: who has sent one tells when, and who has got it tells when it came."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, final

from eagerflow.events import TransferEvent

#: seconds that a transfer is waited for at the other end; then what the sender knows counts
_PATIENCE: Final = 0.5
#: arrivals, and transfers, that wait for each other
_MOST: Final = 4096

#: a step of the session, and a value of it
Crossed = tuple[int, str]


@final
class Arrivals(OrderedDict[Crossed, float]):
    """When values came; the oldest are forgotten."""

    def __setitem__(self, crossed: Crossed, time: float) -> None:
        super().__setitem__(crossed, time)
        if len(self) > _MOST:
            self.popitem(last=False)


@final
class TransferEnds:
    """Puts both ends of transfers together.

    A sender knows only late that a value has come: the answer waits for other messages.

    Attributes:
        arrived: when values came.

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
        """A value was sent, and has come by the time that the transfer says."""
        self._sent.append((crossed, move))

    def take(self, now: float) -> list[TransferEvent]:
        """The transfers of which both ends are known, or which have been waited for long enough."""
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
