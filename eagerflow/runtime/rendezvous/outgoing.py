"""The sending half of a channel: numbering, credit, and retransmission."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any, final

from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.packets import ChannelTiming, Message, Packet


@final
class _Flight:
    """A message that was put on the wire and is not acknowledged yet.

    Attributes:
        message: the message; None if it was dropped since.
        nbytes: its bytes as credit counts them.
        due: when it is sent again.
        tries: number of times it was sent.
    """

    __slots__ = ("due", "message", "nbytes", "tries")

    def __init__(self, message: Message, due: float) -> None:
        self.message: Message | None = message
        self.nbytes = message.nbytes
        self.due = due
        self.tries = 1


@final
class Outgoing:
    """Messages on their way to the other end.

    Its methods append instructions to ``out`` (`eagerflow.runtime.rendezvous.channel`).

    Args:
        credit: the number up to which values may be sent at first.
        credit_bytes: values may be sent as long as fewer bytes were, at first.
        timing: the times after which they are sent again.

    Attributes:
        values: the values on their way, by number.
        urgent: the urgent messages on their way, by number.
    """

    __slots__ = ("_bytes", "_limit", "_limit_bytes", "_next", "_next_urgent", "_probe", "_probes",
                 "_queue", "_timing", "_wanted", "urgent", "values")  # fmt: skip

    def __init__(self, credit: int, credit_bytes: int, timing: ChannelTiming) -> None:
        self._timing = timing
        self._limit = credit
        self._limit_bytes = credit_bytes
        self._bytes = 0  # of all values that got a number
        self._queue: dict[Key | None, Message] = {}  # values without credit, the oldest first
        self._wanted: set[Key] = set()  # values not sent yet that a receiver waits for
        self.values: dict[int, _Flight] = {}
        self.urgent: dict[int, _Flight] = {}
        self._next = self._next_urgent = 1
        self._probe = inf  # when the other end is asked for credit
        self._probes = 0

    @property
    def held(self) -> int:
        """Number of messages held."""
        flights = (*self.values.values(), *self.urgent.values())
        flying = sum(flight.message is not None for flight in flights)
        return flying + len(self._queue) + len(self._wanted)

    @property
    def wake(self) -> float:
        """Time of the next retransmission or probe."""
        if not self.values and not self.urgent:
            return self._probe
        due = inf
        for flights in (self.values, self.urgent):
            for flight in flights.values():
                if flight.due < due:
                    due = flight.due
        return self._probe if due == inf else due

    @property
    def wanted_steps(self) -> set[int]:
        """The steps of the values not sent yet that receivers wait for."""
        return {key.step for key in self._wanted}

    @property
    def keys(self) -> list[Key]:
        """The keys of the values that have not arrived."""
        flights = (*self.values.values(), *self.urgent.values())
        messages = [flight.message for flight in flights if flight.message is not None]
        messages += self._queue.values()
        return [message.key for message in messages if message.key is not None]

    def send(self, message: Message, now: float, out: list[Any]) -> None:
        """Send a value as soon as there is credit, or at once if it is wanted."""
        self._queue[message.key] = message
        if message.key in self._wanted:
            self.want(message.key, True, now, out)
        else:
            self._release(now, out)

    def send_at_once(self, message: Message, now: float) -> int:
        """The number of a value that nothing keeps waiting; 0, and nothing is done, otherwise."""
        number = self._next
        if self._queue or self._wanted or number > self._limit or self._bytes >= self._limit_bytes:
            return 0
        self._next = number + 1
        self.values[number] = _Flight(message, now + self._timing.resend)
        self._bytes += message.nbytes
        return number

    def urge(self, message: Message, now: float, out: list[Any]) -> None:
        """Send a message that needs no credit, and overtakes values."""
        number, self._next_urgent = self._next_urgent, self._next_urgent + 1
        self.urgent[number] = _Flight(message, now + self._timing.resend)
        out.append(("put", Packet("urgent", number, message, message.nbytes)))

    def want(self, key: Key, comes: bool, now: float, out: list[Any]) -> None:
        """Send a value that a receiver waits for without credit, now or once it is there."""
        self._wanted.discard(key)
        message = self._queue.pop(key, None)
        if message is not None:
            self.urge(message, now, out)
            out.append(("sent", message))
            self._release(now, out)
        elif comes:
            self._wanted.add(key)

    def drop(self, step: int) -> None:
        """Let go of the values of a step. Numbers already assigned stay, without a message."""
        self._queue = {key: one for key, one in self._queue.items() if one.step != step}
        for flight in (*self.values.values(), *self.urgent.values()):
            message = flight.message
            if message is not None and message.key is not None and message.step == step:
                flight.message = None
        if not self._queue:
            self._probe = inf
        self.forget(step)

    def forget(self, step: int) -> None:
        """Forget the wanted values of a step, for which nothing more is sent."""
        if self._wanted:
            self._wanted = {key for key in self._wanted if key.step != step}

    def fits(self, packet: Packet) -> bool:
        """Whether a packet only acknowledges messages that were sent."""
        known = max(packet.upto, *packet.early) if packet.early else packet.upto
        return known < self._next and packet.urgent_upto < self._next_urgent

    def only_answers(self, upto: int, urgent_upto: int) -> bool:
        """Whether a packet leads to no more than `answered_at_once`, and can have come."""
        fits = upto < self._next and urgent_upto < self._next_urgent
        return fits and not self._queue and not self.urgent

    def answered_at_once(self, upto: int, limit: int, limit_bytes: int) -> list[Message]:
        """Take a packet that `only_answers`; gives the values that have arrived."""
        gone, values = [], self.values
        for number in tuple(values) if values else ():  # they are in ascending order
            if number > upto:
                break
            message = values[number].message
            del values[number]
            if message is not None:
                gone.append(message)
        if limit > self._limit:
            self._limit, self._limit_bytes, self._probes = limit, limit_bytes, 0
        return gone

    def answered(self, packet: Packet, now: float, out: list[Any]) -> None:
        """Take the acknowledgements and the credit that a packet carries."""
        if self.values:
            self._arrived(self.values, packet.upto, packet.early, out)
        if self.urgent:
            self._arrived(self.urgent, packet.urgent_upto, (), out)
        if packet.limit > self._limit:
            self._limit, self._limit_bytes = packet.limit, packet.limit_bytes
            self._probes = 0
            self._probe = inf
        if self._queue:
            self._release(now, out)

    def _arrived(
        self, flights: dict[int, _Flight], upto: int, early: Iterable[int], out: list[Any]
    ) -> None:
        numbers = [number for number in flights if number <= upto]
        for number in (*numbers, *early):
            flight = flights.pop(number, None)
            if flight is not None and flight.message is not None:
                out.append(("gone", flight.message))

    def _release(self, now: float, out: list[Any]) -> None:
        """Send queued values as far as there is credit."""
        while self._queue and self._next <= self._limit and self._bytes < self._limit_bytes:
            message = self._queue.pop(next(iter(self._queue)))
            number, self._next = self._next, self._next + 1
            self.values[number] = _Flight(message, now + self._timing.resend)
            self._bytes += message.nbytes
            packet = Packet("value", number, message, message.nbytes)
            out += (("put", packet), ("sent", message))
        if not self._queue:
            self._probe = inf
        elif self._probe == inf:
            self._probe = now + self._timing.resend

    def tick(self, now: float, out: list[Any]) -> None:
        """Retransmit the messages that are due."""
        for kind, flights in (("value", self.values), ("urgent", self.urgent)):
            for number, flight in flights.items():
                if flight.due <= now:
                    flight.due = now + self._patience(flight.tries)
                    flight.tries += 1
                    packet = Packet(kind, number, flight.message, flight.nbytes)
                    out.append(("put", packet))
        if self._probe <= now:
            self._probes += 1
            self._probe = now + self._patience(self._probes)
            out.append(("put", Packet("probe")))

    def _patience(self, tries: int) -> float:
        return min(self._timing.resend * 2.0 ** min(tries, 30), self._timing.longest)
