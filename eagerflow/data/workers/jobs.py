"""Threads that work for a pipeline, and the queue between producers and the reader.

Neither knows of elements: jobs are functions, and what is handed over is whatever they gave.
Code that starts threads here must close what they work for; cursors do it when they are closed or
forgotten. What is made here leads to functions of the user, and those may lead to the iterator: so
a thread that has nothing to do holds nothing that leads there, else neither would be forgotten.

The garbage collector may find a forgotten cursor while a thread holds a lock, and close what this
lock belongs to in the same thread: hence locks that a thread may take twice.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, final

from eagerflow.data.base.elements import nbytes
from eagerflow.errors import CancelledError, QueueClosedError
from eagerflow.events import ElementEvent, QueueEvent, TakeEvent, WaitEvent, end
from eagerflow.extending import (
    FifoStore,
    QueueState,
    SequenceStore,
    begin_told,
    ending,
    slept,
)

#: seconds after which a thread that has nothing to do ends: there may be no more reads
_IDLE: Final = 1.0


class AbstractOutcome:
    """What some work gave, or what it raised.

    Attributes:
        value: what it gave.
        error: what it raised; None if it gave something.
    """

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    def result(self) -> Any:
        """What the work gave; asked once."""
        error, self.error = self.error, None  # its traceback leads to this object
        if error is None:
            return self.value
        try:
            raise error
        finally:
            del error


@final
class Handover:
    """A queue of what was made ahead, in which the reader waits for the next one.

    Args:
        name: of the producer, for events.
        capacity: how much of it there may be.
        numbered: whether it is handed over in the order of its numbers; else as it comes.

    Attributes:
        queue: the same, as a resource.
    """

    __slots__ = ("queue",)

    def __init__(self, name: str, capacity: int, numbered: bool = False) -> None:
        store = SequenceStore() if numbered else FifoStore()
        self.queue = QueueState(capacity, store, "sequence" if numbered else "fifo", name=name)

    def put(
        self, item: AbstractOutcome, number: int = 0, waits: bool = True
    ) -> threading.Lock | None:  # fmt: skip
        """Add ``item``, as soon as there is room; if it is closed, it is dropped.

        Args:
            item: to be taken.
            number: its position among others.
            waits: whether this thread will wait for room.

        Returns:
            A lock to be acquired in order to wait for that; None if there is room.
        """
        if self.queue.put_at_once(item, number):
            return None
        bell = threading.Lock()
        bell.acquire()
        attempt = self.queue.enqueue(item, number)
        if waits and (QueueEvent.listeners or WaitEvent.listeners):
            begin_told(attempt, bell.release)
        else:
            attempt.begin(bell.release)
        return bell

    def take(self) -> Any:
        """The next item, as soon as there is one.

        Raises:
            CancelledError: it was closed.
        """
        if not TakeEvent.listeners:
            return self._take()
        start, before, depth = perf_counter(), slept.seconds, self.queue.size()
        item = self._take()
        if item.error is None:
            waited, size = slept.seconds - before, nbytes(item.value)
            end(
                TakeEvent(
                    name=self.queue.label, device="cpu:0", start=start, nbytes=size,
                    waited=waited, depth=depth,
                )
            )  # fmt: skip
        return item

    def _take(self) -> Any:
        queue = self.queue
        try:
            return (queue.take_at_once() or queue.dequeue().wait())[0]
        except QueueClosedError:
            raise CancelledError(f"{queue.label}: the iterator was closed") from None

    @property
    def closed(self) -> bool:
        """Whether nothing more will be taken."""
        return self.queue.closed

    def close(self) -> None:
        """Drop all items, and end all waiting."""
        self.queue.cancel_and_close(drop=True)


def observed(name: str, make: Callable[[], AbstractOutcome]) -> Any:
    """What ``make`` gives, with an event if there are listeners."""
    if not ElementEvent.listeners:
        return make()
    start, before = perf_counter(), slept.seconds
    item = make()
    if item.error is None:
        waited, size = slept.seconds - before, nbytes(item.value)
        end(ElementEvent(name=name, device="cpu:0", start=start, nbytes=size, waited=waited))
    return item


@final
class Job(AbstractOutcome):
    """A function that some thread calls, and what became of it.

    Args:
        work: the function.
        number: its position among others.
    """

    def __init__(self, work: Callable[[], Any], number: int) -> None:
        super().__init__()
        self.work: Callable[[], Any] | None = work
        self.number = number

    def do(self) -> Job:
        """Call the function, here and now."""
        work, self.work = self.work, None
        assert work is not None
        try:
            self.value = work()
        except BaseException as error:
            self.error = error
        return self

    def fail(self, error: BaseException) -> None:
        """Be a job that raised."""
        self.work, self.error = None, error


@final
class Crew:
    """A few threads that do jobs in the order in which they are given.

    Threads are started when they are wanted, and end when there is nothing to do for a while.

    Args:
        name: of the work, for events and the names of the threads.
        count: how many threads at most.
        idle: seconds.

    Attributes:
        closed: whether no job is begun any more.
    """

    def __init__(self, name: str, count: int, idle: float = _IDLE) -> None:
        self.name = name
        self._count = count
        self._idle = idle
        self._jobs: deque[tuple[Job, Handover]] = deque()
        self._lock = threading.RLock()
        self._wanted = threading.Condition(self._lock)  # by threads: a job
        self._threads = 0
        self._started = 0
        self._waiting = 0
        self.closed = False

    def submit(self, job: Job, done: Handover) -> None:
        """Have a thread do ``job``, and put it into ``done``, which has room for it."""
        with self._lock:
            if self.closed:
                raise CancelledError(f"{self.name}: the iterator was closed")
            self._jobs.append((job, done))
            if self._waiting >= len(self._jobs) or self._threads == self._count:
                self._wanted.notify()
                return
            self._threads += 1
            self._started += 1
            name = f"eagerflow-{self.name}-{self._started}"
        ending.start(threading.Thread(target=self._work, name=name, daemon=True))

    def forget(self) -> None:
        """Begin none of the jobs that were not begun."""
        with self._lock:
            self._jobs.clear()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            job, done = task
            observed(self.name, job.do)
            done.queue.put_at_once(job, job.number)  # dropped if it is closed
            del task, job, done

    def _next(self) -> tuple[Job, Handover] | None:
        with self._lock:
            while not self._jobs:
                self._waiting += 1
                try:
                    notified = not self.closed and self._wanted.wait(self._idle)
                finally:
                    self._waiting -= 1
                if not self._jobs and (self.closed or not notified):
                    self._threads -= 1
                    return None
            return self._jobs.popleft()

    def close(self) -> None:
        """Begin no job any more, and let the threads end."""
        with self._lock:
            self.closed = True
            self._jobs.clear()
            self._wanted.notify_all()
