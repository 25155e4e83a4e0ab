"""Recording of the events of a block."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any, final

import pytest

from eagerflow.events import KINDS, AbstractEvent, add_instrument, remove_instrument

__all__ = ["Recorder", "recorded", "refuse_events"]


@final
class Recorder:
    """An instrument that keeps all events.

    Args:
        kinds: the kinds of events that it keeps.

    Attributes:
        begun: events that have begun, in this order.
        events: events that have ended, in the order of their ends.
    """

    def __init__(self, kinds: Iterable[type[AbstractEvent]] = KINDS) -> None:
        self.kinds = frozenset(kinds)
        self.begun: list[AbstractEvent] = []
        self.events: list[AbstractEvent] = []
        #: all calls, in order: ``("begin", event)`` and ``("end", event)``
        self.told: list[tuple[str, AbstractEvent]] = []
        self._changed = threading.Condition()

    def begin(self, event: AbstractEvent) -> None:
        with self._changed:
            self.begun.append(event)
            self.told.append(("begin", event))
            self._changed.notify_all()

    def end(self, event: AbstractEvent) -> None:
        with self._changed:
            self.events.append(event)
            self.told.append(("end", event))
            self._changed.notify_all()

    def blocked(self, name: str, count: int = 1) -> Any:
        """The event of the ``count``-th wait for a resource, as soon as it has begun."""

        def waits() -> list[AbstractEvent]:
            return [e for e in self.begun if e.kind == "wait" and e.name == name]

        with self._changed:
            assert self._changed.wait_for(lambda: len(waits()) >= count, 60), "nobody waits"
            return waits()[count - 1]

    def of(self, kind: str, name: str | None = None) -> list[Any]:
        """The events of a kind, in the order of their ends."""
        events = [e for e in self.events if e.kind == kind and name in (None, e.name)]
        return sorted(events, key=lambda e: e.stop)

    def levels(self, name: str) -> list[tuple[int, int, int]]:
        """The levels of a queue over time: elements, waiting producers, waiting consumers."""
        levels = [(e.depth, e.producers, e.consumers) for e in self.of("level", name)]
        return [level for level, _ in groupby(levels)]


@contextmanager
def recorded(*kinds: type[AbstractEvent]) -> Iterator[Recorder]:
    """Records all events of all threads within the block, or the events of some kinds."""
    recorder = Recorder(kinds or KINDS)
    add_instrument(recorder)
    try:
        yield recorder
    finally:
        remove_instrument(recorder)


def refuse_events(monkeypatch: pytest.MonkeyPatch, *kinds: type[AbstractEvent]) -> None:
    """Make the creation of an event, or of an event of some kinds, fail for the rest of a test."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an event was made")

    for kind in kinds or KINDS:
        monkeypatch.setattr(kind, "__init__", refuse)
