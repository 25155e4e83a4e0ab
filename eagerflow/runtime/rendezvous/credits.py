"""Back-pressure: how many values may lie at their destination before their senders wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, final

from eagerflow.runtime.rendezvous.keys import Key, Route

#: how many values of one route may lie there
CREDIT: Final = 64
#: how many bytes of them, unless one alone has more
CREDIT_BYTES: Final = 1 << 26

#: called once: with None when a value has gone, else with the error of its step
Sent = Callable[[Exception | None], object]


@final
class Credits:
    """Counts the values that lie at their destination, and keeps the senders that wait.

    It has no lock: that of its owner is held.

    Args:
        credit: how many values of one route may lie there.

    Attributes:
        credit: the same.
    """

    __slots__ = ("_lying", "_waiting", "credit")

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self._lying: dict[Route, int] = {}
        self._waiting: dict[Route, OrderedDict[Key, Sent]] = {}

    def take(self, route: Route, key: Key, sent: Sent | None) -> bool:
        """A value comes to lie there; whether there was credit, so that its sender can go on."""
        lying = self._lying.get(route, 0)
        self._lying[route] = lying + 1
        if lying < self.credit:
            return True
        if sent is not None:
            self._waiting.setdefault(route, OrderedDict())[key] = sent
        return False

    def give(self, route: Route, key: Key) -> Sent | None:
        """A value is taken; the sender that can go on now, if one waits.

        That is its own before all others: a sender whose value was received has nothing to wait
        for (``docs/decisions/0031-rendezvous.md``).
        """
        self._lying[route] -= 1
        waiting = self._waiting.get(route)
        if not waiting:
            return None
        if key not in waiting:
            key = next(iter(waiting))
        sent = waiting[key]
        del waiting[key]  # after it was noted: Ctrl-C may come after any call
        return sent

    def waiting(self) -> list[Sent]:
        """The senders that wait."""
        return [sent for waiting in self._waiting.values() for sent in waiting.values()]
