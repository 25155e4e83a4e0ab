"""The versions and the name by which a process introduces itself in a greeting."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

from eagerflow.cluster.protocol.messages import GRAPH_TEXT, PROTOCOL, Versions


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
