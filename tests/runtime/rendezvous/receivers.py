"""Callbacks and instruments that record their calls."""

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
    """Records the answers to a receiver (`Answer`), or to a sender (None or the error)."""

    def done(self, value: Any, dead: bool, error: Exception | None) -> None:
        self.append(Answer(value, dead, error))

    def sent(self, error: Exception | None) -> None:
        self.append(error)


@final
class Listener:
    """An instrument that records transfers."""

    kinds = frozenset({TransferEvent})

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self.begin, self.end = self.begun.append, self.ended.append


def key(iteration: int | None = None, edge: str = EDGE, step: int = 12) -> Key:
    """A key in the loop ``while_loop``, or outside of loops."""
    return Key(step, edge, () if iteration is None else (("while_loop", iteration),))
