"""The receiving half of a channel: order, duplicates, and credit for the other end."""

from __future__ import annotations

from math import inf
from typing import Any, Final, final

from eagerflow.runtime.rendezvous.packets import ChannelTiming, Message, Packet

#: makes a named tuple; a call of its class is two calls more
_make: Final = tuple.__new__


@final
class Incoming:
    """Messages from the other end.

    Its methods append instructions to ``out`` (`eagerflow.runtime.rendezvous.channel`).

    Args:
        credit: number of values that may lie here without having been taken.
        credit_bytes: bytes of these from which on there is no credit for another value.
        timing: the waiting time before an acknowledgement.

    Attributes:
        wake: when arrivals have to be acknowledged to the other end.
    """

    __slots__ = ("_answer", "_bytes", "_credit", "_credit_bytes", "_early", "_early_urgent",
                 "_limit", "_limit_bytes", "_next", "_next_urgent", "_taken", "_taken_bytes",
                 "_told_bytes", "_told_limit", "wake")  # fmt: skip

    def __init__(self, credit: int, credit_bytes: int, timing: ChannelTiming) -> None:
        self._credit = credit
        self._credit_bytes = credit_bytes
        self._answer = timing.answer
        self._next = self._next_urgent = 1  # the first number that has not come
        self._early: dict[int, tuple[Message | None, int]] = {}  # with later numbers
        self._early_urgent: set[int] = set()
        self._taken = 0
        self._limit = self._told_limit = credit
        self._bytes = self._taken_bytes = 0  # of all values that came in order, and were taken
        self._limit_bytes = self._told_bytes = credit_bytes
        self.wake = inf

    @property
    def held(self) -> int:
        """Number of messages that wait for earlier ones."""
        return len(self._early)

    @property
    def exhausted(self) -> bool:
        """Whether the other end has no credit left."""
        return self._limit < self._next or self._limit_bytes <= self._bytes

    def fits(self, packet: Packet) -> bool:
        """Whether there was credit for a packet."""
        number = packet.number
        if packet.kind != "value" or number < self._next:
            return True
        before = sum(nbytes for n, (_, nbytes) in self._early.items() if n < number)
        return number <= self._limit and self._bytes + before < self._limit_bytes

    def take_at_once(self, number: int, nbytes: int, now: float) -> bool:
        """Take the next value, behind which there is credit for another; False for any other one.

        It is one for a receiver that takes it at once: as by `arrived` and `taken`.
        """
        came = self._bytes + nbytes
        if (
            number != self._next or number >= self._limit or came >= self._limit_bytes
            or self._early
        ):  # fmt: skip
            return False
        self._next = number + 1
        self._bytes = came
        self._taken += 1
        self._taken_bytes += nbytes
        self._limit = limit = self._taken + self._credit
        self._limit_bytes = limit_bytes = self._taken_bytes + self._credit_bytes
        if (
            self._told_limit <= number or self._told_bytes <= came
            or 2 * (limit - self._told_limit) >= self._credit
            or 2 * (limit_bytes - self._told_bytes) >= self._credit_bytes
        ):  # fmt: skip
            self.wake = now
        elif now + self._answer < self.wake:
            self.wake = now + self._answer
        return True

    def arrived(self, packet: Packet, now: float, out: list[Any]) -> None:
        """Take a packet that has come."""
        if packet.kind == "value":
            self._value(packet, now, out)
        elif packet.kind == "urgent":
            self._urgent(packet, now, out)
        elif packet.kind == "probe":
            self.wake = now

    def _value(self, packet: Packet, now: float, out: list[Any]) -> None:
        number = packet.number
        if number < self._next or number in self._early:
            self.wake = now  # a duplicate: the acknowledgement was lost
            return
        if number == self._next:
            self._next_value(packet.message, packet.nbytes, now, out)
        else:
            self._early[number] = packet.message, packet.nbytes
            self.wake = now  # an earlier one may be lost
        while self._next in self._early:
            self._next_value(*self._early.pop(self._next), now, out)
        answer = now + self._answer
        if answer < self.wake:
            self.wake = answer

    def _next_value(self, message: Message | None, nbytes: int, now: float, out: list[Any]) -> None:
        """Deliver the value that is next in order."""
        self._next += 1
        self._bytes += nbytes
        if message is None:  # it was dropped, so no receiver takes it
            self.taken(nbytes, now)
        else:
            out.append(("deliver", message))

    def _urgent(self, packet: Packet, now: float, out: list[Any]) -> None:
        number = packet.number
        self.wake = now
        if number < self._next_urgent or number in self._early_urgent:
            return
        self._early_urgent.add(number)
        while self._next_urgent in self._early_urgent:
            self._early_urgent.discard(self._next_urgent)
            self._next_urgent += 1
        if packet.message is not None:
            out.append(("bring", packet.message))

    def taken(self, nbytes: int, now: float) -> bool:
        """Note that a delivered value has been taken by its receiver, which renews credit.

        Returns:
            Whether the time of the next acknowledgement has changed.
        """
        self._taken += 1
        self._taken_bytes += nbytes
        self._limit = limit = self._taken + self._credit
        self._limit_bytes = limit_bytes = self._taken_bytes + self._credit_bytes
        urgent = (  # the other end may wait for the credit
            self._told_limit < self._next or self._told_bytes <= self._bytes
            or 2 * (limit - self._told_limit) >= self._credit
            or 2 * (limit_bytes - self._told_bytes) >= self._credit_bytes
        )  # fmt: skip
        if not urgent or self.wake == now:
            return False
        self.wake = now
        return True

    def tells(self, packet: Packet) -> Packet:
        """``packet`` with acknowledgements and credit for the other end."""
        return self.packet(packet.kind, packet.number, packet.message, packet.nbytes)

    def packet(self, kind: str, number: int, message: Message | None, nbytes: int) -> Packet:
        """A packet with acknowledgements and credit for the other end."""
        self.wake = inf
        self._told_limit, self._told_bytes = self._limit, self._limit_bytes
        early = tuple(sorted(self._early)) if self._early else ()
        return _make(Packet, (
            kind, number, message, nbytes, self._next - 1, early, self._limit, self._limit_bytes,
            self._next_urgent - 1,
        ))  # fmt: skip
