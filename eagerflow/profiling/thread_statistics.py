"""The threads and runners in a profile: their names, and their ops."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from eagerflow.events import AbstractEvent, NodeEvent, OpEvent
from eagerflow.profiling.rows import AbstractRow, RowTable


@final
@dataclass(frozen=True, slots=True, repr=False)
class ThreadStatistics(AbstractRow):
    """Statistics of the ops of one thread, or of one runner.

    The ops of a step belong to the thread that called it, whichever thread of the pool ran them.

    Attributes:
        name: of the thread, or ``"runner"`` and the name of the runner.
        calls: number of ops.
        total: seconds of all these ops, without waits.
        share: their fraction of the duration of the profile; as threads run at once, those of
            all may add up to more than 1.
    """

    name: str
    calls: int
    total: float
    share: float


@final
class ThreadNames:
    """The names of the threads that events belong to, asked for while the threads are alive."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, event: AbstractEvent) -> str:
        """The name of the thread or runner that an event belongs to.

        Args:
            event: an event; this is called by the thread that reports it.
        """
        if event.runner:
            return f"runner {event.runner}"
        ident = event.caller or event.thread
        if ident == threading.get_ident():
            return threading.current_thread().name  # the number may have been another thread's
        if ident <= 0:
            return "steps without a thread"
        if ident not in self._known:
            self._known.update({t.ident: t.name for t in threading.enumerate() if t.ident})
        return self._known.get(ident, f"thread {ident}")


def thread_statistics(
    events: Iterable[tuple[OpEvent | NodeEvent, str]], seconds: float
) -> RowTable[ThreadStatistics]:
    """The rows of the threads, by decreasing total time of their ops.

    Args:
        events: ops, each with the name of its thread.
        seconds: the duration of the profile.
    """
    sums: dict[str, tuple[int, float]] = {}
    for event, name in events:
        calls, total = sums.get(name, (0, 0.0))
        sums[name] = calls + 1, total + event.working
    rows = [
        ThreadStatistics(name, calls, total, total / seconds if seconds > 0 else 0.0)
        for name, (calls, total) in sums.items()
    ]
    return RowTable(sorted(rows, key=lambda row: row.total, reverse=True))
