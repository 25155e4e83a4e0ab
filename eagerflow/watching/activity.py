"""Statistics of queues, waits, transfers, traces and runners, from their events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, final

from eagerflow.events import (
    AbstractEvent,
    BriefLevel,
    BriefWait,
    TakeEvent,
    TraceEvent,
    TransferEvent,
    WaitEvent,
    open_waits,
)
from eagerflow.resources.attempt_events import flows_of_queues, thin_out
from eagerflow.resources.queue_levels import Level
from eagerflow.watching.limits import ENDED_WAITS, PLACES, SECONDS_OF_WAITS, TRACES
from eagerflow.watching.series import Series

_Told = TypeVar("_Told", AbstractEvent, BriefLevel, BriefWait)

#: operations that take an element; a waiter in one of them starves
TAKING: Final = ("dequeue", "dequeue_many", "dequeue_up_to", "take", "take_many", "read")


#: Operations on one element. After a wait the element passes directly between producer and
#: consumer: where elements are not counted, it counts as put and taken, although the depth does not
#: change.
_SINGLE: Final = ("enqueue", "dequeue")
#: changes of a queue between two looks of which each is reported; of more, about so many
_EACH: Final = 16


@final
@dataclass(slots=True)
class QueueActivity:
    """Statistics of a queue or the like.

    Attributes:
        level: its last reported level.
        put: number of elements put in since watching began.
        taken: number of elements taken out.
        depths: the depth over time.
        flow: the numbers of elements ever put in and taken out, as last reported; None where they
            are not counted.
    """

    level: Level
    put: int
    taken: int
    depths: Series
    flow: tuple[int, int] | None = None


@final
class LateSums:
    """Sums of recent amounts, such as seconds spent, by the second in which they ended.

    >>> from eagerflow.watching.activity import LateSums
    >>> late = LateSums()
    >>> late.add(0.5, 1.2), late.add(0.25, 1.9), late.add(0.1, 7.0)
    (None, None, None)
    >>> late.since(1.0), late.since(6.5)
    (0.85, 0.1)
    """

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended: deque[tuple[int, float]] = deque(maxlen=SECONDS_OF_WAITS)

    def add(self, amount: float, stop: float) -> None:
        """Add an amount that ended at a time."""
        second = int(stop)
        if self._ended and self._ended[-1][0] == second:
            amount += self._ended.pop()[1]
        self._ended.append((second, amount))

    @property
    def last(self) -> float:
        """The end of the second in which the last amount ended; 0 without any."""
        return max([second for second, _ in self._ended], default=-1) + 1.0

    def since(self, since: float) -> float:
        """The sum of amounts that ended since a time, accurate to a second."""
        return sum(amount for second, amount in self._ended if second + 1 > since)


@final
@dataclass(slots=True)
class WaitActivity:
    """The waits of one operation on one queue, at one node.

    Attributes:
        name: the name of the queue.
        operation: the operation, such as ``"dequeue"``.
        executable: the number of the executable; 0 in eager code.
        node: the name of the node.
        runner: the name of the runner that waited; empty without one.
        count: number of waits that have ended.
        seconds: seconds of these waits.
        lately: seconds of the recent waits.
    """

    name: str
    operation: str
    executable: int
    node: str
    runner: str
    count: int = 0
    seconds: float = 0.0
    lately: LateSums = field(default_factory=LateSums)

    def add(self, seconds: float, stop: float, waits: int) -> None:
        """Add a wait that has ended, and stands for so many."""
        self.count += waits
        self.seconds += seconds * waits
        self.lately.add(seconds * waits, stop)

    @property
    def starves(self) -> bool:
        """Whether it waits for an element, and not for room."""
        return self.operation in TAKING


@final
@dataclass(slots=True)
class TransferActivity:
    """Transfers from one device to another, for one node.

    Attributes:
        origin: the device that sent the data.
        device: the device that received it.
        executable: the number of the executable; 0 in eager code.
        node: the name of the node.
        count: number of transfers that have ended.
        nbytes: their bytes together.
        seconds: their seconds together.
    """

    origin: str
    device: str
    executable: int
    node: str
    count: int
    nbytes: int
    seconds: float


@final
class Activity:
    """An instrument that gathers the activities of steps besides computing.

    Threads that run steps only append events to a list; one thread calls `collect`, some times a
    second.

    Attributes:
        queues: the queues, by name.
        waits: the waits, by queue, operation, executable, node and runner.
        transfers: the transfers, by origin, device, executable and node.
        moved: the last transfers that have ended.
        waited: the last waits that have ended.
        counts: numbers of transfers, and of waits, that have ended in all.
        traces: the last traces of functions.
        traced: number of traces that each function made, by its name.
        traced_lately: recent numbers of traces, by name of the function.
        taken: for each stage of a pipeline the number of elements it handed over, and the seconds
            that its reader waited for them.
        taken_lately: recent seconds that readers waited for stages.
        told: number of all events taken in; it changes with each change of what is above.
    """

    kinds: Final = frozenset({TransferEvent, TraceEvent, TakeEvent})

    def __init__(self) -> None:
        self._begun: list[AbstractEvent] = []
        self._ended: list[AbstractEvent] = []
        self._open: list[AbstractEvent] = []
        self._stood: list[BriefLevel] = []
        self._waited: list[BriefWait] = []
        #: the methods of an instrument, as functions of C, which cost half as much as Python's
        self.begin: Callable[[AbstractEvent], None] = self._begun.append
        self.end: Callable[[AbstractEvent], None] = self._ended.append
        self.brief_level: Callable[[BriefLevel], None] = self._stood.append
        self.brief_wait: Callable[[BriefWait], None] = self._waited.append
        self.queues: dict[str, QueueActivity] = {}
        self.waits: dict[tuple[str, str, int, str, str], WaitActivity] = {}
        self.transfers: dict[tuple[str, str, int, str], TransferActivity] = {}
        self.moved: deque[TransferEvent] = deque(maxlen=ENDED_WAITS)
        self.waited: deque[BriefWait] = deque(maxlen=ENDED_WAITS)
        self.counts = 0, 0
        self.traces: deque[TraceEvent] = deque(maxlen=TRACES)
        self.traced: dict[str, int] = {}
        self.traced_lately: dict[str, LateSums] = {}
        self.taken: dict[str, tuple[int, float]] = {}
        self.taken_lately = LateSums()
        self.told = 0
        self._flows: dict[str, tuple[int, int]] = {}  # of queues, when watching began
        self._thinned: dict[str, int] = {}  # by queue, changes that a reported level stands for

    def begin_counting(self) -> None:
        """Count elements of queues from now on."""
        self._flows = flows_of_queues()
        for name, flow in self._flows.items():
            if name in self.queues:
                self.queues[name].flow = flow

    def collect(self) -> None:
        """Take in the events that have come."""
        if self._thinned:
            thin_out(self._thinned)  # which reports their levels, too
        if self._open or self._begun:
            self._open = [e for e in (*self._open, *_taken(self._begun)) if e.stop is None]
        if self._stood:
            self._collect_levels()
        if self._ended:
            self._collect_ended()
        if self._waited:
            self._collect_waits()

    def _collect_ended(self) -> None:
        ended = _taken(self._ended)
        self.told += len(ended)
        moves: list[TransferEvent] = []
        for event in ended:
            if isinstance(event, TransferEvent):
                moves.append(event)
                self._transfer(event)
            elif isinstance(event, TraceEvent):
                self._trace(event)
            elif isinstance(event, TakeEvent):
                count, waited = self.taken.get(event.name, (0, 0.0))
                self.taken[event.name] = count + 1, waited + event.waited
                self.taken_lately.add(
                    event.waited, event.start if event.stop is None else event.stop
                )
        self.moved.extend(moves)
        self.counts = self.counts[0] + len(moves), self.counts[1]

    def _collect_waits(self) -> None:
        waits = _taken(self._waited)
        self.told += len(waits)
        self.waited.extend(waits[-ENDED_WAITS:])
        self.counts = self.counts[0], self.counts[1] + len(waits)
        for wait in waits:
            self._wait(wait)

    def _trace(self, event: TraceEvent) -> None:
        self.traces.append(event)
        if event.name not in self.traced:
            _make_room(self.traced)
            _make_room(self.traced_lately)
        self.traced[event.name] = self.traced.get(event.name, 0) + 1
        lately = self.traced_lately.setdefault(event.name, LateSums())
        lately.add(1, event.start if event.stop is None else event.stop)

    def know(self, level: Level) -> None:
        """Add a queue that was not reported yet, with its level."""
        if level.name not in self.queues:
            _make_room(self.queues)
            self.queues[level.name] = QueueActivity(level, 0, 0, Series())
            self.told += 1

    def _collect_levels(self) -> None:
        levels: dict[str, list[BriefLevel]] = {}
        stood = _taken(self._stood)
        self.told += len(stood)
        for level in stood:
            levels.setdefault(level[0], []).append(level)
        thinned: dict[str, int] = {}
        for name, of_queue in levels.items():
            every = self._levels(name, of_queue) // _EACH
            if every > 1:
                thinned[name] = every
        if thinned.keys() != self._thinned.keys():
            thin_out({**dict.fromkeys(self._thinned, 1), **thinned})
        self._thinned = thinned

    def _levels(self, name: str, levels: Sequence[BriefLevel]) -> int:
        """Take in levels of a queue, at least one; returns the number of elements that moved."""
        known, first = self.queues.get(name), Level(*levels[0][:7])
        if known is None:
            _make_room(self.queues)
            known = self.queues[name] = QueueActivity(first, 0, 0, Series())
            if levels[0][8] >= 0:
                known.flow = self._flows.pop(name, (0, 0))
            else:
                known.put = first.depth
        before = known.put + known.taken
        if known.flow is None:
            _add_changes(known, levels)
        else:
            flow = levels[-1][8] + levels[-1][2], levels[-1][8]
            # an earlier queue of this name may have had more
            known.put += max(flow[0] - known.flow[0], 0)
            known.taken += max(flow[1] - known.flow[1], 0)
            known.flow = flow
        known.level = Level(*levels[-1][:7])
        known.depths.add([level[7] for level in levels], [level[2] for level in levels])
        return known.put + known.taken - before

    def _wait(self, wait: BriefWait) -> None:
        key, start, stop = wait[:5], wait[6], wait[7]
        known = self.waits.get(key)
        if known is None:
            _make_room(self.waits)
            known = self.waits[key] = WaitActivity(*key)
        known.add(stop - start, stop, wait[8])
        queue = self.queues.get(wait[0])
        if queue is not None and queue.flow is None and wait[1] in _SINGLE:
            queue.put += 1
            queue.taken += 1

    def _transfer(self, event: TransferEvent) -> None:
        known = self._transfers_of(event.origin, event.device, event.executable, event.node)
        known.count += 1
        known.nbytes += event.nbytes
        known.seconds += event.seconds

    def add_transfers(
        self, origin: str, device: str, executable: int, count: int, nbytes: int, seconds: float
    ) -> None:
        """Add the sums of ended transfers that have no events (see `TransferActivity`)."""
        self.told += 1
        known = self._transfers_of(origin, device, executable, "")
        known.count += count
        known.nbytes += nbytes
        known.seconds += seconds

    def _transfers_of(
        self, origin: str, device: str, executable: int, node: str
    ) -> TransferActivity:  # fmt: skip
        key = origin, device, executable, node
        if key not in self.transfers:
            _make_room(self.transfers)
            self.transfers[key] = TransferActivity(*key, 0, 0, 0.0)
        return self.transfers[key]

    @property
    def moving(self) -> list[TransferEvent]:
        """The transfers in progress."""
        return [e for e in self._open if isinstance(e, TransferEvent) and e.stop is None]

    @property
    def waiting(self) -> list[WaitEvent]:
        """The waits in progress, including waits that began before watching."""
        return open_waits()


def _add_changes(queue: QueueActivity, levels: Sequence[BriefLevel]) -> None:
    """Add the elements of a queue that are not counted, by the changes of its depth."""
    depth = queue.level.depth
    for level in levels:
        change, depth = level[2] - depth, level[2]
        if change > 0:
            queue.put += change
        else:
            queue.taken -= change


def _taken(log: list[_Told]) -> list[_Told]:
    """Remove and return the items of a list. Threads append meanwhile: each line is atomic."""
    taken = log[:]
    del log[: len(taken)]
    return taken


def _make_room(known: dict[object, object] | dict[str, QueueActivity] | object) -> None:
    """Remove the oldest entry of a table that is full."""
    assert isinstance(known, dict)
    if len(known) >= PLACES:
        del known[next(iter(known))]
