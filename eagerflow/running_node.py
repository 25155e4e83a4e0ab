"""At which node of a graph a thread is, found from its stack when it is asked for.

Code that is generated for a graph is registered under its file name. So nothing is noted while it
runs, and only the caller that asks pays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, Protocol, final
from weakref import WeakValueDictionary

from eagerflow.source import Source, capture, is_framework_frame

#: how the names of files of generated code begin
CODE_FILE: Final = "<program "
#: frames that a kernel may have above the code that calls it
_DEEP: Final = 64
_ENTRY: Final = "run"  # the function that generated code begins with


@final
@dataclass(frozen=True, slots=True)
class RunningNode:
    """Where a thread is.

    Attributes:
        source: the user's line.
        executable: the number of what runs the graph; 0 in eager code.
        graph: the name of the graph.
        node: the name of the node.
        frames: the loops of generated code that it is in, the outermost first, each by its name and
            the number of the iteration.
        progress: how much of a native kernel has run, from 0 to 1; 0 where that is not known.
    """

    source: Source | None = None
    executable: int = 0
    graph: str = ""
    node: str = ""
    frames: tuple[tuple[str, int], ...] = ()
    progress: float = 0.0


class CodeWithNodes(Protocol):
    """What knows the nodes of generated code."""

    def running_node(self, file: str, frames: Sequence[FrameType]) -> RunningNode | None:
        """The node at which a thread is that has these frames of its code, the innermost first."""

    def node_at_line(self, file: str, line: int) -> RunningNode | None:
        """The node that a line of its code runs."""


#: what to ask for nodes of the code of a file name, as long as it lives
codes_by_file: Final[WeakValueDictionary[str, CodeWithNodes]] = WeakValueDictionary()


def running_node(depth: int = 1) -> RunningNode:
    """Where this thread is: at a node of the innermost graph that it runs, or in eager code.

    Args:
        depth: how many frames above the caller to start at.
    """
    return _in_graph(sys._getframe(depth)) or RunningNode(capture(depth + 1))


def node_of_thread(thread: int) -> RunningNode:
    """Where a thread is that sleeps, found from another one.

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
    """The node of the innermost graph on a stack, as far up as ``goes_on`` says."""
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
    """Where the threads are that are at a node of a graph, by their identifiers.

    Within a function of the user that a node calls they are at that node.
    """
    frames = sys._current_frames().items()
    nodes = {thread: _in_code(frame, lambda _: True) for thread, frame in frames}
    return {thread: node for thread, node in nodes.items() if node is not None}


#: the file name of code that was generated for a graph, and the line that a thread is at
PlaceInCode = tuple[str, int]


def places_of_threads() -> dict[int, PlaceInCode]:
    """In which generated code threads are, by their identifiers, as quickly as that can be told."""
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
    """The node that generated code was at, without its loops; None if that is gone."""
    owner = codes_by_file.get(place[0])
    return None if owner is None else owner.node_at_line(*place)
