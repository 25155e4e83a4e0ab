"""`profile`: a context manager that records the ops of a block, with their times."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, final

from eagerflow import events
from eagerflow.atomic_files import replaced
from eagerflow.core.monitors import timed
from eagerflow.events import (
    KINDS,
    AbstractEvent,
    NodeEvent,
    OpEvent,
    RegionEvent,
    RetraceEvent,
    StepEvent,
    TransferEvent,
)
from eagerflow.formatting import escape, table_html, table_lines
from eagerflow.profiling.advice import advice
from eagerflow.profiling.chrome_trace import to_chrome
from eagerflow.profiling.line_statistics import LineStatistics, line_statistics
from eagerflow.profiling.node_statistics import median
from eagerflow.source import cell_name
from eagerflow.unknown_names import hint_at


@final
@dataclass(frozen=True, slots=True)
class OpStatistics:
    """Statistics of all calls of one op on one device.

    Attributes:
        name: the name of the op.
        device: the device of the calls.
        calls: number of calls.
        total: seconds of all calls.
        mean: mean seconds of a call.
        median: median seconds of a call.
        share: fraction of the time of all ops, from 0 to 1.
        nbytes: bytes of all results.
    """

    name: str
    device: str
    calls: int
    total: float
    mean: float
    median: float
    share: float
    nbytes: int


#: kinds recorded only for the thread that asked for the work
_OF_THREADS: Final = (OpEvent, NodeEvent, StepEvent, RegionEvent, TransferEvent, RetraceEvent)
_HEADINGS: Final = ("op", "device", "calls", "total", "mean", "median", "share", "bytes")
_LEFT: Final = 2  # columns of texts
_LINE_HEADINGS: Final = ("line", "code", "calls", "total", "of all")
#: lines that are printed, and the characters of their places and code: a row fits a terminal of
#: 100 columns
_LINES: Final = 10
_PLACE: Final = 28
_CODE: Final = 42


@final
class Profile:
    """The events within a block; made by `profile`.

    It prints as two tables, of ops and of lines, in a notebook too.

    Attributes:
        events: all events, in the order of their ends.
        seconds: duration of the block, until now if it still runs.
    """

    __slots__ = ("__weakref__", "_before", "_depth", "_events", "_exits", "_open", "_start",
                 "_thread", "_unfinished")  # fmt: skip
    kinds: Final = KINDS

    def __init__(self) -> None:
        self._events: list[AbstractEvent] = []
        self._open: dict[int, AbstractEvent] = {}  # events that have begun, by identity
        self._unfinished: list[AbstractEvent] = []  # events still open when their block ended
        self._thread = 0
        self._depth = 0
        self._start = 0.0
        self._before = 0.0  # seconds of the blocks that ended
        self._exits = ExitStack()

    def __enter__(self) -> Profile:
        self._depth += 1
        if self._depth == 1:
            self._thread = threading.get_ident()
            events.add_instrument(self)
            self._exits.callback(events.remove_instrument, self)
            self._exits.enter_context(timed())
            self._start = perf_counter()
        return self

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._before += perf_counter() - self._start
            self._exits.close()
            self._unfinished += map(copy, list(self._open.values()))  # as they are now
            self._open.clear()

    def begin(self, event: AbstractEvent, /) -> None:
        """Keep an event that has begun, so that a trace shows waits that have not ended."""
        if self._is_of_interest(event):
            self._open[id(event)] = event

    def end(self, event: AbstractEvent, /) -> None:
        """Keep an event; ops and steps that other threads asked for are left out."""
        self._open.pop(id(event), None)
        if self._is_of_interest(event):
            self._events.append(event)

    def _is_of_interest(self, event: AbstractEvent) -> bool:
        mine = event.runner or (event.caller or event.thread) == self._thread
        return bool(mine) or not isinstance(event, _OF_THREADS)

    @property
    def events(self) -> Sequence[AbstractEvent]:
        """All events, in the order of their ends."""
        return tuple(self._events)

    @property
    def seconds(self) -> float:
        """Duration of the block, until now if it still runs; the sum if there were several."""
        return self._before + (perf_counter() - self._start if self._depth else 0.0)

    def table(self) -> list[OpStatistics]:
        """The rows of the ops, by decreasing total time.

        >>> with ef.profile() as p:
        ...     x = ef.ones((3, 3)) @ ef.ones((3, 3))
        >>> [(row.calls, row.nbytes) for row in p.table() if row.name == "matmul"]
        [(1, 36)]
        """
        groups: defaultdict[tuple[str, str], list[OpEvent | NodeEvent]] = defaultdict(list)
        for event in self._ops():
            groups[event.name, event.device].append(event)
        whole = sum(e.seconds for group in groups.values() for e in group)
        rows = [_statistics(group, whole) for group in groups.values()]
        return sorted(rows, key=lambda row: row.total, reverse=True)

    def lines(self) -> list[LineStatistics]:
        """The rows of the lines of the user's code that ran ops, by decreasing total time.

        >>> with ef.profile() as p:
        ...     x = ef.ones((3, 3)) @ ef.ones((3, 3))
        >>> [(row.calls, row.text) for row in p.lines()]
        [(3, 'x = ef.ones((3, 3)) @ ef.ones((3, 3))')]
        """
        return line_statistics(self._ops(), self.seconds)

    def save(self, path: Any) -> None:
        """Write a trace for Perfetto (https://ui.perfetto.dev) and Chrome, with scopes as bars.

        Args:
            path: the path of the file, by convention ``.json``.

        Raises:
            FileError: the file cannot be written. It is an OSError.

        >>> import json, pathlib, tempfile
        >>> with ef.profile() as p:
        ...     y = ef.exp(ef.zeros(3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "trace.json")
        ...     p.save(path)
        ...     [e["name"] for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
        ['zeros', 'exp']
        """
        data = json.dumps(
            to_chrome([*self._events, *self._unfinished, *self._open.values()])
        ).encode()
        with replaced("Profile.save", path, len(data)) as write:
            write(data)

    def __str__(self) -> str:
        lines = table_lines([_HEADINGS, *map(_cells, self.table())], _LEFT)
        rows = self._line_rows()
        if rows:
            lines += ["", *table_lines([_LINE_HEADINGS, *rows], _LEFT)]
        hints = advice(self.table())
        lines += ["", *hints] if hints else []
        return "\n".join([self._summary(), *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        html = table_html([self._summary()], _HEADINGS, map(_cells, self.table()), _LEFT)
        rows = self._line_rows()
        html += table_html([], _LINE_HEADINGS, rows, _LEFT) if rows else ""
        return html + "".join(f"<p>{escape(hint)}</p>" for hint in advice(self.table()))

    def _line_rows(self) -> list[tuple[str, ...]]:
        """The cells of the slowest lines, and of the time outside of ops; none without lines."""
        rows, whole = self.lines(), self.seconds
        if not rows:
            return []
        cells: list[tuple[str, ...]] = [
            (_end_of(f"{os.path.basename(cell_name(row.file))}:{row.line}", _PLACE),
             _begin_of(row.text, _CODE), *_figures(row.calls, row.total, row.share))
            for row in rows[:_LINES]
        ]  # fmt: skip
        rest = rows[_LINES:]
        if rest:
            calls, total = sum(row.calls for row in rest), sum(row.total for row in rest)
            cells.append((f"{len(rest)} more lines", "", *_figures(calls, total, total / whole)))
        outside = whole - sum(e.seconds for e in self._ops())
        if outside > 0.0:
            cells.append(("outside of ops", "", "", _time(outside), f"{outside / whole:.1%}"))
        return cells

    def _ops(self) -> list[OpEvent | NodeEvent]:
        """The events of single ops, eager or as nodes of a graph."""
        return [e for e in tuple(self._events) if isinstance(e, OpEvent | NodeEvent)]

    def _summary(self) -> str:
        ops = self._ops()
        inside = sum(e.seconds for e in ops)
        return f"{len(ops)} ops in {_time(inside)}, of {_time(self.seconds)}"


def _statistics(group: Sequence[OpEvent | NodeEvent], whole: float) -> OpStatistics:
    times = [e.seconds for e in group]
    total = sum(times)
    return OpStatistics(
        name=group[0].name,
        device=group[0].device,
        calls=len(group),
        total=total,
        mean=total / len(group),
        median=median(times),
        share=total / whole if whole > 0.0 else 0.0,
        nbytes=sum(e.nbytes for e in group),
    )


def _cells(row: OpStatistics) -> tuple[str, ...]:
    return (
        row.name,
        row.device,
        str(row.calls),
        _time(row.total),
        _time(row.mean),
        _time(row.median),
        f"{row.share:.1%}",
        _bytes(row.nbytes),
    )


def _figures(calls: int, total: float, share: float) -> tuple[str, str, str]:
    return str(calls), _time(total), f"{share:.1%}"


def _begin_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _end_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"...{text[3 - most :]}"


def _digits(value: float) -> str:
    """A number with three digits, without an exponent."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1.0:
            return f"{_digits(seconds * factor)} {unit}"
    return f"{_digits(seconds * 1e9)} ns"


def _bytes(count: int) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{_digits(count / size)} {unit}"
    return f"{count} B"


#: names of other frameworks, whose replacements are in `hints/attribute_names.py`
hint_at(Profile, ["export_chrome_trace", "key_averages", "print_stats", "start", "step", "stop"])


def profile() -> Profile:
    """Record the ops that this thread runs within a ``with`` block, with their times.

    Graphs that runners (`eagerflow.spawn`) run at the same time are recorded as well, whichever
    thread spawned the runners: their events have the name of the runner.

    >>> with ef.profile() as p:
    ...     x = ef.exp(ef.zeros(3))
    >>> [row.name for row in p.table() if row.calls == 1 and row.name == "exp"]
    ['exp']
    """
    return Profile()
