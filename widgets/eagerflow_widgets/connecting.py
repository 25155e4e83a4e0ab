"""The line to a notebook's front-end: a comm of Jupyter, on which deltas go out and wishes come in.

Nothing else is opened: no port, no file.
"""

from __future__ import annotations

from typing import Any, Final

from comm import create_comm

from eagerflow.watching import Connection, Watcher, shared

#: by which the front-end knows what opens a comm
TARGET: Final = "eagerflow.watching"
#: of messages; a front-end that knows another one says so instead of drawing
VERSION: Final = 1


def connect(watcher: Watcher = shared) -> Connection:
    """Tell the front-end of the cell that runs what happens, until it goes away.

    The watcher looks as long as somebody is told.

    Args:
        watcher: what looks; that of this process if not given.
    """
    comm = create_comm(target_name=TARGET, data={"version": VERSION})
    _answer_in_subshells(comm)
    connection = watcher.connect(comm)
    watcher.open()
    comm.on_close(lambda message: disconnect(connection, watcher))
    return connection


def disconnect(connection: Connection, watcher: Watcher = shared) -> None:
    """Tell it nothing more; it is no error if it is gone."""
    if connection.broken != "closed":
        watcher.disconnect(connection)
        watcher.close()


def _answer_in_subshells(comm: Any) -> None:
    """Let what the front-end says be heard while a cell runs.

    ipykernel 7.4 ties a comm to the shell that sent last, so that a running cell holds up all that
    comes; 7.1 to 7.3 do not, and have no such attribute.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = None
