"""Versions and name of a process in a greeting; errors for tasks that no greeting reaches."""

from __future__ import annotations

import os
import platform
import sys
from typing import Final

import numpy as np

from eagerflow.cluster.protocol.message_heads import ErrorHead
from eagerflow.cluster.protocol.messages import GRAPH_TEXT, PROTOCOL, Versions

_KEYS: Final = "eagerflow keys lists them; a connection file older than the keys is of no use"
#: errors for connections that do not exist, each with the event of the machine
ABSENT: Final = {
    "refused": ("refused", ErrorHead(
        "AuthenticationError", "has refused this client",
        expected="a client key on its list, and its own key in the connection file",
        hint=_KEYS,
    )),
    "cut": ("broken", ErrorHead(
        "TaskLost", "cannot be reached: each connection to it was cut in its handshake",
        expected="its process at the address, and its own key in the connection file",
        hint=f"if it runs, another process may have its port, or its key has changed: {_KEYS}",
    )),
    "unreached": ("broken", ErrorHead("TaskLost", "no process listens at its address")),
}  # fmt: skip


def versions(eagerflow: str) -> Versions:
    """The versions of this process.

    Args:
        eagerflow: version of eagerflow and of its kernels, which come in one package.
    """
    return Versions(
        PROTOCOL, GRAPH_TEXT, sys.byteorder, eagerflow, f"portable {eagerflow}",
        platform.python_version(), np.__version__,
    )  # fmt: skip


def who_is(session: int) -> str:
    """The description of a session's client in messages to others."""
    return f"session {session}, of process {os.getpid()} on {platform.node()[:100]}"
