"""What wakes the thread that owns some sockets."""

from __future__ import annotations

import socket
from typing import final


@final
class Bell:
    """Wakes the thread that owns some sockets, from any thread.

    >>> from eagerflow.cluster.processes.bell import Bell
    >>> import select
    >>> bell = Bell()
    >>> bell.ring()
    >>> bool(select.select([bell], [], [], 0)[0])
    True
    >>> bell.silence()
    >>> bool(select.select([bell], [], [], 0)[0])
    False
    >>> bell.close()
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)

    def fileno(self) -> int:
        return self._ours.fileno()

    def ring(self) -> None:
        try:  # noqa: SIM105 - `suppress` would be three calls more for each step
            self._theirs.send(b"\0")
        except OSError:  # it rings already, or is closed
            pass

    def silence(self) -> None:
        try:  # noqa: SIM105 - as above
            self._ours.recv(4096)  # what is left, if anything, rings again
        except BlockingIOError:
            pass

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
