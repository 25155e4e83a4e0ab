"""Statistics of queues and the like: their levels, and who waited for them, for how long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from eagerflow.events import AbstractEvent, LevelEvent, QueueEvent, WaitEvent
from eagerflow.profiling.rows import AbstractRow, RowTable

#: kinds of meetings that hold no elements, and are no locks
_NO_QUEUES: Final = frozenset({"runner", ""})


@final
@dataclass(frozen=True, slots=True, repr=False)
class QueueStatistics(AbstractRow):
    """Statistics of one operation of one thread or runner on a queue or the like.

    Attributes:
        name: of the queue.
        kind: of queue, such as ``"fifo"``; a mutex, an accumulator or a barrier has one, too.
        mean_depth: the mean number of elements over time, from the first change in the profile on;
            None if nothing changed.
        capacity: the maximum number of elements; 0 if unlimited, or not known.
        operation: such as ``"enqueue"``.
        thread: the name of the thread, or ``"runner"`` and the name of the runner.
        calls: number of operations that ended.
        waits: number of waits, also those that began before the profile, or went on after it.
        waited: seconds of these waits within the profile.
        share: their fraction of the duration of the profile.
    """

    name: str
    kind: str
    mean_depth: float | None
    capacity: int
    operation: str
    thread: str
    calls: int
    waits: int
    waited: float
    share: float


class Wait(NamedTuple):
    """A wait, as far as it lies within a profile.

    Attributes:
        event: the event.
        thread: the name of its thread or runner.
        seconds: the duration within the profile.
    """

    event: WaitEvent
    thread: str
    seconds: float


def queue_statistics(
    events: Sequence[tuple[AbstractEvent, str]], cut: Iterable[Wait], end: float, seconds: float
) -> RowTable[QueueStatistics]:
    """The rows of the queues, those with the longest waits first.

    Args:
        events: all events, each with the name of its thread.
        cut: the waits that began before the profile, or had not ended at its end.
        end: the time of the end of the profile.
        seconds: its duration.
    """
    calls: dict[tuple[str, str, str], int] = {}
    waits: dict[tuple[str, str, str], list[float]] = {}
    kinds: dict[str, str] = {}
    levels: dict[str, list[LevelEvent]] = {}
    ended = [Wait(e, thread, e.seconds) for e, thread in events if isinstance(e, WaitEvent)]
    for event, thread in events:
        if isinstance(event, LevelEvent):
            levels.setdefault(event.name, []).append(event)
        elif isinstance(event, QueueEvent):
            key = event.name, event.operation, thread
            kinds[event.name] = event.resource
            calls[key] = calls.get(key, 0) + 1
    for wait in (*ended, *cut):
        key = wait.event.name, wait.event.operation, wait.thread
        kinds[wait.event.name] = wait.event.resource
        waits.setdefault(key, []).append(wait.seconds)
    rows = [
        _row(key, kinds[key[0]], levels.get(key[0], ()), calls.get(key, 0), waits.get(key, ()),
             end, seconds)
        for key in dict.fromkeys([*calls, *waits])
        if kinds[key[0]] not in _NO_QUEUES
    ]  # fmt: skip
    longest = dict.fromkeys(kinds, 0.0)
    for row in rows:
        longest[row.name] = max(longest[row.name], row.waited)
    return RowTable(sorted(rows, key=lambda row: (-longest[row.name], row.name, -row.waited)))


def _row(
    key: tuple[str, str, str], kind: str, levels: Sequence[LevelEvent], calls: int,
    waits: Sequence[float], end: float, seconds: float,
) -> QueueStatistics:  # fmt: skip
    name, operation, thread = key
    waited = sum(waits)
    return QueueStatistics(
        name=name,
        kind=kind,
        mean_depth=_mean_depth(levels, end),
        capacity=levels[-1].capacity if levels else 0,
        operation=operation,
        thread=thread,
        calls=calls,
        waits=len(waits),
        waited=waited,
        share=waited / seconds if seconds > 0 else 0.0,
    )


def _mean_depth(levels: Sequence[LevelEvent], end: float) -> float | None:
    if not levels:
        return None
    ordered = sorted(levels, key=lambda level: level.start)
    ends = [*[level.start for level in ordered[1:]], max(end, ordered[-1].start)]
    whole = ends[-1] - ordered[0].start
    if whole <= 0.0:
        return float(ordered[-1].depth)
    areas = [level.depth * (stop - level.start) for level, stop in zip(ordered, ends, strict=True)]
    return sum(areas) / whole
