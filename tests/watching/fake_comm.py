"""A fake comm: it records what was sent, and tests play the view's messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerflow.watching.tables import TableMessage, decode


class FakeComm:
    """A comm to a view that a test plays."""

    def __init__(self, answers: bool = True) -> None:
        self.messages: list[bytes] = []
        self.answers = answers
        self.closed = False
        self.broken: Exception | None = None
        self._heard: Callable[[dict[str, Any]], None] = lambda message: None

    def on_msg(self, callback: Callable[[dict[str, Any]], None]) -> None:
        self._heard = callback

    def send(self, data: dict[str, Any], *, buffers: list[bytes]) -> None:
        if self.broken is not None:
            raise self.broken
        (message,) = buffers
        self.messages.append(message)
        if self.answers:
            self.say(ack=data["sequence"])

    def say(self, **data: Any) -> None:
        self._heard({"content": {"data": data}})

    def close(self) -> None:
        self.closed = True

    @property
    def decoded(self) -> list[TableMessage]:
        return [decode(message) for message in self.messages]

    def rows(self, table: str) -> list[Any]:
        """All rows of a table that were sent, in order."""
        return [row for message in self.decoded for row in message.tables.get(table, [])]
