"""Events as a trace that Perfetto and Chrome show: one row per thread, scopes around their nodes.

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
    """The trace, ready for `json.dump`.

    Args:
        events: of any threads, those of one thread in the order of their ends. Those that have not
            ended come last.
    """
    begin = min((e.start for e in events), default=0.0)
    levels = [e for e in events if isinstance(e, LevelEvent)]
    waits = [e for e in events if not e.thread]
    moves = [e for e in events if isinstance(e, TransferEvent) and e.stop is not None]
    events = [e for e in events if e.thread and not isinstance(e, LevelEvent)]
    threads = list(dict.fromkeys(e.thread for e in events))
    rows = {ident: row for row, ident in enumerate(threads, 1)}  # Perfetto's are 32 bits wide
    ended = [e for e in events if e.stop is not None]
    slices = [s for ident in threads for s in _slices([e for e in ended if e.thread == ident])]
    names: dict[int | None, str] = {t.ident: t.name for t in threading.enumerate()}
    names |= {e.thread: f"runner {e.name}" for e in events if isinstance(e, RunEvent)}
    pid = os.getpid()
    entries: list[dict[str, Any]] = [_name("process_name", pid, 0, "eagerflow")]
    for ident, row in rows.items():
        entries.append(_name("thread_name", pid, row, names.get(ident, f"thread {ident}")))
    for s in sorted(slices, key=lambda s: (s.start, -s.stop, s.depth)):
        entries.append(
            {
                "name": s.name,
                "cat": s.kind,
                "ph": "X",
                "ts": (s.start - begin) * _MICRO,
                "dur": (s.stop - s.start) * _MICRO,
                "pid": pid,
                "tid": rows[s.thread],
                "args": s.args,
            }
        )
    entries += [_open(e, begin, pid, rows[e.thread]) for e in events if e.stop is None]
    entries += _arrows(moves, begin, pid, len(rows) + 1)
    entries += [_counter(e, begin, pid) for e in sorted(levels, key=lambda e: e.start)]
    entries += [row for i, e in enumerate(waits) for row in _pair(e, begin, pid, i)]
    return {"traceEvents": entries, "displayTimeUnit": "ms"}


def _counter(event: LevelEvent, begin: float, pid: int) -> dict[str, Any]:
    args = {"depth": event.depth, "producers": event.producers, "consumers": event.consumers}
    when = (event.start - begin) * _MICRO
    return {"name": event.name, "cat": event.kind, "ph": "C", "ts": when, "pid": pid, "args": args}


def _open(event: AbstractEvent, begin: float, pid: int, row: int) -> dict[str, Any]:
    when = (event.start - begin) * _MICRO
    return {
        "name": event.name, "cat": event.kind, "ph": "B", "ts": when, "pid": pid, "tid": row,
        "args": _args(event),
    }  # fmt: skip


def _arrows(
    moves: Sequence[TransferEvent], begin: float, pid: int, row: int
) -> Iterator[dict[str, Any]]:
    """The rows of devices, the first one with this number, and the transfers between them."""
    devices = dict.fromkeys(name for e in moves for name in (e.origin, e.device))
    rows = {name: row + i for i, name in enumerate(devices)}
    for name, number in rows.items():
        yield _name("thread_name", pid, number, name)
    for number, event in enumerate(moves):
        for phase, device in (("s", event.origin), ("f", event.device)):
            at = {"ts": (event.start - begin) * _MICRO, "pid": pid, "tid": rows[device]}
            known = {"name": event.name, "cat": event.kind}
            yield {**known, **at, "ph": "X", "dur": event.seconds * _MICRO, "args": _args(event)}
            yield {**known, **at, "ph": phase, "bp": "e", "id": number}


def _pair(event: AbstractEvent, begin: float, pid: int, number: int) -> Iterator[dict[str, Any]]:
    phases = [("b", event.start)]
    if event.stop is not None:
        phases.append(("e", event.stop))
    for phase, when in phases:
        yield {
            "name": event.name, "cat": event.kind, "ph": phase, "id": number,
            "ts": (when - begin) * _MICRO, "pid": pid, "tid": 0, "args": _args(event),
        }  # fmt: skip


def _name(what: str, pid: int, row: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": row, "args": {"name": name}}


@final
class _Slice:
    """One bar of the picture; of bars with the same times the deeper is within the other."""

    __slots__ = ("args", "depth", "kind", "name", "start", "stop", "thread")

    def __init__(
        self, kind: str, name: str, event: AbstractEvent, args: dict[str, Any], depth: int
    ) -> None:
        self.depth = depth
        self.kind = kind
        self.name = name
        self.start = event.start
        self.stop = event.start + event.seconds
        self.thread = event.thread
        self.args = args


def _slices(events: Iterable[AbstractEvent]) -> Iterator[_Slice]:
    """The slices of one thread: one for each event, and one around consecutive nodes of a scope."""
    opened: list[_Slice] = []
    executable = 0
    for event in events:
        scope = event.scope if isinstance(event, NodeEvent) else ""
        depth = scope.count("/") + 1 if scope else 0
        yield _Slice(event.kind, event.name, event, _args(event), depth)
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
            opened.append(_Slice("scope", name, event, {}, len(opened)))
        for around in opened:
            around.stop = event.start + event.seconds
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
