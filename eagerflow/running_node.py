"""The node of a graph that a thread runs, found from its stack on demand.

Code that is generated for a graph is registered under its file name. So nothing is noted while it
runs, and only callers of this module pay.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, Protocol, final
from weakref import WeakValueDictionary

from eagerflow.source import Source, capture, is_framework_frame

#: the prefix of file names of generated code
CODE_FILE: Final = "<program "
#: frames that a kernel may have above the code that calls it
_DEEP: Final = 64
_ENTRY: Final = "run"  # the function that generated code begins with


@final
@dataclass(frozen=True, slots=True)
class RunningNode:
    """The position of a thread in user code and graphs.

    Attributes:
        source: the user's line.
        executable: the number of the executable that runs the graph; 0 in eager code.
        graph: the name of the graph.
        node: the name of the node.
        frames: the enclosing loops of generated code, the outermost first, each by its name and
            the number of the iteration.
        progress: the fraction of a native kernel that has run; 0 where not known.
    """

    source: Source | None = None
    executable: int = 0
    graph: str = ""
    node: str = ""
    frames: tuple[tuple[str, int], ...] = ()
    progress: float = 0.0


class CodeWithNodes(Protocol):
    """An owner of generated code, which knows the nodes of its lines."""

    def running_node(self, file: str, frames: Sequence[FrameType]) -> RunningNode | None:
        """The node that a thread with these frames of its code runs, the innermost frame first."""

    def node_at_line(self, file: str, line: int) -> RunningNode | None:
        """The node that a line of the code runs."""


#: the living owners of generated code by file name
codes_by_file: Final[WeakValueDictionary[str, CodeWithNodes]] = WeakValueDictionary()


def running_node(depth: int = 1) -> RunningNode:
    """The position of this thread: a node of the innermost graph that it runs, or eager code.

    Args:
        depth: the number of frames above the caller to start at.
    """
    return _in_graph(sys._getframe(depth)) or RunningNode(capture(depth + 1))


def brief_node(depth: int = 1) -> tuple[int, str]:
    """The executable and the node of `running_node`; 0 and "" in eager code.

    Args:
        depth: the number of frames above the caller to start at.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_framework_frame(frame):
        file = frame.f_code.co_filename
        if file.startswith(CODE_FILE):
            at = node_at((file, frame.f_lineno))
            if at is not None:
                return at.executable, at.node
        frame = frame.f_back
    return 0, ""


def node_of_thread(thread: int) -> RunningNode:
    """The position of another thread, which sleeps.

    Args:
        thread: its identifier.
    """
    frame = sys._current_frames().get(thread)
    node = _in_graph(frame)
    if node is not None:
        return node
    while frame is not None and is_framework_frame(frame):
        frame = frame.f_back
    return RunningNode(None if frame is None else Source(frame.f_code, frame.f_lasti))


def _in_graph(frame: FrameType | None) -> RunningNode | None:
    """The node of the innermost graph that runs below the user's innermost line."""
    return _in_code(frame, is_framework_frame)


def _in_code(
    frame: FrameType | None, goes_on: Callable[[FrameType], bool]
) -> RunningNode | None:  # fmt: skip
    """The node of the innermost graph on a stack, searched upwards while ``goes_on`` holds."""
    while frame is not None and goes_on(frame):
        file = frame.f_code.co_filename
        owner = codes_by_file.get(file)
        if owner is not None:
            node = owner.running_node(file, _of_one_run(frame))
            if node is not None:
                return node
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


def nodes_of_threads() -> dict[int, RunningNode]:
    """The nodes that threads run, by thread identifier; threads outside of graphs are left out.

    Within a user's function that a node calls, a thread is at that node.
    """
    frames = sys._current_frames().items()
    nodes = {thread: _in_code(frame, lambda _: True) for thread, frame in frames}
    return {thread: node for thread, node in nodes.items() if node is not None}


#: a file name of generated code, and the line that a thread is at
PlaceInCode = tuple[str, int]


def places_of_threads() -> dict[int, PlaceInCode]:
    """The places of threads in generated code, by thread identifier, found as fast as possible."""
    places = {}
    for thread, top in sys._current_frames().items():
        frame: FrameType | None = top
        for _ in range(_DEEP):
            if frame is None:
                break
            file = frame.f_code.co_filename
            if file.startswith(CODE_FILE):
                places[thread] = file, frame.f_lineno
                break
            frame = frame.f_back
    return places


def node_at(place: PlaceInCode) -> RunningNode | None:
    """The node of a place in generated code, without its loops; None if the code is gone."""
    owner = codes_by_file.get(place[0])
    return None if owner is None else owner.node_at_line(*place)
