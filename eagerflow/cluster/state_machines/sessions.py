"""A server's record of one client: its messages, partitions and open steps."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from eagerflow.cluster.protocol.message_heads import STEPS, ErrorHead
from eagerflow.cluster.protocol.messages import RunStep
from eagerflow.cluster.protocol.values import Frame

#: number of steps, aborted before they began, that are remembered
_REMEMBERED: Final = 1_000


class Waiting(NamedTuple):
    """A step that waits until its partition has been read.

    Attributes:
        message: the request.
        frames: the frames of the request.
    """

    message: RunStep
    frames: list[Frame]


@final
class Session:
    """The session of one client at one server.

    Args:
        number: the number that the client has drawn.
        peer: the connection of the client.
        attempt: number of greetings of the client so far.
        who: the description of the client.
        lease: time at which the session ends unless a message comes before.

    Attributes:
        number: the same.
        peer: the same.
        attempt: the same.
        who: the same.
        lease: the same.
        told: number of messages sent to the client.
        came: number of messages that have come.
        partitions: by number the steps that wait for it to be read; None if it is ready.
        steps: open steps, with the number of the message to be answered.
        running: the open steps that run.
        aborts: the errors of steps that were aborted before they began.
        asked: other messages not answered yet, with the partition if the message registers one.
    """

    __slots__ = ("_last_step", "aborts", "asked", "attempt", "came", "lease", "number",
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
        self.came = 1  # the greeting
        self._last_step = 0
        self.aborts: dict[int, ErrorHead] = {}

    def next_number(self) -> int:
        """The number of the next message to the client."""
        self.told += 1
        return self.told

    def ends_step(self, number: int) -> bool:
        """Note the end of a step by the number of its request; whether there is such a step."""
        for step, asked in self.steps.items():
            if asked == number:
                del self.steps[step]
                self.running.discard(step)
                return True
        return False

    def owns(self, step: int) -> bool:
        """Whether a step belongs to this session."""
        return step // STEPS == self.number

    def begins(self, step: int) -> bool:
        """Note the begin of a step; whether it belongs here, and is later than all before."""
        if step // STEPS != self.number or step <= self._last_step:
            return False
        self._last_step = step
        return True

    def abort_later(self, step: int, error: ErrorHead) -> bool:
        """Note that a step is to fail when it begins; whether it has not begun yet."""
        if step <= self._last_step:
            return False
        self.aborts[step] = error
        if len(self.aborts) > _REMEMBERED:
            del self.aborts[next(iter(self.aborts))]
        return True
