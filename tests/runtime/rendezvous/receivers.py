"""Callbacks and instruments that note what they were told."""

from __future__ import annotations

from typing import Any, NamedTuple, final

from eagerflow.events import TransferEvent
from eagerflow.runtime.rendezvous.keys import Key, Route

EDGE = "y -> cpu:1"
BACK = "z -> cpu:0"
ROUTES = {EDGE: Route("cpu:0", "cpu:1"), BACK: Route("cpu:1", "cpu:0")}


class Answer(NamedTuple):
    value: Any
    dead: bool
    error: Exception | None


@final
class Note(list[Any]):
    """Of a receiver (`Answer`), or of a sender (None or the error)."""

    def done(self, value: Any, dead: bool, error: Exception | None) -> None:
        self.append(Answer(value, dead, error))

    def sent(self, error: Exception | None) -> None:
        self.append(error)


@final
class Listener:
    """Hears of transfers."""

    kinds = frozenset({TransferEvent})

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self.begin, self.end = self.begun.append, self.ended.append


def key(iteration: int | None = None, edge: str = EDGE, step: int = 12) -> Key:
    """One in the loop ``while_loop``, or outside of loops."""
    return Key(step, edge, () if iteration is None else (("while_loop", iteration),))
