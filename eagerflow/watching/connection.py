"""The connection to one view: messages with flow control."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, final

from eagerflow.watching.board import Board

#: bytes of a message at most
MOST_BYTES: Final = 100_000
#: bytes of all messages to one view in a second
BYTES_A_SECOND: Final = 250_000
#: seconds between two messages
LEAST_SECONDS: Final = 0.05
#: unacknowledged messages from which on a view gets one a second, until it acknowledges some
_WINDOW: Final = 100
_SLOW: Final = 1.0


class Comm(Protocol):
    """The line to a view in a notebook, as ``comm.create_comm`` of Jupyter gives it."""

    def send(self, data: dict[str, Any], *, buffers: list[bytes]) -> object:
        """Send a message."""

    def on_msg(self, callback: Callable[[dict[str, Any]], None]) -> object:
        """Call ``callback`` with each message; its ``["content"]["data"]`` is the data sent."""

    def close(self) -> object:
        """Close the line: nothing more will be sent."""


@final
class Connection:
    """Sends the changes of a board to one view.

    One thread calls `flush`. Messages of the view come in another: it acknowledges messages
    (``{"ack": sequence}``), and requests everything anew when it has missed one
    (``{"resync": true}``); anything else is a wish, for `take_wishes`.

    Args:
        board: the board.
        comm: the line to the view.

    Attributes:
        sent: number of messages sent.
        nbytes: number of bytes sent.
        broken: why nothing can be sent any more; empty while the connection works.
    """

    def __init__(self, board: Board, comm: Comm) -> None:
        self._board = board
        self._comm = comm
        self._untold = board.open()
        self._lock = threading.Lock()
        self._heard: list[Mapping[str, Any]] = []
        self._acknowledged = 0
        self._last = float("-inf")
        self._allowed = float(MOST_BYTES)
        self.sent = 0
        self.nbytes = 0
        self.broken = ""
        comm.on_msg(self._hear)

    def _hear(self, message: dict[str, Any]) -> None:
        """Note a message of the view; called in any thread."""
        data = message.get("content", {}).get("data")
        if isinstance(data, Mapping):
            with self._lock:
                self._heard.append(data)

    def take_wishes(self) -> list[Mapping[str, Any]]:
        """Take the view's messages; return those that do not concern the connection itself."""
        with self._lock:
            heard, self._heard = self._heard, []
        wishes = []
        for data in heard:
            if data.get("resync"):
                self._untold.forget()
                self._acknowledged = self._untold.sequence
            elif type(data.get("ack")) is int:
                self._acknowledged = max(self._acknowledged, data["ack"])
            else:
                wishes.append(data)
        return wishes

    def flush(self, now: float) -> None:
        """Send changes, if a message is due.

        Args:
            now: the time, in seconds of a monotonic clock.
        """
        behind = self._untold.sequence - self._acknowledged > _WINDOW
        if self.broken or now - self._last < (_SLOW if behind else LEAST_SECONDS) - 1e-9:
            return
        passed = min(now - self._last, 1.0)
        allowed = min(self._allowed + passed * BYTES_A_SECOND, MOST_BYTES)
        message = self._untold.message(now, int(allowed))
        if message is None:
            return
        self._allowed, self._last = allowed - len(message), now
        try:
            self._comm.send({"sequence": self._untold.sequence}, buffers=[message])
        except Exception as error:  # a broken view must not stop the program it shows
            self.broken = f"{type(error).__name__}: {error}"
            return
        self.sent += 1
        self.nbytes += len(message)

    @property
    def dropped(self) -> int:
        """Number of rows of logs that the view never received."""
        return self._untold.dropped

    def close(self) -> None:
        """Send nothing more."""
        self._board.close(self._untold)
        if not self.broken:
            self.broken = "closed"
            self._comm.close()
