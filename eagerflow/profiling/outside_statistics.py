"""Statistics of the time outside of ops: traces, pipelines, waits, copies to the host, the rest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeAlias, final

from eagerflow.events import (
    AbstractEvent,
    CallEvent,
    FetchEvent,
    NodeEvent,
    OpEvent,
    StepEvent,
    TraceEvent,
    WaitEvent,
)
from eagerflow.profiling.rows import AbstractRow, RowTable
from eagerflow.profiling.spans import OpTimes
from eagerflow.source import Source, cell_name

#: the events that say what a thread does outside of ops
Scope: TypeAlias = TraceEvent | CallEvent | WaitEvent | FetchEvent | StepEvent
SCOPES: Final = (TraceEvent, CallEvent, WaitEvent, FetchEvent, StepEvent)


@final
@dataclass(frozen=True, slots=True, repr=False)
class OutsideStatistics(AbstractRow):
    """What took time outside of ops: one traced function, one function of a pipeline, one queue.

    Attributes:
        kind: ``"trace"`` for traces, ``"call"`` for calls of a user's function by a pipeline,
            ``"wait"`` for waits, ``"fetch"`` for copies of values of devices to the host, as by
            ``x.item()`` and ``print(x)``, ``"step"`` for what runs of graphs took besides their
            ops; ``"other"`` for the rest, which is other Python code.
        name: of the traced function or graph, of the stage such as ``"map(augment)"``, of the
            queue, or of the device; empty for the rest.
        source: the line that put the function into the pipeline, or that reads the value; None for
            other kinds.
        is_own: whether it was in the thread of the block, and so is a part of its time.
        calls: number of traces, calls, waits, copies or runs; 0 for the rest.
        total: their seconds, without those of ops and of other rows that lie within.
        share: the fraction of the duration of the profile.
        ops: number of ops of eager code within.
    """

    kind: str
    name: str
    source: Source | None
    is_own: bool
    calls: int
    total: float
    share: float
    ops: int

    @property
    def place(self) -> str:
        """The line by the name of its file and its number; empty without one."""
        if self.source is None:
            return ""
        return f"{os.path.basename(cell_name(self.source.file))}:{self.source.line}"


@final
@dataclass(slots=True)
class _Sum:
    source: Source | None
    calls: int = 0
    total: float = 0.0
    ops: int = 0


#: sums by kind, name, place, and whether they are of the thread of the block
_Sums: TypeAlias = dict[tuple[str, str, str, bool], _Sum]


def outside_statistics(
    own: tuple[OpTimes, Sequence[Scope]],
    others: Iterable[tuple[OpTimes, Sequence[Scope]]],
    seconds: float,
) -> RowTable[OutsideStatistics]:
    """The rows by decreasing total time, those of the thread of the block first, with the rest.

    Args:
        own: what the thread of the block did.
        others: what other threads did.
        seconds: the duration of the profile.
    """
    sums: _Sums = {}
    _add_scopes(sums, *own, is_own=True)
    for ops, scopes in others:
        calls = [e for e in scopes if not isinstance(e, WaitEvent | StepEvent)]
        _add_scopes(sums, ops, calls, is_own=False)
    rows = [
        OutsideStatistics(kind, name, s.source, is_own, s.calls, s.total, _share(s.total, seconds),
                          s.ops)
        for (kind, name, _, is_own), s in sums.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (not row.is_own, -row.total))
    mine = [row for row in rows if row.is_own]
    rest = seconds - own[0].total - sum(row.total for row in mine)
    other = OutsideStatistics("other", "", None, True, 0, rest, _share(rest, seconds), 0)
    return RowTable([*mine, *[other] * (rest > 0.0), *rows[len(mine) :]])


def _share(total: float, seconds: float) -> float:
    return total / seconds if seconds > 0.0 else 0.0


def _add_scopes(sums: _Sums, ops: OpTimes, scopes: Sequence[Scope], *, is_own: bool) -> None:
    """Add the events of one thread, each with its time outside of ops and of events within it."""
    around: list[tuple[float, _Sum]] = []  # with their ends, the innermost last
    for event in sorted(scopes, key=attrgetter("start")):
        start, stop = event.start, event.start + event.seconds
        while around and around[-1][0] <= start:
            around.pop()
        stop = min(stop, around[-1][0]) if around else stop
        seconds = stop - start - ops.within(start, stop)
        if isinstance(event, FetchEvent) and seconds < _ROUNDED:  # it is of an op
            continue
        if around:
            around[-1][1].total -= seconds
        around.append((stop, _sum_of(sums, event, is_own)))
        around[-1][1].total += seconds
        if not isinstance(event, WaitEvent):  # the op that waits has begun before
            around[-1][1].ops += ops.count(start, stop)


#: seconds that are 0 but for rounding
_ROUNDED: Final = 1e-8
#: the error of a call that finds the end of an iterable, which is no call to count
_END: Final = "StopIteration"


def _sum_of(sums: _Sums, event: Scope, is_own: bool) -> _Sum:
    source = event.source if isinstance(event, CallEvent | FetchEvent) else None
    place = "" if source is None else f"{source.file}:{source.line}"
    sum_ = sums.setdefault((event.kind, event.name, place, is_own), _Sum(source))
    sum_.calls += event.error != _END
    return sum_


def by_thread(
    ops: Iterable[OpEvent | NodeEvent], events: Iterable[AbstractEvent]
) -> dict[int, tuple[OpTimes, list[Scope]]]:
    """What each thread did, by its identifier.

    Args:
        ops: the ops.
        events: of all kinds.
    """
    run: dict[int, list[OpEvent | NodeEvent]] = {}
    for op in ops:
        run.setdefault(op.caller or op.thread, []).append(op)
    scopes: dict[int, list[Scope]] = {}
    for event in events:
        if isinstance(event, StepEvent):
            if not event.parent:  # others are parts of that one, and may run at once
                scopes.setdefault(event.caller or event.thread, []).append(event)
        elif isinstance(event, SCOPES):
            scopes.setdefault(event.thread, []).append(event)
    idents = dict.fromkeys([*run, *scopes])
    waits = {i: [e for e in of if isinstance(e, WaitEvent)] for i, of in scopes.items()}
    return {i: (OpTimes(run.get(i, ()), waits.get(i, ())), scopes.get(i, [])) for i in idents}
