"""How large messages may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """What a process takes from another one. What is larger is refused before it is read.

    Attributes:
        header: bytes of a header, and of what else goes over a wire in one piece.
        chunk: bytes of the pieces that larger frames go in.
        frames: how many frames a message has besides, pieces counted.
        frame: bytes of one that was put together.
        text: bytes of the text of a graph.
        nodes: of a graph, those of subgraphs included.
        partitions: that a session may register.
        steps: that a session may have open at once.
        sessions: that a server may have.
        unknown: how many messages of no session are answered; the others are dropped.
    """

    header: int = 16 << 20
    chunk: int = 4 << 20
    frames: int = 100_000
    frame: int = 4 << 30
    text: int = 256 << 20
    nodes: int = 1_000_000
    partitions: int = 10_000
    steps: int = 10_000
    sessions: int = 1_000
    unknown: int = 1_000


LIMITS: Final = Limits()
