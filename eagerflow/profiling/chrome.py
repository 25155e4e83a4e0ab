"""Events as a trace that Perfetto and Chrome show: one row per thread, scopes around their nodes.

The format is the "JSON object format" of Chrome's trace events: complete events (``"ph": "X"``)
with times in microseconds. Slices of one thread nest by their times. What waited without a thread
is a pair of asynchronous events (``"b"``, ``"e"``), and how a queue stands is a counter (``"C"``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, final

from eagerflow.events import AbstractEvent, LevelEvent, NodeEvent, RunEvent

__all__ = ["to_chrome"]

_MICRO: Final = 1e6


def to_chrome(events: Sequence[AbstractEvent]) -> dict[str, Any]:
    """The trace, ready for `json.dump`.

    Args:
        events: of any threads, those of one thread in the order of their ends.
    """
    begin = min((e.start for e in events), default=0.0)
    levels = [e for e in events if isinstance(e, LevelEvent)]
    waits = [e for e in events if not e.thread]
    events = [e for e in events if e.thread and not isinstance(e, LevelEvent)]
    threads = list(dict.fromkeys(e.thread for e in events))
    rows = {ident: row for row, ident in enumerate(threads, 1)}  # Perfetto's are 32 bits wide
    slices = [s for ident in threads for s in _slices([e for e in events if e.thread == ident])]
    names: dict[int | None, str] = {t.ident: t.name for t in threading.enumerate()}
    names |= {e.thread: f"runner {e.name}" for e in events if isinstance(e, RunEvent)}
    pid = os.getpid()
    found: list[dict[str, Any]] = [_name("process_name", pid, 0, "eagerflow")]
    for ident, row in rows.items():
        found.append(_name("thread_name", pid, row, names.get(ident, f"thread {ident}")))
    for s in sorted(slices, key=lambda s: (s.start, -s.stop, s.depth)):
        found.append(
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
    found += [_counter(e, begin, pid) for e in sorted(levels, key=lambda e: e.start)]
    found += [row for i, e in enumerate(waits) for row in _pair(e, begin, pid, i)]
    return {"traceEvents": found, "displayTimeUnit": "ms"}


def _counter(event: LevelEvent, begin: float, pid: int) -> dict[str, Any]:
    args = {"depth": event.depth, "producers": event.producers, "consumers": event.consumers}
    when = (event.start - begin) * _MICRO
    return {"name": event.name, "cat": event.kind, "ph": "C", "ts": when, "pid": pid, "args": args}


def _pair(event: AbstractEvent, begin: float, pid: int, number: int) -> Iterator[dict[str, Any]]:
    for phase, when in (("b", event.start), ("e", event.start + event.seconds)):
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
    """Those of one thread: one for each event, and one around nodes in a row of one scope."""
    opened: list[_Slice] = []
    executable = 0
    for event in events:
        scope = event.scope if isinstance(event, NodeEvent) else ""
        depth = scope.count("/") + 1 if scope else 0
        yield _Slice(event.kind, event.name, event, _args(event), depth)
        if not isinstance(event, NodeEvent):
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


#: what is said of an event in the order in which it is shown: fields, and what they are called
_SHOWN: Final = {
    "device": "device", "detail": "types", "nbytes": "bytes", "node": "node", "scope": "scope",
    "graph": "graph", "source": "source", "waited": "waited", "runner": "runner",
}  # fmt: skip


def _args(event: AbstractEvent) -> dict[str, Any]:
    found = {word: getattr(event, field, "") for field, word in _SHOWN.items()}
    found["source"] = "" if event.source is None else str(event.source)
    found["waited"] = found["waited"] or ""
    return {key: value for key, value in found.items() if value != ""}
