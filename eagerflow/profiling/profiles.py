"""`profile`: a context manager that records the ops of a block, with their times."""

from __future__ import annotations

import json
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
from eagerflow.events import KINDS, AbstractEvent, FetchEvent, NodeEvent, OpEvent, WaitEvent
from eagerflow.profiling.chrome_trace import to_chrome
from eagerflow.profiling.gap_statistics import GapStatistics, gap_statistics
from eagerflow.profiling.line_statistics import LineStatistics, line_statistics
from eagerflow.profiling.node_statistics import median
from eagerflow.profiling.outside_statistics import (
    OutsideStatistics,
    Scope,
    by_thread,
    outside_statistics,
)
from eagerflow.profiling.process_memory import ProcessMemory, in_words, process_memory
from eagerflow.profiling.profile_text import to_html, to_text
from eagerflow.profiling.queue_statistics import QueueStatistics, Wait, queue_statistics
from eagerflow.profiling.rows import TIMES_ELSEWHERE, AbstractRow, RowTable
from eagerflow.profiling.spans import OpTimes, Span, span, union, without
from eagerflow.profiling.thread_statistics import (
    ThreadNames,
    ThreadStatistics,
    thread_statistics,
)
from eagerflow.unknown_names import hint_at


@final
@dataclass(frozen=True, slots=True, repr=False)
class OpStatistics(AbstractRow):
    """Statistics of all calls of one op on one device.

    Attributes:
        name: the name of the op.
        device: the device of the calls.
        calls: number of calls.
        total: seconds of all calls, without waits for a queue or the like.
        mean: mean seconds of a call, likewise.
        median: median seconds of a call, likewise.
        share: fraction of the time of all ops, from 0 to 1.
        nbytes: bytes of all results.
        largest: bytes of the results of one call, at most; 0 if all stayed in native kernels.
    """

    name: str
    device: str
    calls: int
    total: float
    mean: float
    median: float
    share: float
    nbytes: int
    largest: int


