"""The one way out of the runtime: events on a bus, read by instruments.

No instrument, no call and no allocation: whoever makes events asks `listening` first.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

from eagerflow.source import Source

__all__ = ["Event", "Instrument", "add_instrument", "emit", "listening", "remove_instrument"]


@final
@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: what happened: ``"op"``, ``"node"`` for an op that a graph runs, ``"step"`` for a
            run of a graph, ``"run"`` for one of a runner (see `eagerflow.spawn`), ``"queue"`` when
            a queue or its like changes; of a pipeline ``"element"`` for one that was made ahead,
            or read by a reader, ``"take"`` for one that was handed over, ``"skip"`` for one that
            was left out after an error. ``docs/queues.md`` has a table.
        name: of what, such as the op's name.
        device: where, such as ``"cpu:0"``.
        start: when it began, in seconds of ``time.perf_counter``.
        stop: when it ended, likewise.
        thread: the identifier of the thread; of a run, which has none of its own, a negative
            number of the runner; 0 of an op that held none while it waited.
        nbytes: bytes of the results.
        detail: types of the results, for a reader.
        source: the user's line.
        node: of a node of a graph, its name.
        scope: its name scope, such as ``"encoder/layer0"``.
        graph: the name of the graph.
        program: the number of the program that ran it, 0 where there is none.
        caller: the identifier of the thread that asked for it, 0 where that is the same one.
        waited: seconds of it that were spent waiting, for a queue or its like.
        runner: the name of the runner that it happened for.
        depth: how many elements there are in a queue; of ``"take"``, how many were ready before.
        capacity: how many there is room for, 0 where there is no bound.
        producers: how many wait to put something in.
        consumers: how many wait to take something out.
    """

    kind: str
    name: str
    device: str
    start: float
    stop: float
    thread: int
    nbytes: int = 0
    detail: str = ""
    source: Source | None = None
    node: str = ""
    scope: str = ""
    graph: str = ""
    program: int = 0
    caller: int = 0
    waited: float = 0.0
    runner: str = ""
    depth: int = 0
    capacity: int = 0
    producers: int = 0
    consumers: int = 0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.stop - self.start


@runtime_checkable
class Instrument(Protocol):
    """Receives events, from any thread."""

    def event(self, event: Event, /) -> None:
        """Take one event. An instrument that raises is removed, with a warning."""


_lock = threading.Lock()
_instruments: tuple[Instrument, ...] = ()


def listening() -> bool:
    """Whether anybody listens; ask before building an `Event`."""
    return bool(_instruments)


def add_instrument(instrument: Instrument) -> None:
    """Send all events of all threads to ``instrument`` from now on."""
    global _instruments
    with _lock:
        if instrument not in _instruments:
            _instruments = (*_instruments, instrument)


def remove_instrument(instrument: Instrument) -> None:
    """Stop sending events to ``instrument``; it is no error if it gets none."""
    global _instruments
    with _lock:
        _instruments = tuple(i for i in _instruments if i is not instrument)


def emit(event: Event) -> None:
    """Give ``event`` to every instrument."""
    for instrument in _instruments:
        try:
            instrument.event(event)
        except Exception as error:  # a broken picture must not stop the work it shows
            remove_instrument(instrument)
            warnings.warn(
                f"instrument {instrument!r} raised {error!r} and was removed",
                RuntimeWarning,
                stacklevel=2,
            )
