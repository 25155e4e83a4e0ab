"""What a server knows of one client: its messages, partitions and open steps."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, final

from eagerflow.cluster.protocol.message_heads import STEPS, ErrorHead
from eagerflow.cluster.protocol.messages import RunStep
from eagerflow.cluster.protocol.values import Frame

#: of how many steps that were aborted before they began it is remembered
_REMEMBERED: Final = 1_000


@final
class Arrival(Enum):
    """Where the number of a message stands among those that came before."""

    NEXT = "next"
    AGAIN = "again"
    LATE = "late"


class Waiting(NamedTuple):
    """A step that waits until its partition is there.

    Attributes:
        message: that asks for it.
        frames: what it is fed.
    """

    message: RunStep
    frames: list[Frame]


@final
class Session:
    """One client at one server.

    Args:
        number: that the client has drawn.
        peer: the connection.
        attempt: how often it had greeted.
        who: what it is.
        lease: the time at which it is over, if nothing comes before.

    Attributes:
        number: the same.
        peer: the same.
        attempt: the same.
        who: the same.
        lease: the same.
        told: how many messages were sent to it.
        partitions: by number: the steps that wait for one that is being read; None if it is there.
        steps: those that are open, with the number of the message to be answered.
        running: those of them that run.
        asked: other messages that were not answered yet, with the partition that one registers.
    """

    __slots__ = ("_aborted", "_came", "_last_step", "asked", "attempt", "lease", "number",
                 "partitions", "peer", "running", "steps", "told", "who")  # fmt: skip

    def __init__(self, number: int, peer: str, attempt: int, who: str, lease: float) -> None:
        self.number = number
        self.peer = peer
        self.attempt = attempt
        self.who = who
        self.lease = lease
        self.told = 0
        self.partitions: dict[int, list[Waiting] | None] = {}
        self.steps: dict[int, int] = {}
        self.running: set[int] = set()
        self.asked: dict[int, int | None] = {}
        self._came = 1  # the greeting
        self._last_step = 0
        self._aborted: dict[int, ErrorHead] = {}

    def arrives(self, number: int) -> Arrival:
        """Take note of the number of a message."""
        if number <= self._came:
            return Arrival.AGAIN
        if number > self._came + 1:
            return Arrival.LATE
        self._came = number
        return Arrival.NEXT

    def next_number(self) -> int:
        """The number of the next message to it."""
        self.told += 1
        return self.told

    def waits_for(self, number: int) -> bool:
        """Whether what a message asks for is being done."""
        return number in self.asked or number in self.steps.values()

    def ends(self, number: int) -> int | None:
        """What a message asked for is done; the partition, if it was to register one."""
        if number in self.asked:
            return self.asked.pop(number)
        step = next(step for step, asked in self.steps.items() if asked == number)
        del self.steps[step]
        self.running.discard(step)
        return None

    def owns(self, step: int) -> bool:
        """Whether a step is one of its own."""
        return step // STEPS == self.number

    def begin(self, step: int) -> bool:
        """Take note of a step that begins; whether it is later than all before."""
        later = step > self._last_step
        self._last_step = max(step, self._last_step)
        return later

    def abort_later(self, step: int, error: ErrorHead) -> None:
        """A step that has not begun is to fail when it does."""
        if step > self._last_step:
            self._aborted[step] = error
            if len(self._aborted) > _REMEMBERED:
                del self._aborted[next(iter(self._aborted))]

    def aborted(self, step: int) -> ErrorHead | None:
        """The error of a step that was aborted before it began."""
        return self._aborted.pop(step, None)
