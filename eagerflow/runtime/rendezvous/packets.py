"""What two ends of a channel tell each other, and the packets that carry it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from eagerflow.runtime.rendezvous.keys import Key


class Message(NamedTuple):
    """What one end has to tell the other.

    Attributes:
        kind: ``"value"``; ``"error"``, with which a step is aborted; or ``"wanted"``.
        step: of which step; 0 if it is of several.
        key: of the value, else None.
        value: the value, the error, or the keys of the values that are wanted.
        dead: whether there is no value.
        nbytes: what a value counts for.
    """

    kind: str
    step: int
    key: Key | None
    value: Any
    dead: bool = False
    nbytes: int = 0


class Packet(NamedTuple):
    """What is put on the wire. It may get lost, come twice, or come after later ones.

    Each tells what has come of the other direction, and how much more may be sent.

    Attributes:
        kind: ``"value"``, ``"urgent"``, ``"ack"`` or ``"probe"``, which asks for an answer.
        number: of the message among those of its kind, from 1 on; 0 if there is none.
        message: None if it was dropped after it had got its number.
        nbytes: what it counts for, though it was dropped.
        upto: all values with numbers up to this one have come.
        early: the numbers of those that have come besides.
        limit: up to which number there is credit.
        limit_bytes: as long as fewer bytes were sent, of all values together, there is credit.
        urgent_upto: all urgent messages up to this one have come.
    """

    kind: str
    number: int = 0
    message: Message | None = None
    nbytes: int = 0
    upto: int = 0
    early: tuple[int, ...] = ()
    limit: int = 0
    limit_bytes: int = 0
    urgent_upto: int = 0


class ChannelTiming(NamedTuple):
    """How long a channel waits, in seconds.

    Attributes:
        resend: for an answer, before a packet is sent again; each time twice as long.
        longest: the longest such time.
        answer: for something to send, with which it tells what has come.
    """

    resend: float = 0.2
    longest: float = 5.0
    answer: float = 0.02


TIMING: Final = ChannelTiming()
