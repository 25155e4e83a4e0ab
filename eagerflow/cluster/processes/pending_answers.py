"""What a client has asked for and is not answered yet: who hears of it, and how to wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

from eagerflow.cluster.protocol.failures import read_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, Heads
from eagerflow.cluster.protocol.messages import Action
from eagerflow.cluster.protocol.values import Frame, decode_values


class Answered(Protocol):
    """Hears what became of a request, in the thread that owns the sockets."""

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        """It is done."""

    def failed(self, head: ErrorHead) -> None:
        """It has failed."""


class Unasked(Protocol):
    """Sends eager actions, and hears what became of them."""

    @property
    def task(self) -> str:
        """Where they go."""

    def batch(self, actions: Sequence[Action]) -> Answered:
        """Who hears what became of the actions, which go in one message."""


@final
class Pending:
    """Something that was asked for.

    Attributes:
        request: its number.
        head: of its error.
    """

    __slots__ = ("_bell", "_results", "_then", "head", "request")

    def __init__(self, request: int, then: Callable[[ErrorHead], object] | None = None) -> None:
        self.request = request
        self.head: ErrorHead | None = None
        self._then = then
        self._bell = threading.Event()
        self._results: Mapping[str, tuple[Heads, list[Frame]]] = {}

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        self._results = results
        self._bell.set()

    def failed(self, head: ErrorHead) -> None:
        self.head = head
        if self._then is not None:
            self._then(head)
        self._bell.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it is answered."""
        return self._bell.wait(seconds)

    def results(self) -> dict[str, list[Any]]:
        """What the tasks gave, once it is answered.

        Raises:
            EagerflowError: it has failed.
        """
        if self.head is not None:
            raise read_error(self.head)
        return {
            task: decode_values(heads, iter(frames))
            for task, (heads, frames) in self._results.items()
        }
