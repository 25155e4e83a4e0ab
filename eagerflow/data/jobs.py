"""Threads that work for a pipeline, and the buffer between a thread and who reads from it.

Neither knows of elements: jobs are functions, and what a channel holds is anything. Whoever starts
threads here must close what they work for; cursors do it when they are closed or forgotten.

The garbage collector may find a forgotten cursor while a thread holds a lock, and close what this
lock belongs to in the same thread: hence locks that a thread may take twice.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, final

from eagerflow.data.elements import nbytes
from eagerflow.errors import CancelledError, QueueClosedError
from eagerflow.events import Event, emit, listening

__all__ = ["Channel", "Crew", "Job", "tell_taken"]

_T = TypeVar("_T")

#: seconds after which a thread that has nothing to do ends: nobody may ever read on
_IDLE: Final = 1.0


@final
class Job:
    """A function that some thread calls, and what became of it."""

    __slots__ = ("_error", "_value", "done", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work: Callable[[], Any] | None = work
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def do(self) -> None:
        """UserCall the function, here and now."""
        work, self.work = self.work, None
        assert work is not None
        try:
            self._value = work()
        except BaseException as error:
            self._error = error

    def fail(self, error: BaseException) -> None:
        """Be a job that raised."""
        self.work, self._error, self.done = None, error, True

    def result(self) -> Any:
        """What the function gave; asked once."""
        error, self._error = self._error, None  # its traceback leads to this job
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error


@final
class Crew:
    """A few threads that do jobs in the order in which they are given.

    Threads are started when they are wanted, and end when there is nothing to do for a while.

    Args:
        name: of the work, for events and the names of the threads.
        count: how many threads at most.
        idle: seconds.
    """

    def __init__(self, name: str, count: int, idle: float = _IDLE) -> None:
        self.name = name
        self._count = count
        self._idle = idle
        self._jobs: deque[Job] = deque()
        self._lock = threading.RLock()
        self._wanted = threading.Condition(self._lock)  # by threads: a job
        self._done = threading.Condition(self._lock)
        self._threads = 0
        self._started = 0
        self._waiting = 0
        self._closed = False

    def submit(self, job: Job) -> None:
        """Have a thread do ``job``."""
        with self._lock:
            self._check()
            self._jobs.append(job)
            if self._waiting >= len(self._jobs) or self._threads == self._count:
                self._wanted.notify()
                return
            self._threads += 1
            self._started += 1
            name = f"eagerflow-{self.name}-{self._started}"
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def forget(self, jobs: list[Job]) -> None:
        """Do not begin these."""
        with self._lock:
            self._jobs = deque(job for job in self._jobs if job not in jobs)

    def wait(self, jobs: list[Job]) -> int:
        """Wait until one of ``jobs`` is done; which.

        Raises:
            CancelledError: the crew was closed meanwhile.
        """
        with self._lock:
            while True:
                self._check()
                for i, job in enumerate(jobs):
                    if job.done:
                        return i
                self._done.wait()

    def _check(self) -> None:
        if self._closed:
            raise CancelledError(f"{self.name}: the iterator was closed")

    def _work(self) -> None:
        while (job := self._next()) is not None:
            start = time.perf_counter()
            job.do()
            if listening():
                _tell_done(self.name, start, job._value)
            with self._lock:
                job.done = True
                del job
                self._done.notify_all()

    def _next(self) -> Job | None:
        with self._lock:
            while not self._jobs:
                self._waiting += 1
                try:
                    notified = not self._closed and self._wanted.wait(self._idle)
                finally:
                    self._waiting -= 1
                if not self._jobs and (self._closed or not notified):
                    self._threads -= 1
                    return None
            return self._jobs.popleft()

    def close(self) -> None:
        """Begin no job any more, and let the threads end; whoever waits gets CancelledError."""
        with self._lock:
            self._closed = True
            self._jobs.clear()
            self._wanted.notify_all()
            self._done.notify_all()


def tell_taken(name: str, start: float, depth: int, value: Any) -> None:
    """Say that an element was waited for from ``start`` on, when ``depth`` of them were ready."""
    stop, thread = time.perf_counter(), threading.get_ident()
    emit(Event("take", name, "cpu:0", start, stop, thread, nbytes(value), depth=depth))


def _tell_done(name: str, start: float, value: Any) -> None:
    stop, thread = time.perf_counter(), threading.get_ident()
    emit(Event("element", name, "cpu:0", start, stop, thread, nbytes(value)))


@final
class Channel(Generic[_T]):
    """A bounded buffer between two threads.

    Args:
        capacity: how many items it holds; `put` waits for room.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[_T] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._cancelled = False

    @property
    def depth(self) -> int:
        """How many items it holds now."""
        return len(self._items)

    def put(self, item: _T) -> None:
        """Add ``item``, as soon as there is room.

        Raises:
            CancelledError: nobody will take it.
        """
        with self._lock:
            while len(self._items) >= self._capacity and not self._cancelled:
                self._changed.wait()
            self._check()
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> _T:
        """The next item, as soon as there is one.

        Raises:
            QueueClosedError: there will be none.
            CancelledError: somebody cancelled.
        """
        with self._lock:
            while not self._items and not self._closed and not self._cancelled:
                self._changed.wait()
            self._check()
            if not self._items:
                raise QueueClosedError("there are no more items")
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def _check(self) -> None:
        if self._cancelled:
            raise CancelledError("the iterator was closed")

    def close(self) -> None:
        """There are no more items than those that are in."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """Drop all items, and end whoever waits."""
        with self._lock:
            self._cancelled = True
            self._items.clear()
            self._changed.notify_all()
