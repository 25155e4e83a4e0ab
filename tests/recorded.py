"""Events of a block."""

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
        kinds: those that it keeps.

    Attributes:
        begun: those that have begun, in this order.
        events: those that have ended, in the order of their ends.
    """

    def __init__(self, kinds: Iterable[type[AbstractEvent]] = KINDS) -> None:
        self.kinds = frozenset(kinds)
        self.begun: list[AbstractEvent] = []
        self.events: list[AbstractEvent] = []
        #: what was told, in order: ``("begin", event)`` and ``("end", event)``
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
        """The last of so many waits for a resource, once it has begun and while it goes on."""

        def waits() -> list[AbstractEvent]:
            return [e for e in self.begun if e.kind == "wait" and e.name == name]

        with self._changed:
            assert self._changed.wait_for(lambda: len(waits()) >= count, 60), "nobody waits"
            return waits()[count - 1]

    def of(self, kind: str, name: str | None = None) -> list[Any]:
        """The events of a kind, in the order of their ends."""
        found = [e for e in self.events if e.kind == kind and name in (None, e.name)]
        return sorted(found, key=lambda e: e.stop)

    def levels(self, name: str) -> list[tuple[int, int, int]]:
        """Of a queue: how many elements, producers and consumers there were, after each change."""
        found = [(e.depth, e.producers, e.consumers) for e in self.of("level", name)]
        return [level for level, _ in groupby(found)]


@contextmanager
def recorded(*kinds: type[AbstractEvent]) -> Iterator[Recorder]:
    """All events of all threads within the block, or those of some kinds."""
    recorder = Recorder(kinds or KINDS)
    add_instrument(recorder)
    try:
        yield recorder
    finally:
        remove_instrument(recorder)


def refuse_events(monkeypatch: pytest.MonkeyPatch, *kinds: type[AbstractEvent]) -> None:
    """Let the rest of a test fail if an event is made, or one of some kinds."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an event was made")

    for kind in kinds or KINDS:
        monkeypatch.setattr(kind, "__init__", refuse)