@final
class Profile:
    """The events within a block; made by `profile`.

    It prints as tables of ops and lines, of threads if several ran ops, and of queues, in a
    notebook too.

    Attributes:
        events: all events, in the order of their ends.
        seconds: duration of the block, until now if it still runs.
        thread: the name of the thread of the block.
    """

    __slots__ = ("__weakref__", "_blocks", "_cut", "_depth", "_earlier", "_end", "_events",
                 "_exits", "_memory", "_names", "_open", "_start", "_thread", "_unfinished",
                 "thread")  # fmt: skip
    kinds: Final = KINDS

    def __init__(self) -> None:
        self._events: list[tuple[AbstractEvent, str]] = []  # each with the name of its thread
        self._open: dict[int, tuple[AbstractEvent, str]] = {}  # that have begun, by identity
        self._unfinished: list[AbstractEvent] = []  # events still open when their block ended
        self._earlier: list[tuple[WaitEvent, str]] = []  # waits older than the open block
        self._cut: list[Wait] = []  # waits cut by the ends of blocks
        self._names = ThreadNames()
        self._thread = 0
        self.thread = ""
        self._depth = 0
        self._start = self._end = 0.0  # of the last block
        self._blocks: list[Span] = []  # that ended
        self._memory: list[ProcessMemory | None] = []  # at the first begin and the last end
        self._exits = ExitStack()

    def __enter__(self) -> Profile:
        self._depth += 1
        if self._depth == 1:
            current = threading.current_thread()
            self._thread, self.thread = threading.get_ident(), current.name
            self._memory = [*self._memory[:1]] or [process_memory()]
            events.add_instrument(self)
            self._exits.callback(events.remove_instrument, self)
            self._exits.enter_context(timed())
            open_waits = [wait for wait in events.open_waits() if id(wait) not in self._open]
            self._start = perf_counter()
            self._earlier = [(wait, self._names.of(wait)) for wait in open_waits]
        return self

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._end = perf_counter()
            self._blocks.append((self._start, self._end))
            self._exits.close()
            self._cut += self._cut_waits(self._end)
            self._unfinished += [copy(event) for event, _ in [*self._open.values()]]  # as now
            self._open.clear()
            self._earlier.clear()
            self._memory.append(process_memory())

    def begin(self, event: AbstractEvent, /) -> None:
        """Keep an event that has begun, so that a trace shows waits that have not ended."""
        self._open[id(event)] = event, self._names.of(event)

    def end(self, event: AbstractEvent, /) -> None:
        """Keep an event."""
        _, name = self._open.pop(id(event), (event, ""))
        self._events.append((event, name or self._names.of(event)))

    def _cut_waits(self, end: float) -> list[Wait]:
        """The waits that began before the block, or go on at ``end``, as far as they are in it."""
        waits = [
            (event, name) for event, name in [*self._open.values()] if isinstance(event, WaitEvent)
        ]
        cut = []
        for event, name in (*self._earlier, *waits):
            stop = end if event.stop is None else min(end, event.stop)
            seconds = stop - max(self._start, event.start)
            cut.append(Wait(event, name, max(seconds, 0.0)))
        return cut

    @property
    def events(self) -> Sequence[AbstractEvent]:
        """All events, in the order of their ends."""
        return tuple([event for event, _ in self._events])

    @property
    def seconds(self) -> float:
        """Duration of the block, until now if it still runs; the sum if there were several."""
        return sum(stop - start for start, stop in self._spans())

    def _spans(self) -> list[Span]:
        """The times of its blocks, until now if one still runs."""
        return [*self._blocks, *[(self._start, perf_counter())] * bool(self._depth)]

    def table(self) -> RowTable[OpStatistics]:
        """The rows of the ops, by decreasing total time.

        >>> with ef.profile() as p:
        ...     x = ef.ones((3, 3)) @ ef.ones((3, 3))
        ...     x = ef.ones((5, 3)) @ x
        >>> [(row.calls, row.nbytes, row.largest) for row in p.table() if row.name == "matmul"]
        [(2, 96, 60)]
        """
        groups: defaultdict[tuple[str, str], list[OpEvent | NodeEvent]] = defaultdict(list)
        for event, _ in self._ops():
            groups[event.name, event.device].append(event)
        whole = sum(e.working for group in groups.values() for e in group)
        rows = [_statistics(group, whole) for group in groups.values()]
        return RowTable(sorted(rows, key=lambda row: row.total, reverse=True))

    def lines(self) -> RowTable[LineStatistics]:
        """The rows of the lines of the user's code that ran ops, by decreasing total time.

        >>> with ef.profile() as p:
        ...     x = ef.ones((3, 3)) @ ef.ones((3, 3))
        >>> [(row.calls, row.text) for row in p.lines()]
        [(3, 'x = ef.ones((3, 3)) @ ef.ones((3, 3))')]
        """
        return line_statistics([event for event, _ in self._ops()], self.seconds)

    def threads(self) -> RowTable[ThreadStatistics]:
        """The rows of the threads and runners that ran ops, by decreasing total time.

        >>> import threading
        >>> def feed():
        ...     return ef.ones(3)
        >>> with ef.profile() as p:
        ...     thread = threading.Thread(target=feed, name="feeder")
        ...     thread.start()
        ...     thread.join()
        >>> [(row.name, row.calls) for row in p.threads()]
        [('feeder', 1)]
        """
        return thread_statistics(self._ops(), self.seconds)

    def queues(self) -> RowTable[QueueStatistics]:
        """The rows of queues and the like: one for each operation of each thread or runner.

        >>> letters = ef.Queue(3, ef.tensor(0), name="letters")
        >>> with ef.profile() as p:
        ...     letters.enqueue_many([1, 2])
        >>> [(row.name, row.operation, row.calls, row.waits) for row in p.queues()]
        [('letters', 'enqueue_many', 1, 0)]
        """
        end = perf_counter() if self._depth else self._end
        cut = [*self._cut, *(self._cut_waits(end) if self._depth else ())]
        return queue_statistics(tuple(self._events), cut, end, self.seconds)

    def outside(self) -> RowTable[OutsideStatistics]:
        """The rows of what took time outside of ops, by decreasing total time.

        Those of the thread of the block come first, and add up to `seconds_outside`. They are
        traces of functions, users' functions in pipelines, waits, copies of values of devices to
        the host, runs of graphs besides their ops, and the rest, which is other Python code (see
        `gaps`). Those of other threads are the first two and copies.

        >>> data = ef.data.Dataset.from_tensors(ef.zeros(3)).map(lambda x: x + 1.0)
        >>> with ef.profile() as p:
        ...     rows = list(data)
        >>> [(row.kind, row.name, row.calls) for row in p.outside() if row.kind == "call"]
        [('call', 'map(<lambda>)', 3)]
        """
        threads = self._by_thread()
        own = threads.pop(self._thread, (OpTimes(()), []))
        return outside_statistics(own, threads.values(), self.seconds)

    def gaps(self) -> RowTable[GapStatistics]:
        """The rows of other Python code in the thread of the block, by decreasing total time.

        There is a row for each pair of lines between which no op ran, nor anything else that has a
        row in `outside`.

        >>> import time
        >>> with ef.profile() as p:
        ...     x = ef.zeros(3)
        ...     time.sleep(0.01)
        ...     y = x + 1.0
        >>> row = p.gaps()[0]
        >>> row.after.text, row.before.text, row.count
        ('x = ef.zeros(3)', 'y = x + 1.0', 1)
        """
        _, scopes = self._by_thread().get(self._thread, (OpTimes(()), []))
        ops = [e for e, _ in self._ops() if self._is_own(e)]
        covered = union(map(span, [*ops, *scopes]))
        told = [*ops, *[e for e in scopes if isinstance(e, FetchEvent)]]
        blocks = [
            (without([block], covered), [e for e in told if block[0] <= e.start <= block[1]])
            for block in self._spans()
        ]
        return gap_statistics(blocks, self.seconds)

    def _by_thread(self) -> dict[int, tuple[OpTimes, list[Scope]]]:
        """The ops and scopes of each thread, by its identifier."""
        events = [e for e, _ in [*self._events]]
        ops = [e for e in events if isinstance(e, OpEvent | NodeEvent) and not e.runner]
        return by_thread(ops, events)

    @property
    def seconds_outside(self) -> float:
        """The time that the thread of the block has spent outside of ops."""
        ops = [e for e, _ in self._ops() if self._is_own(e)]
        waits = [e for e in self.events if isinstance(e, WaitEvent) and self._is_own(e)]
        return self.seconds - OpTimes(ops, waits).total

    def seconds_with_ops(self) -> float:
        """The time in which an op ran in any thread; less than their total if ops overlapped.

        Waits of ops do not count, here and in the tables.
        """
        ops: defaultdict[str, list[OpEvent | NodeEvent]] = defaultdict(list)
        waits: defaultdict[str, list[WaitEvent]] = defaultdict(list)
        for event, name in [*self._events]:
            if isinstance(event, OpEvent | NodeEvent):
                ops[name].append(event)
            elif isinstance(event, WaitEvent):
                waits[name].append(event)
        spans = [span for name, run in ops.items() for span in OpTimes(run, waits[name]).spans]
        return sum(stop - start for start, stop in union(spans))

    def _is_own(self, event: AbstractEvent) -> bool:
        return not event.runner and (event.caller or event.thread) == self._thread

    def memory_in_words(self) -> str | None:
        """The memory of the process at the end of the block, and its change, if they are known."""
        if not self._memory:
            return None
        return in_words(self._memory[0], process_memory() if self._depth else self._memory[-1])

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
            to_chrome([*self.events, *self._unfinished, *[e for e, _ in self._open.values()]])
        ).encode()
        with replaced("Profile.save", path, len(data)) as write:
            write(data)

    def __str__(self) -> str:
        return to_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return to_html(self)

    def _ops(self) -> list[tuple[OpEvent | NodeEvent, str]]:
        """The events of single ops, eager or as nodes of a graph, each with its thread."""
        return [(e, name) for e, name in [*self._events] if isinstance(e, OpEvent | NodeEvent)]


