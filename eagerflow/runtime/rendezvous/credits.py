"""Back-pressure: how much may lie at its destination before its senders wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, final

from eagerflow.runtime.rendezvous.keys import Key, Route

#: how many values of one route may lie there
CREDIT: Final = 64
#: from how many bytes of them on the next one waits, so that one that has more passes alone
CREDIT_BYTES: Final = 1 << 26

#: called once: with None when a value has gone, else with the error of its step
Sent = Callable[[Exception | None], object]


def nbytes_of(value: Any) -> int:
    """What a value counts for; numbers and lists count as nothing."""
    return getattr(value, "nbytes", 0)


@final
class _Lying:
    """What lies at the end of one route.

    Attributes:
        held: the values that have credit, each with its bytes.
        nbytes: of these.
        waiting: the senders of the others, each with the bytes of its value, in their order.
    """

    __slots__ = ("held", "nbytes", "waiting")

    def __init__(self) -> None:
        self.held: dict[Key, int] = {}
        self.nbytes = 0
        self.waiting: OrderedDict[Key, tuple[int, Sent]] = OrderedDict()


@final
class Credits:
    """Counts what lies at its destination, and keeps the senders that wait.

    It has no lock: that of its owner is held.

    Args:
        credit: how many values of one route may lie there.
        credit_bytes: from how many bytes on there is no credit for another one.

    Attributes:
        credit: the same.
        credit_bytes: the same.
    """

    __slots__ = ("_routes", "credit", "credit_bytes")

    def __init__(self, credit: int, credit_bytes: int = CREDIT_BYTES) -> None:
        self.credit = credit
        self.credit_bytes = credit_bytes
        self._routes: dict[Route, _Lying] = {}

    def _has_room(self, lying: _Lying) -> bool:
        return len(lying.held) < self.credit and lying.nbytes < self.credit_bytes

    def take(self, route: Route, key: Key, nbytes: int, sent: Sent | None) -> bool:
        """A value comes to lie there; whether there was credit, so that its sender can go on.

        One whose sender is not to be told takes credit that is not there.
        """
        lying = self._routes.get(route)
        if lying is None:
            lying = self._routes[route] = _Lying()
        room = self._has_room(lying) and not lying.waiting
        if room or sent is None:
            lying.held[key] = nbytes
            lying.nbytes += nbytes
        else:
            lying.waiting[key] = nbytes, sent
        return room

    def give(self, route: Route, key: Key, out: list[Sent]) -> None:
        """A value is taken; appends the senders that can go on now.

        That is its own if it waits: a sender whose value was received has nothing to wait for
        (``docs/decisions/0031-rendezvous.md``). Else it is those for which there is credit now.
        """
        lying = self._routes[route]
        waiting = lying.waiting
        if key in waiting:
            out.append(waiting[key][1])
            del waiting[key]  # after it was noted: Ctrl-C may come after any call
            return
        lying.nbytes -= lying.held.pop(key)
        while waiting and self._has_room(lying):
            first = next(iter(waiting))
            nbytes, sent = waiting[first]
            out.append(sent)
            del waiting[first]
            lying.held[first] = nbytes
            lying.nbytes += nbytes

    def waiting(self) -> list[Sent]:
        """The senders that wait."""
        return [sent for lying in self._routes.values() for _, sent in lying.waiting.values()]
