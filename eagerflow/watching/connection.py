"""What brings messages to one view, no faster than it can take them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, final

from eagerflow.watching.board import Board

#: bytes of a message at most
MOST_BYTES: Final = 100_000
#: bytes a second of all messages to one view
BYTES_A_SECOND: Final = 250_000
#: seconds between two messages
LEAST_SECONDS: Final = 0.05
#: messages that a view may be behind; then it gets one a second, until it says that it reads
_WINDOW: Final = 100
_SLOW: Final = 1.0


class Comm(Protocol):
    """The line to a view in a notebook, as ``comm.create_comm`` of Jupyter gives it."""

    def send(self, data: dict[str, Any], *, buffers: list[bytes]) -> object:
        """Send a message."""

    def on_msg(self, callback: Callable[[dict[str, Any]], None]) -> object:
        """Call this with each message that comes; ``["content"]["data"]`` is what was sent."""

    def close(self) -> object:
        """Nothing more will be sent."""


@final
class Connection:
    """Sends to one view what changes on a board.

    `flush` is called by one thread. What the view says comes in another: it acknowledges messages
    (``{"ack": sequence}``) and asks for all anew when it misses one (``{"resync": true}``);
    anything else is a wish, for `take_wishes`.

    Args:
        board: what is to be told.
        comm: where to.

    Attributes:
        sent: how many messages were sent.
        nbytes: how many bytes.
        broken: why nothing can be sent any more; empty if it can.
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
        """A message of the view; any thread may bring it."""
        data = message.get("content", {}).get("data")
        if isinstance(data, Mapping):
            with self._lock:
                self._heard.append(data)

    def take_wishes(self) -> list[Mapping[str, Any]]:
        """What the view said that is no matter of the connection itself."""
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
        """Send what has changed, if it is time to.

        Args:
            now: the time, in seconds of a clock that goes forward.
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
        except Exception as error:  # a broken view must not stop what it looks at
            self.broken = f"{type(error).__name__}: {error}"
            return
        self.sent += 1
        self.nbytes += len(message)

    @property
    def dropped(self) -> int:
        """Rows of logs that the view was never told."""
        return self._untold.dropped

    def close(self) -> None:
        """Send nothing more."""
        self._board.close(self._untold)
        if not self.broken:
            self.broken = "closed"
            self._comm.close()
