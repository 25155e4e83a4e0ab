"""Conversion of gathered data into rows of the tables that views know."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from time import thread_time
from typing import Any, Final, TypeVar, final

from eagerflow.events import TransferEvent
from eagerflow.pictures.groups import is_move
from eagerflow.runtime.executable import find_executable
from eagerflow.runtime.generated.generated_tier import devices_of_regions
from eagerflow.watching.activity import Activity
from eagerflow.watching.board import Board
from eagerflow.watching.limits import NAMED_THREADS, REGIONS_OF_TASKS, STEPS_IN_A_MESSAGE
from eagerflow.watching.observed_steps import Observed, StepObserver
from eagerflow.watching.sampler import Place, Sampler
from eagerflow.watching.step_times import StepLog
from eagerflow.watching.tables import Row
from eagerflow.watching.tasks.task_activity import TaskActivity

_Row = TypeVar("_Row")
#: seconds between two look-ups of the name of a thread
_NAMES: Final = 0.5


@final
class BoardRows:
    """Puts changed rows onto a board.

    Args:
        board: the board.
        log: the steps.
        activity: queues, waits, transfers and retraces.
        observer: the times of nodes, and values.
        tasks: the regions that ran at tasks, and the tasks' health.
    """

    def __init__(
        self, board: Board, log: StepLog, activity: Activity, observer: StepObserver,
        tasks: TaskActivity,
    ) -> None:  # fmt: skip
        self._board = board
        self._log = log
        self._activity = activity
        self._observer = observer
        self._tasks = tasks
        self._of_tasks = 0, 0  # numbers of regions and changes put so far
        self._told = 0
        self._counts: dict[int, int] = {}
        self._retraces = 0
        self._regions = 0
        self._devices: dict[tuple[int, int], str] = {}  # by executable and region
        self._threads: dict[int, str] = {}
        self._met: set[int] = set()  # identifiers looked up since then
        self._named = 0.0
        self._ended = 0, 0
        self._active = 0  # number of events put so far
        self._moving: dict[tuple[Any, ...], int] = {}  # by executable, devices and line

    def busiest(self, most: int) -> list[int]:
        """The numbers of the executables whose steps took most of the time, at most so many."""
        times = sorted(self._log.executables.values(), key=lambda s: -s.seconds)
        return [t.executable for t in times[:most]]

    def put(
        self, now: float, changed: Iterable[Observed], sampler: Sampler, places: Sequence[Place],
        cost: float,
    ) -> None:  # fmt: skip
        """Put all rows that have changed.

        Args:
            now: the time.
            changed: the executables of which steps were observed.
            sampler: the past places of threads.
            places: the current places of threads.
            cost: the cost of watching, as a fraction of the time.
        """
        threads = self._put_steps(now)
        self._put_threads(now, {*threads, *[place.thread for place in places]})
        for observed in changed:
            start = thread_time()
            self._put_observed(observed)
            observed.duty.looked(thread_time() - start)
        self._board.put("places", [self._place(place) for place in places])
        trail = [
            (when, thread, number, self._node(number, node))
            for when, thread, number, node in sampler.take_trail()
        ]
        self._board.put("trail", trail)
        self._put_activity()
        observed_steps = sum(o.count for o in self._observer.executables.values())
        self._board.put("cost", [(round(cost, 4), observed_steps, 0)])

    def _put_steps(self, now: float) -> set[int]:
        """Put steps and their times; returns the identifiers of the threads of new steps."""
        board, log = self._board, self._log
        timeline = log.timeline(self._told, STEPS_IN_A_MESSAGE)
        board.put("timeline", [step[:4] for step in timeline])
        self._told = log.told
        self._put_regions()
        self._put_tasks()
        for number, times in log.executables.items():
            if self._counts.get(number) == times.count:
                continue
            if number not in self._counts:
                self._put_executable(number)
            self._counts[number] = times.count
            observed = self._observer.executables.get(number)
            p50, p95, p99 = times.recent.percentiles(50, 95, 99)
            row = (number, times.count, times.seconds, times.last, times.rate(now), p50, p95, p99,
                   0 if observed is None else observed.count)  # fmt: skip
            board.put("steps", [row])
            curve = [
                (number, b.start, b.count, b.mean, b.least, b.largest)
                for b in times.series.latest(now - 1)
            ]  # fmt: skip
            board.put("curve", curve)
        return {step[3] for step in timeline}

    def _put_threads(self, now: float, met: set[int]) -> None:
        """Put the names of threads, now and then anew: an identifier may be reused."""
        if now >= self._named + _NAMES:
            self._named, self._met = now, set()
        met -= self._met
        if not met:
            return
        self._met |= met
        names = {t.ident: t.name for t in threading.enumerate() if t.ident in met}
        new = {i: n for i, n in names.items() if i is not None and self._threads.get(i) != n}
        if new and len(self._threads) + len(new) <= NAMED_THREADS:
            self._threads |= new
            self._board.put("threads", [(i, self._board.name(n)) for i, n in new.items()])

    def _put_regions(self) -> None:
        log, name = self._log, self._board.name
        lines = log.region_line(self._regions, STEPS_IN_A_MESSAGE)
        self._regions = log.regions_told
        for number, region, *_ in lines:
            if (number, region) not in self._devices:
                self._devices[number, region] = ""
                devices = devices_of_regions(number)
                self._devices |= {(number, r): device for r, device in devices.items()}
        rows = [(*line, name(self._devices[line[0], line[1]])) for line in lines]
        self._board.put("regions", rows)

    def _put_tasks(self) -> None:
        """Put regions that have run at tasks since the last call, and changes of tasks."""
        tasks, name = self._tasks, self._board.name
        told, changed = tasks.told - self._of_tasks[0], tasks.changed - self._of_tasks[1]
        self._of_tasks = tasks.told, tasks.changed
        self._board.put("regions", [
            (r.executable, r.region, r.start, r.stop, 0, name(r.device))
            for r in _last(tasks.regions, min(told, REGIONS_OF_TASKS))
        ])  # fmt: skip
        self._board.put("tasks", [
            (name(c.task), name(c.health), c.time) for c in _last(tasks.changes, changed)
        ])  # fmt: skip

    def _put_ended(self) -> None:
        """Put transfers and waits that have ended since the last call."""
        name, activity = self._board.name, self._activity
        counts = [new - old for new, old in zip(activity.counts, self._ended, strict=True)]
        self._ended = activity.counts
        moves = list(activity.moved)[-min(counts[0], STEPS_IN_A_MESSAGE) :] if counts[0] else []
        waits = list(activity.waited)[-min(counts[1], STEPS_IN_A_MESSAGE) :] if counts[1] else []
        self._board.put("moves", [
            (m.executable, self._moving_node(m), m.start, m.stop, m.thread,
             name(m.origin), name(m.device), m.nbytes)
            for m in moves
        ])  # fmt: skip
        self._board.put("pauses", [
            (number, self._node(number, node), start, stop, thread, name(queue), name(operation))
            for queue, operation, number, node, _, thread, start, stop, _ in waits
        ])  # fmt: skip

    def _moving_node(self, event: TransferEvent) -> int:
        """The number of the node that a transfer is for.

        The executor runs partitions, whose nodes have names of their own. So the node is found by
        its devices, and of several nodes by its line.
        """
        number = event.executable
        key = number, event.origin, event.device, event.source
        if key not in self._moving:
            known = self._observer.of(number) if number else None
            nodes = [] if known is None else known.index.nodes
            moving = [
                i for i, n in enumerate(nodes)
                if is_move(n) and str(n.inputs[0].device) == event.origin
                and str(n.outputs[0].device) == event.device
            ]  # fmt: skip
            same_line = [i for i in moving if nodes[i].source == event.source]
            self._moving[key] = next(iter(same_line or moving), -1)
        return self._moving[key]

    def _put_executable(self, number: int) -> None:
        executable = find_executable(number)
        if executable is not None:
            known = self._observer.of(number)
            nodes = 0 if known is None else len(known.index.nodes)
            name = self._board.name(executable.graph.name or "graph")
            self._board.put("executables", [(number, name, nodes, number)])

    def _put_observed(self, observed: Observed) -> None:
        number = observed.executable
        rows = [
            (number, c.number, c.seconds, c.p95, c.share, c.runs, c.steps, c.seen)
            for c in observed.costs.table()
        ]
        self._board.put("nodes", rows)
        name = self._board.name
        values: list[Row] = [
            (number, node, name(",".join(map(str, v.shape))), name(v.dtype), v.size, v.looked_at,
             _or_nan(v.least), _or_nan(v.largest), _or_nan(v.mean), v.nans, v.infs,
             name(json.dumps(v.histogram)), seen)
            for node, (v, seen) in observed.values.items()
        ]  # fmt: skip
        self._board.put("values", values)

    def _place(self, place: Place) -> Row:
        name = self._board.name
        frame, iteration = place.frames[-1] if place.frames else ("", -1)
        node = self._node(place.executable, place.node)
        since = place.since
        times = self._log.executables.get(place.executable)
        if times is not None and place.doing != "waits":
            since = max(since, times.last)  # it may have been seen there in earlier steps, too
        return (place.thread, place.executable, node, name(place.doing), since, name(frame),
                iteration, name(place.queue), place.progress)  # fmt: skip

    def _node(self, number: int, node: str) -> int:
        known = self._observer.of(number) if number else None
        index = None if known is None else known.index.named(node)
        return -1 if index is None else index

    def _put_activity(self) -> None:
        board, name, activity = self._board, self._board.name, self._activity
        if activity.told == self._active:
            return
        self._active = activity.told
        queues = [
            (name(queue), name(q.level.resource), q.level.depth, q.level.capacity,
             q.level.producers, q.level.consumers, int(q.level.closed), q.put, q.taken)
            for queue, q in activity.queues.items()
        ]  # fmt: skip
        board.put("queues", queues)
        waits = [
            (name(w.name), name(w.operation), w.executable, self._node(w.executable, w.node),
             name(w.runner), w.count, w.seconds)
            for w in activity.waits.values()
        ]  # fmt: skip
        board.put("waits", waits)
        transfers = [
            (name(t.origin), name(t.device), t.executable, self._node(t.executable, t.node),
             t.count, t.nbytes, t.seconds)
            for t in activity.transfers.values()
        ]  # fmt: skip
        board.put("transfers", transfers)
        self._put_ended()
        whole = sum(activity.traced.values())
        new = list(activity.traces)[-(whole - self._retraces) :] if whole > self._retraces else []
        self._retraces = whole
        board.put("retraces", [(name(e.name), name(e.reason), e.start, e.seconds) for e in new])


def _last(rows: deque[_Row], count: int) -> list[_Row]:
    return list(rows)[-count:] if count else []


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
