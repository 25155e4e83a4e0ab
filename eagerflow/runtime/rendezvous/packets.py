"""Messages between the two ends of a channel, and the packets that carry them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from eagerflow.runtime.rendezvous.keys import Key


class Message(NamedTuple):
    """A message from one end to the other.

    Attributes:
        kind: ``"value"``; ``"error"``, with which a step is aborted; or ``"wanted"``.
        step: the number of the step; 0 if the message concerns several.
        key: the key of the value, else None.
        value: the value, the error, or the keys of the values that are wanted.
        dead: whether there is no value.
        nbytes: the bytes of a value as credit counts them.
    """

    kind: str
    step: int
    key: Key | None
    value: Any
    dead: bool = False
    nbytes: int = 0


class Packet(NamedTuple):
    """A unit of transmission. It may get lost, arrive twice, or arrive after later packets.

    Each packet acknowledges arrivals from the other direction, and grants credit.

    Attributes:
        kind: ``"value"``, ``"urgent"``, ``"ack"`` or ``"probe"``, which asks for an answer.
        number: of the message among those of its kind, from 1 on; 0 if there is none.
        message: the message; None if it was dropped after it had got its number.
        nbytes: the bytes of the message as credit counts them, also if it was dropped.
        upto: all values with numbers up to this one have come.
        early: the numbers of later values that have come besides.
        limit: the number up to which there is credit for values.
        limit_bytes: there is credit as long as all values sent so far have fewer bytes.
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
    """Waiting times of a channel, in seconds.

    Attributes:
        resend: before a packet without an answer is sent again; doubled each time.
        longest: the upper bound of `resend`.
        answer: for a packet that can carry an acknowledgement, before one is sent alone.
    """

    resend: float = 0.2
    longest: float = 5.0
    answer: float = 0.02


TIMING: Final = ChannelTiming()