def _statistics(group: Sequence[OpEvent | NodeEvent], whole: float) -> OpStatistics:
    times = [e.working for e in group]
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
        largest=max(e.nbytes for e in group),
    )


#: names of other frameworks, whose replacements are in `hints/attribute_names.py`
_HINTED: Final = """
    dump_stats export_chrome_trace export_stacks key_averages memory ops peak_memory print
    print_stats print_table report retraces show start step stop summary to_pandas top total
    total_average traces waits
"""
hint_at(Profile, _HINTED.split())
_OF_BYTES: Final = """
    bytes cpu_memory_usage max_bytes memory output_bytes peak self_cpu_memory_usage size
"""
hint_at(OpStatistics, [*TIMES_ELSEWHERE, "key", "op", *_OF_BYTES.split()])


def profile() -> Profile:
    """Record the ops that run within a ``with`` block, with their times.

    These are the ops of all threads, of runners (`eagerflow.spawn`) and of pipelines, too: the rows
    of `Profile.threads` tell them apart. An op that is timed takes some microseconds more, in every
    thread, as long as the block lasts.

    >>> with ef.profile() as p:
    ...     x = ef.exp(ef.zeros(3))
    >>> [row.name for row in p.table() if row.calls == 1 and row.name == "exp"]
    ['exp']
    """
    return Profile()
