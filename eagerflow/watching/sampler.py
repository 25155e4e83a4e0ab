"""Sampler of the places of threads, which are shown as places and never as times.

A sample needs the lock of the interpreter, and so falls where a step releases it: in waits,
transfers and long nodes. Short nodes are never seen. So samples show the place of a long step; the
times of nodes are measured (`eagerflow.watching.node_costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, final

from eagerflow.events import TransferEvent, WaitEvent
from eagerflow.running_node import PlaceInCode, RunningNode

#: seconds of a step below which it has a rate, and no place
SHORT: Final = 0.02

#: number of glances kept until they are taken
_MOST_GLANCES: Final = 256

Doing = Literal["works", "waits", "moves data"]


@final
@dataclass(frozen=True, slots=True)
class Place:
    """The place of a thread within a step.

    Attributes:
        thread: its identifier; 0 for none.
        executable: the number of the executable; 0 for eager code, which waits.
        node: the name of the node.
        doing: its activity there.
        since: when it was seen there first, or began to wait, in seconds of ``perf_counter``.
        frames: the loops that it is in, the outermost first, with the iteration.
        queue: the name of the queue that it waits for; empty if it does not wait.
        progress: the fraction done of its native kernel, from 0 to 1.
    """

    thread: int
    executable: int
    node: str
    doing: Doing
    since: float
    frames: tuple[tuple[str, int], ...]
    queue: str = ""
    progress: float = 0.0


@final
class Sampler:
    """Keeps the places of threads that are within long steps.

    A glance notes only the position of a thread in its code; its meaning is looked up later, all at
    once, as half of a glance's cost is that it evicts a step's data from the processor's caches.

    Args:
        nodes: returns the node of each thread that runs a graph.
        places: returns the places in generated code, for a glance.
        node_at: returns the node of such a place.
        is_long: whether the steps of an executable, or the one in progress, are long enough to
            show a place.

    Attributes:
        places: the places as of the last sample.
        samples: number of samples and glances.
    """

    def __init__(
        self, nodes: Callable[[], Mapping[int, RunningNode]],
        places: Callable[[], Mapping[int, PlaceInCode]],
        node_at: Callable[[PlaceInCode], RunningNode | None], is_long: Callable[[int], bool],
    ) -> None:  # fmt: skip
        self._nodes = nodes
        self._places = places
        self._node_at = node_at
        self._is_long = is_long
        self._glances: list[tuple[float, int, PlaceInCode]] = []
        self.places: list[Place] = []
        self.samples = 0

    def glance(self, now: float) -> None:
        """Note the positions of threads, at next to no cost."""
        self.samples += 1
        if len(self._glances) < _MOST_GLANCES:
            self._glances += [(now, thread, place) for thread, place in self._places().items()]

    def _any_long(self) -> bool:
        """Whether a thread is in a long step, by a glance."""
        nodes = [self._node_at(place) for place in self._places().values()]
        return any(at is not None and self._is_long(at.executable) for at in nodes)

    def take_trail(self) -> list[tuple[float, int, int, str]]:
        """The glances since the last call: time, thread, executable and node."""
        glances, self._glances = self._glances, []
        trail = []
        for when, thread, place in glances:
            at = self._node_at(place)
            if at is not None and self._is_long(at.executable):
                trail.append((when, thread, at.executable, at.node))
        return trail

    def sample(
        self, now: float, waiting: list[WaitEvent], moving: list[TransferEvent]
    ) -> list[Place]:
        """Sample the places of threads.

        Args:
            now: the time.
            waiting: the waits in progress.
            moving: the transfers in progress.
        """
        self.samples += 1
        at_nodes = self._nodes() if self._any_long() else {}
        before = {(p.thread, p.executable, p.node, p.doing): p.since for p in self.places}
        moves = {e.thread: e for e in moving}
        places = [
            Place(w.thread, w.executable, w.node, "waits", w.start, w.frames, w.name)
            for w in waiting
        ]
        taken = {w.thread for w in waiting if w.thread}
        for thread, at in at_nodes.items():
            if thread in taken or not self._is_long(at.executable):
                continue
            doing: Doing = "moves data" if thread in moves else "works"
            key = thread, at.executable, at.node, doing
            places.append(
                Place(
                    thread, at.executable, at.node, doing, before.get(key, now), at.frames,
                    progress=at.progress,
                )
            )  # fmt: skip
        self.places = places
        return places
