"""Attempts: operations on a resource that may have to wait, as records that block no thread.

An operation on a queue (or a mutex, an accumulator, a barrier) puts an *attempt* into one of its
*wait queues*, with a callback. After each change the resource lets the first attempt of each wait
queue go as far as it can, and calls back those that have ended. How a caller waits does not concern
the resource: a thread sleeps on a lock (`AbstractAttempt.wait`), a step of the scheduled tier goes
on with other entries.

Ctrl-C may come between any two instructions of the main thread, also while it moves an element on
behalf of another thread. Python checks for it after calls and at the back edges of loops, never
between plain statements without a call. So changes that must happen together (an element leaves the
queue and is held by its taker) are written as such statements, or end in one call of a C function.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from eagerflow.errors import CancelledError, WaitTimeoutError
from eagerflow.events import (
    QueueEvent,
    WaitEvent,
    begin,
    describe,
    end,
    failed_runners,
    step_of,
)
from eagerflow.resources.attempt_events import (
    end_wait,
    late_event,
    note_wait,
    operation_event,
    wait_event,
)
from eagerflow.resources.requests import check_seconds

if TYPE_CHECKING:
    from eagerflow.resources.meetings import AbstractMeeting

#: makes the error where it is raised, so that it shows the line of the caller that waits
Failure = Callable[[], Exception]

#: the remaining seconds for the waits of this context, and the error when they are over
_limits: Final[
    ContextVar[tuple[Callable[[], float], Callable[[AbstractAttempt], Exception]] | None]
] = ContextVar("limits", default=None)


@contextmanager
def limited(
    left: Callable[[], float], failure: Callable[[AbstractAttempt], Exception]
) -> Iterator[None]:
    """Limit the waits of this thread within the block, which end with an error at the deadline.

    Args:
        left: gives the remaining seconds.
        failure: makes the error of an operation that still waits.
    """
    token = _limits.set((left, failure))
    try:
        yield
    finally:
        _limits.reset(token)


def _as_it_is(value: Any) -> Any:
    return value


class AbstractAttempt(ABC):
    """An operation that may have to wait. It can be begun once.

    Args:
        owner: the resource.
        wait_queue: the index of its wait queue.
        what: the name of the operation, for messages.

    Attributes:
        done: whether it has ended.
        failure: makes the error that it ended with; None if it succeeded.
        since: when it began to wait, in seconds of ``time.perf_counter``; None if it did not.
        waiter: the identifier of the thread that sleeps until it has ended; without such a thread
            a function that gives the fields of the wait's event, or None.
        event: of the wait, if it was reported or requested.
        runner: the name of the runner that waits until it has ended; empty without one. A producer
            of a dataset counts as one: that it waits for room keeps nobody waiting.
    """

    __slots__ = ("_callback", "done", "event", "failure", "owner", "runner", "since", "wait_queue",
                 "waiter", "what")  # fmt: skip

    def __init__(self, owner: AbstractMeeting, wait_queue: int, what: str) -> None:
        self.owner: Any = owner
        self.what = what
        self.wait_queue = wait_queue
        self.done = False
        self.failure: Failure | None = None
        self.since: float | None = None
        self.waiter: int | Callable[[], dict[str, Any]] | None = None
        self.event: WaitEvent | None = None
        self.runner = ""
        self._callback: Callable[[], object] | None = None

    # --- defined by each kind of operation; called with the lock of the resource held ---

    @abstractmethod
    def step(self) -> bool:
        """Go as far as possible; sets `done` at the end. Returns whether anything has changed."""

    @abstractmethod
    def retract(self) -> None:
        """Give back all that was taken so far: no caller will get it."""

    def keep(self) -> None:
        """Fix the elements that it brings as they are now, as it has to wait."""

    @property
    def value(self) -> Any:
        """The result of a successful attempt."""
        return None

    def fail(self, failure: Failure) -> None:
        """End the attempt with an error."""
        self.failure = failure
        self.done = True

    def fail_with(self, error: Exception) -> None:
        """End the attempt with an error that was raised."""
        self.fail(lambda: error)

    def before_wait(self, sleeps: bool) -> None:
        """Refuse a wait of this thread for itself; by default, as none is possible, do nothing.

        Args:
            sleeps: whether the thread will sleep while it waits.
        """

    def call_back(self) -> None:
        """Notify the caller that the attempt has ended."""
        if self.event is not None and self.event.is_silent:
            end_wait(self.event, self.done, self.failure)
        if self._callback is not None:
            self._callback()

    def open_wait(self) -> WaitEvent | None:
        """The event of the wait in progress, if any. The lock is held."""
        if self.done or self.since is None or self._callback is None:
            return None
        if self.event is None:
            self.event = late_event(self)
        return self.event

    def let_go(self) -> None:
        """Forget its caller, after its end: no cycle keeps elements until they are collected."""
        self._callback = self.waiter = None

    # --- for the caller ---

    def begin(self, callback: Callable[[], object] | None = None) -> None:
        """Put the attempt into its wait queue.

        Args:
            callback: called once when the attempt has ended, from any thread, without a lock; at
                once if it need not wait. Its errors are raised in that thread, after other
                callbacks.
        """
        self._callback = callback
        if self.done:  # an attempt for no elements
            self.call_back()
        else:
            self.owner.settle(self)

    def calls_back(self, callback: Callable[[], object]) -> bool:
        """Set the callback of an attempt that was begun without one.

        Returns:
            Whether it has ended already; then the callback is not called.
        """
        if self.done:
            return True
        with self.owner.lock:
            if not self.done:
                self._callback = callback
            return self.done

    def cancel(self, failure: Failure) -> bool:
        """End it with an error if it still waits; returns whether it did. Calls its callback."""
        owner = self.owner
        with owner.lock:
            if self.done:
                return False
            self.retract()
            self.fail(failure)
            owner.remove(self)
        owner.settle()
        return True

    def interrupt(self) -> None:
        """Cancel the attempt, as its waiter is to stop."""
        self.cancel(lambda: CancelledError(f"{self.what}: it was cancelled"))

    def abandon(self) -> None:
        """End the attempt, or give back its result: it is not wanted any more."""
        owner = self.owner
        with owner.lock:
            self.retract()
            if not self.done:
                self.fail(lambda: CancelledError(f"{self.what}: it was cancelled"))
                owner.remove(self)
        owner.settle()

    def result(self) -> Any:
        """The result of an attempt that is done.

        Raises:
            EagerflowError: it ended with an error.
        """
        if self.failure is not None:
            raise self.failure()
        return self.value

    def wait(self, seconds: float | None = None, finish: Callable[[Any], Any] = _as_it_is) -> Any:
        """Begin the attempt, and let this thread sleep until it has ended; Ctrl-C wakes the thread.

        Args:
            seconds: the timeout.
            finish: makes the result from the value; a Ctrl-C meanwhile gives the value back.

        Raises:
            WaitTimeoutError: it took longer; then nothing was taken.
            EagerflowError: it ended with an error.
        """
        event = operation_event(self.owner, self.what) if QueueEvent.listeners else None
        try:
            if event is not None:
                begin(event)
            self.before_wait(sleeps=True)
            self.begin()
            if not self.done:
                self._await(seconds)
            elif self.since is not None:
                self._tell_short_wait()
            made = finish(self.result())
            if event is not None:
                end(event)
            return made
        except BaseException as error:
            if isinstance(error, TimeoutError | KeyboardInterrupt):
                failed_runners.noted(error)
            try:
                self.abandon()  # after Ctrl-C its result would be lost
            finally:
                if event is not None and event.stop is None:
                    event.error = describe(error)
                    end(event)
            raise

    def _await(self, seconds: float | None) -> None:
        """Let this thread sleep until the attempt has ended, or another thread cancels it."""
        bell = threading.Lock()
        bell.acquire()
        with self.owner.lock:
            over = self.done
            if not over:
                self.waiter, self.runner = get_ident(), step_of.runner
                self._callback = bell.release
        if over:
            self._tell_short_wait()
            return
        start, holder = perf_counter(), interruptible.holder
        event: WaitEvent | None = None
        try:
            if WaitEvent.listeners:
                event = self.event = wait_event(self.owner, self.what)
                begin(event)
            if holder is not None:
                holder.watch(self)
            self._sleep(bell, seconds)
        finally:
            if holder is not None:
                holder.watch(None)
            slept.seconds += perf_counter() - start
            if event is not None:
                end_wait(event, self.done, self.failure)
            note_wait(self.owner, self.what, start)

    def _tell_short_wait(self) -> None:
        """Report a wait that another thread ended before this thread could sleep.

        An element that was handed over never lay in the queue: without a wait it would not be
        counted as an arrival.
        """
        if WaitEvent.listeners:
            event = wait_event(self.owner, self.what)
            begin(event)
            end_wait(event, self.done, self.failure)
        note_wait(self.owner, self.what, perf_counter())

    def _sleep(self, bell: threading.Lock, seconds: float | None) -> None:
        """Let this thread sleep until ``bell`` is released, or the time is over."""
        limit = _limits.get()
        failure, most = lambda: self.late(seconds), seconds
        if limit is not None:
            left, late = max(limit[0](), 0.0), limit[1]
            if seconds is None or left < seconds:
                failure, most = lambda: late(self), min(left, threading.TIMEOUT_MAX)
        bell.acquire(timeout=-1 if most is None else most)
        if not self.done:
            self.cancel(failure)

    def checked_seconds(self, seconds: float) -> float | None:
        """Check a timeout that is known only at run time.

        Raises:
            TensorValueError: the timeout is negative or no number.
        """
        return check_seconds(self.what, seconds)

    def late(self, seconds: float | None) -> Exception:
        """The error for a wait of ``seconds`` that has timed out."""
        return WaitTimeoutError(
            f"{self.what}: it still waits after {seconds:g} seconds", given=self.owner.state()
        )


class _Interrupted(Protocol):
    def interrupt(self) -> None: ...


@final
class Interruptible:
    """A handle by which other threads end the waits of a thread, as its `interruptible`."""

    __slots__ = ("_awaited", "_lock", "_stopped")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awaited: _Interrupted | None = None
        self._stopped = False

    def enter(self, work: _Interrupted) -> Interruptible | None:
        """Become the handle of this thread while it does ``work``; returns the previous one."""
        before = interruptible.holder
        interruptible.holder = self
        if before is not None:
            before.watch(work)
        return before

    def leave(self, before: Interruptible | None) -> None:
        """Restore ``before``, the result of `enter`, once the work is over."""
        interruptible.holder = before
        if before is not None:
            before.watch(None)

    def watch(self, awaited: _Interrupted | None) -> None:
        """Note the object that the thread waits for now, or None."""
        with self._lock:
            self._awaited = awaited
            stopped = self._stopped
        if stopped and awaited is not None:
            awaited.interrupt()

    def stop(self) -> None:
        """End the current wait of the thread, and all later ones."""
        with self._lock:
            self._stopped = True
            awaited = self._awaited
        if awaited is not None:
            awaited.interrupt()


@final
class _OfThread(threading.local):
    """The handle by which other threads may end the waits of this one, or None."""

    holder: Interruptible | None = None


interruptible: Final = _OfThread()


@final
class _LoopsOverQueues(threading.local):
    """The loops of this thread over queues.

    Attributes:
        ended: the number of loops that ended with their queues.
    """

    ended: int = 0


loops_over_queues: Final = _LoopsOverQueues()


@final
class _Slept(threading.local):
    """The time that this thread has slept in attempts.

    Attributes:
        seconds: the total so far.
        told: the part of it already reported, for a caller that reports waits one by one.
    """

    seconds: float = 0.0
    told: float = 0.0


slept: Final = _Slept()
