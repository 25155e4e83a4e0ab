"""Limits on the size of messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what a process accepts from a peer. Anything larger is refused before it is read.

    Attributes:
        header: bytes of a header, and of any other frame that goes over a wire.
        chunk: bytes of the pieces that longer frames are split into.
        frames: number of frames after the header.
        frame: bytes of a frame joined from pieces.
        text: bytes of the text of a graph.
        nodes: number of nodes of a graph, with its subgraphs.
        partitions: number of partitions that a session may register.
        steps: number of steps that a session may have open at once.
        resources: number of variables, queues and their like that a session may own, and that all
            clients may have in named containers.
        sessions: number of sessions that a server may have.
        unknown: number of messages without a session that are answered; further ones are dropped.
    """

    header: int = 16 << 20
    chunk: int = 1 << 20
    frames: int = 100_000
    frame: int = 4 << 30
    text: int = 256 << 20
    nodes: int = 1_000_000
    partitions: int = 10_000
    steps: int = 10_000
    resources: int = 10_000
    sessions: int = 1_000
    unknown: int = 1_000


LIMITS: Final = Limits()
