"""How far the clock of another process is ahead of ours, from messages there and back."""

from __future__ import annotations

from collections import deque
from typing import Final, final

#: round trips that it stands on: clocks drift apart
_ROUND_TRIPS: Final = 32


@final
class ClockOffset:
    """How far another clock is ahead.

    What it says at some moment between a question and its answer bounds that from both sides.
    Where the bounds of all round trips allow 0 it is taken for the same clock, as that of a
    process of the same host is; else it is the middle of what they leave.

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
        """A question was answered.

        Args:
            asked: when it was asked, by our clock.
            there: what the other clock said.
            answered: when the answer had come, by ours.
        """
        new = there - answered, there - asked
        self._bounds.append(new)
        least, most = _common(self._bounds)
        if least > most:  # one of them was set, or they have drifted apart: the newest counts
            self._bounds.clear()
            self._bounds.append(new)
            least, most = new
        self.seconds = 0.0 if least <= 0.0 <= most else (least + most) / 2


def _common(bounds: deque[tuple[float, float]]) -> tuple[float, float]:
    return max(least for least, _ in bounds), min(most for _, most in bounds)
