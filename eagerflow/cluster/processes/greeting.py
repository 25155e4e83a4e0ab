"""What a process says of itself in a greeting."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

from eagerflow.cluster.protocol.messages import GRAPH_TEXT, PROTOCOL, Versions


def versions(eagerflow: str) -> Versions:
    """Those of this process.

    Args:
        eagerflow: its version, which is also that of its kernels: they come in one package.
    """
    return Versions(
        PROTOCOL, GRAPH_TEXT, sys.byteorder, eagerflow, f"portable {eagerflow}",
        platform.python_version(), np.__version__,
    )  # fmt: skip


def who_is(session: int) -> str:
    """What the client of a session says that it is, for messages to others."""
    return f"session {session}, of process {os.getpid()} on {platform.node()[:100]}"
