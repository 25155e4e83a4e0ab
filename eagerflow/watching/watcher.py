"""The watcher, which gathers data about all steps of this process, and sends it to views."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter, process_time, thread_time
from typing import Any, Final, final

from eagerflow import events
from eagerflow.events.instruments import remove_after_fork
from eagerflow.resources.attempt_events import levels_of
from eagerflow.running_node import node_at, nodes_of_threads, places_of_threads
from eagerflow.watching.activity import Activity
from eagerflow.watching.board import Board
from eagerflow.watching.connection import Comm, Connection
from eagerflow.watching.diagnosing.between_steps import BetweenSteps
from eagerflow.watching.diagnosing.diagnosis import diagnoses, undecided
from eagerflow.watching.graph_columns import encode_structure, pieces
from eagerflow.watching.observed_steps import Observed, StepObserver
from eagerflow.watching.refreshed_texts import Panels
from eagerflow.watching.rows import BoardRows
from eagerflow.watching.sampler import SHORT, Sampler
from eagerflow.watching.status_sentence import sentence
from eagerflow.watching.step_times import StepLog, thin_out
from eagerflow.watching.tasks.task_activity import TaskActivity

#: seconds between two looks while long steps run, and otherwise
_OFTEN: Final = 0.02
_SELDOM: Final = 0.1
_RAREST: Final = 0.16
#: the thread's time at most, as a fraction of the process's, for looks; beyond that it looks less
#: often. What a look evicts from the caches costs the steps about as much again
_SHARE: Final = 0.004
#: seconds to report one event and to take it in, beside the thread's time
_TELLING: Final = 5e-7
#: the same for glances, as a fraction of the time that passes
_GLANCES: Final = 0.001
#: seconds between two status sentences; faster changes are hard to read
_SUMMARY: Final = 0.5
#: executables whose structure is sent unasked
_UNASKED: Final = 4


@final
class Pace:
    """The pause between two looks, which keeps their cost a small part of the process's time.

    Attributes:
        often: seconds between two glances.

    >>> from eagerflow.watching.watcher import Pace
    >>> pace = Pace()
    >>> pace.next(0.0, 0.0), pace.next(0.0004, 0.1), pace.next(0.0012, 0.2), pace.next(0.0112, 0.3)
    (0.1, 0.1, 0.15000000000000002, 0.16)
    """

    __slots__ = ("_before", "_seconds", "often")

    def __init__(self) -> None:
        self._before = 0.0, 0.0
        self._seconds = _SELDOM
        self.often = _OFTEN

    def next(self, spent: float, worked: float) -> float:
        """Seconds to wait.

        Args:
            spent: processor seconds of all looks so far.
            worked: processor seconds of the process so far.
        """
        looked, passed = spent - self._before[0], worked - self._before[1]
        if passed > 0:
            wanted = self._seconds * looked / (_SHARE * passed)
            self._seconds = min(max((self._seconds + wanted) / 2, _SELDOM), _RAREST)
        self._before = spent, worked
        return self._seconds

    def glanced(self, seconds: float) -> None:
        """Note the processor seconds of a glance."""
        self.often = min(max((self.often + seconds / _GLANCES) / 2, _OFTEN), _SELDOM)


@final
class Watcher:
    """Gathers data about running steps, and sends it to the connected views.

    It is an instrument. While it is open a thread of its own looks and sends; threads that run
    steps only append to lists.

    Args:
        clock: returns the time, as ``time.perf_counter``.

    Attributes:
        log: the steps.
        activity: queues, waits, transfers, retraces.
        tasks: the regions that ran at tasks, and the tasks' health.
        observer: the times of nodes, and values.
        sampler: the places of threads.
        between: the places of the thread that calls steps, between these.
        panels: objects that views show.
        board: all of this, as rows.

    >>> from eagerflow.watching import Watcher
    >>> f = ef.trace(lambda x: ef.exp(x))
    >>> with Watcher() as watcher:
    ...     for _ in range(3):
    ...         y = f(ef.zeros(2))
    ...     watcher.collect()
    >>> [steps.count for steps in watcher.log.executables.values()]
    [3]
    """

    kinds: Final = Activity.kinds

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self.log = StepLog()
        self.activity = Activity()
        self.tasks = TaskActivity(self.activity)
        self.observer = StepObserver(self.log)
        self.sampler = Sampler(nodes_of_threads, places_of_threads, node_at, self._is_long)
        self.between = BetweenSteps()
        self.panels = Panels(clock)
        self.board = Board()
        self._rows = BoardRows(self.board, self.log, self.activity, self.observer, self.tasks)
        self._connections: tuple[Connection, ...] = ()
        self._lock = threading.RLock()  # other threads read the gathered data, too
        self._structures: set[int] = set()
        self._summary_due = 0.0
        self._bell = threading.Lock()  # released when the thread is to end
        self._thread: threading.Thread | None = None
        self._depth = 0
        self.opened = 0.0
        self.spent = 0.0
        # the methods of an instrument, as functions of C, which cost half as much as Python's
        self.begin = self.activity.begin
        self.end = self.activity.end
        self.brief_level = self.activity.brief_level
        self.brief_wait = self.activity.brief_wait
        self.brief_step = self.log.note_step
        self.brief_region = self.log.note_region

    # --- opening and closing ---

    def __enter__(self) -> Watcher:
        self.open()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def open(self) -> None:
        """Watch, until `close` was called as often as `open`."""
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self.opened = self._clock()
            self.activity.begin_counting()
            self._bell = threading.Lock()
            self._bell.acquire()
            events.add_instrument(self)
            self.tasks.open()
            self._thread = threading.Thread(target=self._run, name="eagerflow views", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Undo one call of `open`; with the last, stop watching. Gathered data stays."""
        with self._lock:
            self._depth = max(self._depth - 1, 0)
            if self._depth:
                return
            thread, self._thread = self._thread, None
            events.remove_instrument(self)
            self.tasks.close()
            self.observer.stop()
        if thread is not None:
            self._bell.release()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def leave(self) -> None:
        """Stop watching in a forked process, which lacks the thread that empties the lists."""
        remove_after_fork(self)
        self._lock, self._thread, self._depth = threading.RLock(), None, 0
        self._connections = ()

    @property
    def is_open(self) -> bool:
        """Whether it watches."""
        return self._depth > 0

    def connect(self, comm: Comm) -> Connection:
        """Send changes to a view, until the connection is closed."""
        with self._lock:
            connection = Connection(self.board, comm)
            self._connections = (*self._connections, connection)
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Close a connection."""
        with self._lock:
            self._connections = tuple([c for c in self._connections if c is not connection])
            connection.close()

    # --- the thread ---

    def _run(self) -> None:
        due, left, long, pace, bell = self._clock(), 0.0, False, Pace(), self._bell
        self.spent, told, duty = thread_time(), self._told(), self.observer.duty
        while not bell.acquire(timeout=left):  # a lock: events take twenty calls to wait
            now = self._clock()
            if now >= due:
                with self._lock:
                    long = self.look(now)
                    self.tell(now)
                    spent, self.spent = self.spent, thread_time()
                    before, told = told, self._told()
                duty.ran(self.spent - spent + _TELLING * (told - before))
                due = max(due, now - _OFTEN) + pace.next(self.spent, process_time())
            else:
                self.sampler.glance(now)
                spent, self.spent = self.spent, thread_time()
                pace.glanced(self.spent - spent)
                duty.ran(self.spent - spent)
            left = max(due - self._clock(), 0.001)
            left = min(left, pace.often) if long else left

    def _told(self) -> int:
        """Number of events taken in."""
        return self.log.told + self.log.regions_told + self.activity.told

    def look(self, now: float) -> bool:
        """Take in new data, and sample threads; returns whether any is busy in a long step."""
        with self._lock:
            self.tasks.look()
            self.collect()
            self.between.sample(now, self.log.newest)
            places = self.sampler.sample(now, self.activity.waiting, self.activity.moving)
            return any(place.doing != "waits" for place in places)

    def collect(self) -> None:
        """Take in new data."""
        with self._lock:
            self.log.collect()
            thin_out(self.log)
            self.tasks.collect()
            self.activity.collect()
            self.observer.collect()

    def tell(self, now: float) -> None:
        """Send changes to the views."""
        with self._lock:
            changed = self.observer.step(now)
            if not self._connections:
                return
            places = (*self.sampler.places, *self.tasks.places(now, self._is_long))
            self._rows.put(now, changed, self.sampler, places, self.cost(now))
            self._put_summary(now)
            self.board.put("panels", self.panels.rows(now))
            self.board.keep("panels", self.panels.keys())
            self._put_structures(self._rows.busiest(_UNASKED))
            for connection in self._connections:
                for wish in connection.take_wishes():
                    self._grant(wish)
                connection.flush(now)
            broken = [c for c in self._connections if c.broken]
        for connection in broken:
            self.disconnect(connection)

    def _grant(self, wish: Mapping[str, Any]) -> None:
        """Grant a view's wish, whose content is not trusted."""
        number, look, levels = wish.get("structure"), wish.get("look"), wish.get("levels")
        if type(number) is int:
            self._put_structures([number])
        if isinstance(look, list) and [type(x) for x in look] == [int, int]:
            self.observer.look_at(look[0], look[1])
        if isinstance(levels, list):
            for level in levels_of([name for name in levels if isinstance(name, str)]):
                self.activity.know(level)

    def _put_summary(self, now: float) -> None:
        if now >= self._summary_due:
            self._summary_due = now + _SUMMARY
            busiest = self.log.busiest(now)
            number = 0 if busiest is None else busiest.executable
            row = (number, sentence(self, now), undecided(self, now))
            self.board.put("summary", [row])
            name = self.board.name
            self.board.put("diagnoses", [
                (d.kind, d.text, d.executable, d.node, name(d.queue), name(d.device),
                 "\n".join(d.path))
                for d in diagnoses(self, now)
            ])  # fmt: skip

    def _put_structures(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self._structures:
                continue
            known = self.observer.of(number)
            if known is not None:
                self._structures.add(number)
                parts = pieces(encode_structure(known.index))
                rows = [(number, i, len(parts), part) for i, part in enumerate(parts)]
                self.board.put("structures", rows)

    # --- queries ---

    def held(self) -> threading.RLock:
        """The lock that readers of gathered data enter, so that it does not change meanwhile."""
        return self._lock

    def cost(self, now: float) -> float:
        """The cost of watching, as a fraction of the time since it began."""
        return self.observer.duty.spent / max(now - self.opened, 1e-9)

    def observed(self, number: int) -> Observed | None:
        """The observations of the nodes of an executable; None if there are none."""
        return self.observer.executables.get(number)

    def _is_long(self, number: int) -> bool:
        times = self.log.executables.get(number)
        if times is None or not times.count:
            return True
        return times.median >= SHORT or self._clock() - times.last >= max(SHORT, 5 * times.median)


#: the watcher of this process
shared: Final = Watcher()


os.register_at_fork(after_in_child=shared.leave)
