"""Back-pressure: limits on the values at a destination, beyond which their senders wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, final

from eagerflow.runtime.rendezvous.keys import Key, Route

#: number of values of one route that may lie at their destination
CREDIT: Final = 64
#: bytes of these values from which on the next one waits; so a larger value passes alone
CREDIT_BYTES: Final = 1 << 26

#: called once: with None when a value has gone, else with the error of its step
Sent = Callable[[Exception | None], object]


def nbytes_of(value: Any) -> int:
    """The bytes of a value as credit counts them; numbers and lists count as nothing."""
    return getattr(value, "nbytes", 0)


@final
class _Lying:
    """The values at the end of one route.

    Attributes:
        held: the values that have credit, each with its bytes.
        nbytes: the bytes of all these.
        waiting: the senders of the other values, each with its bytes, in their order.
    """

    __slots__ = ("held", "nbytes", "waiting")

    def __init__(self) -> None:
        self.held: dict[Key, int] = {}
        self.nbytes = 0
        self.waiting: OrderedDict[Key, tuple[int, Sent]] = OrderedDict()


@final
class Credits:
    """Counts the values at their destination, and keeps the senders that wait.

    It has no lock of its own: callers hold that of its owner.

    Args:
        credit: number of values of one route that may lie there.
        credit_bytes: bytes of these from which on there is no credit for another value.

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
        """Count a value that has come; whether there was credit, so that its sender can go on.

        A value without a ``sent`` callback takes credit even where none is left.
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
        """Release the credit of a received value; appends the senders that can go on now.

        That is its own sender if it waits: once its value was received there is nothing to wait
        for (``docs/decisions/0031-rendezvous.md``). Else it is those for which there is credit now.
        """
        lying = self._routes[route]
        waiting = lying.waiting
        if key in waiting:
            out.append(waiting[key][1])
            del waiting[key]  # after the append: Ctrl-C may come after any call
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
