"""At which node of a graph a thread is, found from its stack when it is asked for.

Code that is generated for a graph is registered under its file name. So nothing is noted while it
runs, and only the caller that asks pays.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, Protocol, final
from weakref import WeakValueDictionary

from eagerflow.source import Source, capture, is_framework_frame

_ENTRY: Final = "run"  # the function that generated code begins with


@final
@dataclass(frozen=True, slots=True)
class GraphPosition:
    """Where a thread is.

    Attributes:
        source: the user's line.
        executable: the number of what runs the graph; 0 in eager code.
        graph: the name of the graph.
        node: the name of the node.
        frames: the loops of generated code that it is in, the outermost first, each by its name and
            the number of the iteration.
    """

    source: Source | None = None
    executable: int = 0
    graph: str = ""
    node: str = ""
    frames: tuple[tuple[str, int], ...] = ()


class PositionedCode(Protocol):
    """What knows the nodes of generated code."""

    def position(self, file: str, frames: Sequence[FrameType]) -> GraphPosition | None:
        """The position of a thread with these frames of its code, the innermost first."""


#: what to ask for positions in the code of a file name, as long as it lives
codes_by_file: Final[WeakValueDictionary[str, PositionedCode]] = WeakValueDictionary()


def graph_position(depth: int = 1) -> GraphPosition:
    """Where this thread is: at a node of the innermost graph that it runs, or in eager code.

    Args:
        depth: how many frames above the caller to start at.
    """
    return _in_graph(sys._getframe(depth)) or GraphPosition(capture(depth + 1))


def thread_position(thread: int) -> GraphPosition:
    """Where a thread is that sleeps, found from another one.

    Args:
        thread: its identifier.
    """
    frame = sys._current_frames().get(thread)
    position = _in_graph(frame)
    if position is not None:
        return position
    while frame is not None and is_framework_frame(frame):
        frame = frame.f_back
    return GraphPosition(None if frame is None else Source(frame.f_code, frame.f_lasti))


def _in_graph(frame: FrameType | None) -> GraphPosition | None:
    """The position in the innermost graph that runs below the user's innermost line."""
    while frame is not None and is_framework_frame(frame):
        file = frame.f_code.co_filename
        owner = codes_by_file.get(file)
        if owner is not None:
            position = owner.position(file, _of_one_run(frame))
            if position is not None:
                return position
        frame = frame.f_back
    return None


def _of_one_run(frame: FrameType) -> list[FrameType]:
    """The frames of one call of generated code, whose functions call each other."""
    frames, file = [frame], frame.f_code.co_filename
    while frame.f_code.co_name != _ENTRY and frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == file:
            frames.append(frame)
    return frames
