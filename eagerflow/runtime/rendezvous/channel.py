"""A channel: messages between two ends, over a wire that loses, duplicates and reorders packets.

Each end is a `Channel`, a state machine: events in, instructions out; no threads, no clock, no
I/O. So every state can be reached in a test, and the log of an end repeats it. Events and
instructions are plain tuples::

    event       ::= ("send", message)        # a value; goes out when there is credit
                  | ("urge", message)         # needs no credit, and overtakes values
                  | ("want", key, comes)      # the other end waits for a value; it may still come
                  | ("drop", step)            # the values of a step are not to be sent any more
                  | ("forget", step)          # a step sends no more: forget its wanted keys
                  | ("arrived", packet)
                  | ("taken", nbytes)         # a delivered value was taken by its receiver
                  | ("tick",)                 # the time of the last "wake" may have come
    instruction ::= ("put", packet)           # put it on the wire
                  | ("sent", message)         # it is on the wire for the first time
                  | ("gone", message)         # it has arrived at the other end
                  | ("deliver", message)      # values in order, each once; "taken" is owed
                  | ("bring", message)        # urgent messages as they come, each once
                  | ("wake", time)            # when the next "tick" is wanted, inf for never

A value needs credit. With each packet, the other end grants it up to a number of values that may
lie there without a receiver, as long as these have fewer than a number of bytes. A value that a
receiver waits for needs none: it is sent as an urgent message, once the other end has announced
that it is wanted.

Lost messages are sent again, after longer and longer times; nothing is ever given up. An owner
that knows that the other end has gone drops the channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Final, NoReturn, final

from eagerflow.errors import RendezvousError
from eagerflow.machine_logs import go_through
from eagerflow.runtime.rendezvous.credits import CREDIT, CREDIT_BYTES
from eagerflow.runtime.rendezvous.incoming import Incoming
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.outgoing import Outgoing
from eagerflow.runtime.rendezvous.packets import TIMING, ChannelTiming, Message, Packet

ChannelEvent = tuple[Any, ...]
ChannelInstruction = tuple[Any, ...]
#: the history of an end: the time, the event, and the instructions that it led to
ChannelLog = list[tuple[float, ChannelEvent, tuple[ChannelInstruction, ...]]]

_KINDS: Final = ("value", "urgent", "ack", "probe")


@final
class Channel:
    """One end of a channel.

    Args:
        credit: number of values that may lie at an end without a receiver; the same at both.
        credit_bytes: bytes of these from which on there is no credit for another value.
        timing: the waiting times.
        log: whether to keep events and instructions, for `rerun`.

    Attributes:
        log: events and instructions; None if they are not kept.
        wake: the time of the last "wake", or the one that `send_at_once` or `take_at_once` led to.

    >>> from eagerflow.runtime.rendezvous.channel import Channel
    >>> from eagerflow.runtime.rendezvous.packets import Message
    >>> here, there = Channel(), Channel()
    >>> message = Message("error", 12, None, "it has failed")
    >>> (_, packet), wake = here.handle(("urge", message), now=0.0)
    >>> wake
    ('wake', 0.2)
    >>> (_, brought), (_, answer) = there.handle(("arrived", packet), now=0.1)
    >>> brought is message, answer.kind, answer.urgent_upto
    (True, 'ack', 1)
    >>> here.handle(("arrived", answer), now=0.2)[-1]
    ('wake', inf)
    """

    __slots__ = ("_credit", "_incoming", "_outgoing", "_timing", "log", "wake")

    def __init__(
        self, credit: int = CREDIT, timing: ChannelTiming = TIMING, *,
        credit_bytes: int = CREDIT_BYTES, log: bool = False,
    ) -> None:  # fmt: skip
        self._credit = credit
        self._timing = timing
        self._outgoing = Outgoing(credit, credit_bytes, timing)
        self._incoming = Incoming(credit, credit_bytes, timing)
        self.wake = inf
        self.log: ChannelLog | None = [] if log else None

    @property
    def exhausted(self) -> bool:
        """Whether the other end has no credit left, so that wanted keys must be announced."""
        return self._incoming.exhausted

    @property
    def wanted_steps(self) -> set[int]:
        """The steps of values not sent yet that the other end waits for, and a step may forget."""
        return self._outgoing.wanted_steps

    @property
    def keys(self) -> list[Key]:
        """The keys of the values that have not arrived at the other end."""
        return self._outgoing.keys

    @property
    def held(self) -> int:
        """Number of messages held, for leak checks."""
        return self._outgoing.held + self._incoming.held

    def handle(self, event: ChannelEvent, now: float) -> list[ChannelInstruction]:
        """The instructions that follow from ``event``.

        Raises:
            RendezvousError: a packet says what the other end cannot know, or comes without credit.
                The state is unchanged.
        """
        out: list[ChannelInstruction] = []
        kind, tells = event[0], True
        if kind == "send":
            self._outgoing.send(event[1], now, out)
        elif kind == "arrived":
            self._arrived(event[1], now, out)
        elif kind == "taken":
            tells = self._incoming.taken(event[1], now)
        elif kind == "want":
            self._outgoing.want(event[1], event[2], now, out)
        elif kind == "tick":
            self._outgoing.tick(now, out)
        elif kind == "urge":
            self._outgoing.urge(event[1], now, out)
        elif kind == "drop":
            self._outgoing.drop(event[1])
        elif kind == "forget":
            self._outgoing.forget(event[1])
        else:
            self._refuse(event)
        if tells:
            self._answer(now, out)
        if self.log is not None:
            self.log.append((now, event, tuple(out)))
        return out

    def send_at_once(self, message: Message, now: float) -> Packet | None:
        """The packet of a value that goes out at once, the usual case, without lists of tuples.

        Returns:
            What ``handle(("send", message), now)`` would put on the wire. None if there is more to
            do than that, or there is a log: then nothing is done.
        """
        if self.log is not None:
            return None
        number = self._outgoing.send_at_once(message, now)
        if not number:
            return None
        outgoing = self._outgoing
        alone = len(outgoing.values) == 1 and not outgoing.urgent
        self.wake = now + self._timing.resend if alone else outgoing.wake
        return self._incoming.packet("value", number, message, message.nbytes)

    def take_at_once(self, packet: Packet, now: float) -> list[Message] | None:
        """Take a packet with the next value, the usual case, whose receiver takes it at once.

        If `wake` has come then, the other end waits for an answer: the owner handles a ``"tick"``
        when it has handed over the value.

        Returns:
            The messages that are "gone" by ``handle(("arrived", packet), now)`` and a "taken". None
            if there is more to do than to deliver the value, or there is a log: then nothing is
            done.
        """
        kind, number, message, nbytes, upto, early, limit, limit_bytes, urgent_upto = packet
        if self.log is not None or kind != "value" or message is None or early:
            return None
        incoming, outgoing = self._incoming, self._outgoing
        if not outgoing.only_answers(upto, urgent_upto):
            return None
        if not incoming.take_at_once(number, nbytes, now):
            return None
        gone = outgoing.answered_at_once(upto, limit, limit_bytes)
        self.wake = incoming.wake
        if outgoing.values:
            self.wake = min(outgoing.wake, self.wake)
        return gone

    def _arrived(self, packet: Packet, now: float, out: list[ChannelInstruction]) -> None:
        known = packet.kind in _KINDS and self._outgoing.fits(packet)
        if not known or not self._incoming.fits(packet):
            self._refuse(("arrived", packet._replace(message=None)))
        self._outgoing.answered(packet, now, out)
        self._incoming.arrived(packet, now, out)

    def _answer(self, now: float, out: list[ChannelInstruction]) -> None:
        """Acknowledge arrivals, in packets that are sent anyway or in a packet of its own."""
        tells = self._incoming.tells
        told = False
        for i, instruction in enumerate(out):
            if instruction[0] == "put":
                out[i] = ("put", tells(instruction[1]))
                told = True
        if not told and self._incoming.wake <= now:
            out.append(("put", tells(Packet("ack"))))
        wake = min(self._outgoing.wake, self._incoming.wake)
        if wake != self.wake:
            self.wake = wake
            out.append(("wake", wake))

    def _refuse(self, event: ChannelEvent) -> NoReturn:
        raise RendezvousError(
            "an event that does not fit the state of a channel",
            given=str(event),
            expected="answers to sent packets, and values within the credit",
        )


def rerun(
    log: Sequence[tuple[float, ChannelEvent, tuple[ChannelInstruction, ...]]],
    credit: int = CREDIT, timing: ChannelTiming = TIMING, credit_bytes: int = CREDIT_BYTES,
) -> Channel:  # fmt: skip
    """A channel end that repeats the events of ``log``; its instructions must be the same.

    Raises:
        RendezvousError: an instruction differs.
    """
    channel = Channel(credit, timing, credit_bytes=credit_bytes, log=True)
    told = (((event, now), expected) for now, event, expected in log)
    go_through(told, channel.handle, RendezvousError)
    return channel
