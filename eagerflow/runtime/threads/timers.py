"""Timers: calls after some time unless they are cancelled, with one thread for all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, final

from eagerflow.runtime.threads.clock import AbstractClock, SystemClock
from eagerflow.runtime.threads.reported_calls import call_and_report

#: number of cancelled calls that may be kept until their time
_SLACK: Final = 64


@final
class Timer:
    """A scheduled call, which can be cancelled.

    Attributes:
        action: the function to call; None once it was called or cancelled.
    """

    __slots__ = ("_timers", "action")

    def __init__(self, timers: Timers, action: Callable[[], object]) -> None:
        self._timers = timers
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Cancel the call."""
        self._timers.drop(self)


@final
class Timers:
    """Calls at later times. There is a thread only as long as calls are scheduled.

    Args:
        clock: gives the time.
    """

    def __init__(self, clock: AbstractClock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forget all calls, and the thread: neither survives a fork."""
        self._lock = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._due: list[tuple[float, int, Timer]] = []
        self._live = 0  # entries of `_due` that are not cancelled
        self._numbers = count()
        self._thread: threading.Thread | None = None

    def call(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Call ``action`` after some seconds, in the thread of the timers."""
        timer = Timer(self, action)
        with self._lock:
            heappush(self._due, (self._clock.now() + seconds, next(self._numbers), timer))
            self._live += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="eagerflow-timers", daemon=True
                )
                self._thread.start()
        self._ring()
        return timer

    def drop(self, timer: Timer) -> None:
        """Cancel a call. The thread ends with the last one."""
        with self._lock:
            if timer.action is None:
                return
            timer.action = None
            self._live -= 1
            if len(self._due) > 2 * self._live + _SLACK:
                self._due = [one for one in self._due if one[2].action is not None]
                heapify(self._due)
            idle = not self._live
        if idle:
            self._ring()

    def _ring(self) -> None:
        with self._lock:
            if self._bell.locked():
                self._bell.release()

    def _run(self) -> None:
        while True:
            action, seconds = self._next()
            if action is not None:
                call_and_report(action)
                del action  # its closure would keep objects alive
            elif seconds is None:
                return
            else:
                self._clock.wait(self._bell, seconds)

    def _next(self) -> tuple[Callable[[], Any] | None, float | None]:
        """The function to call now, or seconds until the next one is due; None for never."""
        with self._lock:
            due = self._due
            while due and due[0][2].action is None:
                heappop(due)
            if not due:
                self._thread = None
                return None, None
            left = due[0][0] - self._clock.now()
            if left > 0:
                return None, left
            timer = heappop(due)[2]
            action, timer.action = timer.action, None
            self._live -= 1
            return action, None

    def join(self) -> None:
        """Wait until no calls are left."""
        with self._lock:  # without it the thread may not have been started yet
            thread = self._thread
        if thread is not None:
            thread.join()


#: the timers of this process
timers: Final = Timers(SystemClock())
os.register_at_fork(after_in_child=timers.reset)
