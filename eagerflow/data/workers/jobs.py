"""Threads that work for a pipeline, and the queue between producers and the reader.

Both are independent of elements: jobs are functions, and their outcomes are handed over.
Code that starts threads here must close the objects that they work for; cursors do it when they are
closed or deleted. Jobs refer to users' functions, which may refer to the iterator: so an idle
thread holds no job, else the iterator would never be freed.

The garbage collector may delete a cursor while a thread holds a lock, and close the owner of this
lock in the same thread: hence the reentrant locks.
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

#: seconds after which an idle thread ends: there may be no more reads
_IDLE: Final = 1.0


class AbstractOutcome:
    """The outcome of some work: a value or an error.

    Attributes:
        value: the result.
        error: the exception raised; None if there is a result.
    """

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    def result(self) -> Any:
        """Return the value or raise the error; called once."""
        error, self.error = self.error, None  # its traceback leads to this object
        if error is None:
            return self.value
        try:
            raise error
        finally:
            del error


@final
class Handover:
    """A queue of outcomes made ahead, in which the reader waits for the next one.

    Args:
        name: of the producer, for events.
        capacity: the greatest number of items.
        numbered: whether items are handed over in the order of their numbers; else as they come.

    Attributes:
        queue: the handover as a resource.
    """

    __slots__ = ("queue",)

    def __init__(self, name: str, capacity: int, numbered: bool = False) -> None:
        store = SequenceStore() if numbered else FifoStore()
        self.queue = QueueState(capacity, store, "sequence" if numbered else "fifo", name=name)

    def put(
        self, item: AbstractOutcome, number: int = 0, waits: bool = True
    ) -> threading.Lock | None:  # fmt: skip
        """Add ``item`` as soon as there is room; a closed handover drops it.

        Args:
            item: the item.
            number: its position in the order of items.
            waits: whether this thread will wait for room.

        Returns:
            A lock that can be acquired once there is room; None if there is room now.
        """
        if self.queue.put_at_once(item, number):
            return None
        bell = threading.Lock()
        bell.acquire()
        attempt = self.queue.enqueue(item, number)
        attempt.runner = self.queue.label
        if waits and (QueueEvent.listeners or WaitEvent.listeners or WaitEvent.brief):
            begin_told(attempt, bell.release)
        else:
            attempt.begin(bell.release)
        return bell

    def take(self) -> Any:
        """The next item, as soon as there is one.

        Raises:
            CancelledError: the handover was closed.
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
        """Whether no more items will be taken."""
        return self.queue.closed

    def close(self) -> None:
        """Drop all items, and end all waits."""
        self.queue.cancel_and_close(drop=True)


def observed(name: str, make: Callable[[], AbstractOutcome]) -> Any:
    """The outcome of ``make``, with an event if there are listeners."""
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
    """A function for a thread to call, and the outcome of the call.

    Args:
        work: the function.
        number: its position in the order of jobs.
    """

    def __init__(self, work: Callable[[], Any], number: int) -> None:
        super().__init__()
        self.work: Callable[[], Any] | None = work
        self.number = number

    def do(self) -> Job:
        """Call the function in this thread, and keep the outcome."""
        work, self.work = self.work, None
        assert work is not None
        try:
            self.value = work()
        except BaseException as error:
            self.error = error
        return self

    def fail(self, error: BaseException) -> None:
        """Set the outcome to an error, without a call."""
        self.work, self.error = None, error


@final
class Crew:
    """A pool of threads that do jobs in the order of submission.

    Threads are started on demand, and end when they have been idle for a while.

    Args:
        name: of the work, for events and the names of the threads.
        count: the greatest number of threads.
        idle: the seconds after which an idle thread ends.

    Attributes:
        closed: whether no more jobs are begun.
    """

    def __init__(self, name: str, count: int, idle: float = _IDLE) -> None:
        self.name = name
        self._count = count
        self._idle = idle
        self._jobs: deque[tuple[Job, Handover]] = deque()
        self._lock = threading.RLock()
        self._wanted = threading.Condition(self._lock)  # threads wait here for a job
        self._threads = 0
        self._started = 0
        self._waiting = 0
        self.closed = False

    def submit(self, job: Job, done: Handover) -> None:
        """Let a thread do ``job``, and put it into ``done``, which must have room for it."""
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
        """Drop the jobs that were not begun."""
        with self._lock:
            self._jobs.clear()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            job, done = task
            observed(self.name, job.do)
            done.queue.put_at_once(job, job.number)  # dropped if the queue is closed
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
        """Drop the jobs that were not begun, and let the threads end."""
        with self._lock:
            self.closed = True
            self._jobs.clear()
            self._wanted.notify_all()
