"""Events as a trace for Perfetto and Chrome: one row per thread, scopes around their nodes.

The format is the "JSON object format" of Chrome's trace events: complete events (``"ph": "X"``)
with times in microseconds. Slices of one thread nest by their times: steps, their regions, nodes in
these, waits in these. An event that has not ended is a beginning without an end (``"B"``). A wait
without a thread is a pair of asynchronous events (``"b"``, ``"e"``), and the level of a queue is a
counter (``"C"``). Each device that data was moved from or to has a row, and a move is an arrow
between two of them (``"s"``, ``"f"``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from eagerflow.events import (
    AbstractEvent,
    LevelEvent,
    NodeEvent,
    OpEvent,
    RegionEvent,
    RunEvent,
    StepEvent,
    TransferEvent,
)

_MICRO: Final = 1e6


def to_chrome(events: Sequence[AbstractEvent]) -> dict[str, Any]:
    """The trace of some events, ready for `json.dump`.

    Args:
        events: events of any threads, those of one thread in the order of their ends. Events that
            have not ended come last.
    """
    trace = _Trace(min((e.start for e in events), default=0.0))
    levels = [e for e in events if isinstance(e, LevelEvent)]
    waits = [e for e in events if not e.thread]
    moves = [e for e in events if isinstance(e, TransferEvent) and e.stop is not None]
    events = [e for e in events if e.thread and not isinstance(e, LevelEvent)]
    threads = list(dict.fromkeys(e.thread for e in events))
    rows = {ident: row for row, ident in enumerate(threads, 1)}  # Perfetto's are 32 bits wide
    names: dict[int | None, str] = {t.ident: t.name for t in threading.enumerate()}
    names |= {e.thread: f"runner {e.name}" for e in events if isinstance(e, RunEvent)}
    trace.name("process_name", 0, "eagerflow")
    for ident, row in rows.items():
        trace.name("thread_name", row, names.get(ident, f"thread {ident}"))
    ended = [e for e in events if e.stop is not None]
    slices = [s for ident in threads for s in _slices([e for e in ended if e.thread == ident])]
    for s in sorted(slices, key=lambda s: (s.start, -s.stop, s.depth)):
        trace.add(s, "X", rows[s.thread], s.start, dur=(s.stop - s.start) * _MICRO, args=s.args)
    for event in events:
        if event.stop is None:
            trace.add(event, "B", rows[event.thread], event.start, args=_args(event))
    _add_moves(trace, moves, len(rows) + 1)
    for level in sorted(levels, key=lambda e: e.start):
        counts = {k: getattr(level, k) for k in ("depth", "producers", "consumers")}
        trace.add(level, "C", 0, level.start, args=counts)
    for i, wait in enumerate(waits):
        for phase, when in (("b", wait.start), ("e", wait.stop)):
            if when is not None:
                trace.add(wait, phase, 0, when, id=i, args=_args(wait))
    return {"traceEvents": trace.entries, "displayTimeUnit": "ms"}


def _add_moves(trace: _Trace, moves: Sequence[TransferEvent], row: int) -> None:
    """Add a row for each device, numbered from ``row``, and the transfers between them."""
    devices = dict.fromkeys(name for e in moves for name in (e.origin, e.device))
    rows = {name: row + i for i, name in enumerate(devices)}
    for name, number in rows.items():
        trace.name("thread_name", number, name)
    for number, event in enumerate(moves):
        for phase, device in (("s", event.origin), ("f", event.device)):
            at, length = rows[device], event.seconds * _MICRO
            trace.add(event, "X", at, event.start, dur=length, args=_args(event))
            trace.add(event, phase, at, event.start, bp="e", id=number)


@final
class _Trace:
    """The entries of a trace, whose times count from ``begin``."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.pid = os.getpid()
        self.entries: list[dict[str, Any]] = []

    def add(
        self, what: AbstractEvent | _Slice, phase: str, row: int, start: float, **more: Any
    ) -> None:
        when = {"ts": (start - self.begin) * _MICRO, "pid": self.pid, "tid": row}
        self.entries.append({"name": what.name, "cat": what.kind, "ph": phase, **when, **more})

    def name(self, what: str, row: int, name: str) -> None:
        named = {"name": what, "ph": "M", "pid": self.pid, "tid": row, "args": {"name": name}}
        self.entries.append(named)


@final
@dataclass(slots=True)
class _Slice:
    """A bar of the trace; of two bars with the same times the deeper is inside the other."""

    kind: str
    name: str
    thread: int
    start: float
    stop: float
    depth: int
    args: dict[str, Any]


def _slices(events: Iterable[AbstractEvent]) -> Iterator[_Slice]:
    """The slices of one thread: one for each event, and one around consecutive nodes of a scope."""
    opened: list[_Slice] = []
    executable = 0
    for event in events:
        scope = event.scope if isinstance(event, NodeEvent) else ""
        depth = scope.count("/") + 1 if scope else 0
        start, stop = event.start, event.start + event.seconds
        yield _Slice(event.kind, event.name, event.thread, start, stop, depth, _args(event))
        if not isinstance(event, NodeEvent):
            if isinstance(event, _AROUND_SCOPES):
                yield from opened
                opened = []
            continue
        path = scope.split("/") if scope else []
        same = 0
        if event.executable == executable:
            while same < min(len(path), len(opened)) and opened[same].name == path[same]:
                same += 1
        yield from opened[same:]
        del opened[same:]
        for name in path[same:]:
            opened.append(_Slice("scope", name, event.thread, start, stop, len(opened), {}))
        for around in opened:
            around.stop = stop
        executable = event.executable
    yield from opened


#: kinds of events that bound scopes
_AROUND_SCOPES: Final = (StepEvent, RegionEvent, OpEvent, RunEvent)
#: the arguments of an event in the order in which they are shown: fields and their labels
_SHOWN: Final = {
    "device": "device", "origin": "from", "detail": "types", "nbytes": "bytes", "node": "node",
    "scope": "scope", "graph": "graph", "step": "step", "operation": "operation",
    "resource": "resource", "reason": "reason", "source": "source", "waited": "waited",
    "runner": "runner", "error": "error",
}  # fmt: skip


def _args(event: AbstractEvent) -> dict[str, Any]:
    args = {word: getattr(event, field, "") for field, word in _SHOWN.items()}
    args["source"] = "" if event.source is None else str(event.source)
    args["waited"] = args["waited"] or ""
    args["step"] = event.step or ""
    args["iteration"] = ", ".join(f"{name} {number}" for name, number in event.frames)
    return {key: value for key, value in args.items() if value != ""}
