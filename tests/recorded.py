"""Events of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import final

from eagerflow.events import Event, add_instrument, remove_instrument

__all__ = ["Recorder", "recorded"]


@final
class Recorder:
    """An instrument that keeps all events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def event(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: str, name: str | None = None) -> list[Event]:
        """The events of a kind, in the order of their ends."""
        found = [e for e in self.events if e.kind == kind and name in (None, e.name)]
        return sorted(found, key=lambda e: e.stop)

    def levels(self, name: str) -> list[tuple[int, int, int]]:
        """Of a queue: how many elements, producers and consumers there were, after each change."""
        found = [(e.depth, e.producers, e.consumers) for e in self.of("queue", name)]
        return [level for level, _ in groupby(found)]


@contextmanager
def recorded() -> Iterator[Recorder]:
    """All events of all threads within the block."""
    recorder = Recorder()
    add_instrument(recorder)
    try:
        yield recorder
    finally:
        remove_instrument(recorder)
