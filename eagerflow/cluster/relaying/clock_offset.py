"""The offset between the clocks of two processes, estimated from round trips of messages."""

from __future__ import annotations

from collections import deque
from typing import Final, final

#: number of round trips used, the latest: clocks drift apart
_ROUND_TRIPS: Final = 32


@final
class ClockOffset:
    """The estimated lead of another process's clock over ours.

    A time that the other process sends between a question and its answer bounds the offset from
    both sides. If the bounds of all round trips allow 0, the clocks are taken to be the same, as
    those of two processes of one host are; else the offset is the middle of the common interval.

    >>> from eagerflow.cluster.relaying.clock_offset import ClockOffset
    >>> offset = ClockOffset()
    >>> offset.heard(10.0, 10.25, 10.5)
    >>> offset.seconds
    0.0
    >>> offset.heard(20.0, 120.5, 22.0), offset.heard(30.0, 130.5, 30.75)
    (None, None)
    >>> offset.seconds
    100.125
    """

    __slots__ = ("_bounds", "seconds")

    def __init__(self) -> None:
        self._bounds: deque[tuple[float, float]] = deque(maxlen=_ROUND_TRIPS)
        self.seconds = 0.0

    def heard(self, asked: float, there: float, answered: float) -> None:
        """Add a round trip.

        Args:
            asked: time of the question, by our clock.
            there: time that the answer states, by the other clock.
            answered: time of the answer's arrival, by our clock.
        """
        new = there - answered, there - asked
        self._bounds.append(new)
        least, most = _common(self._bounds)
        if least > most:  # a clock was set, or they have drifted apart: the newest counts
            self._bounds.clear()
            self._bounds.append(new)
            least, most = new
        self.seconds = 0.0 if least <= 0.0 <= most else (least + most) / 2


def _common(bounds: deque[tuple[float, float]]) -> tuple[float, float]:
    return max(least for least, _ in bounds), min(most for _, most in bounds)
