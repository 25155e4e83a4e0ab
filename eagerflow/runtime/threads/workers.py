"""Thread pools that help with steps; threads start on demand, and end when they are idle."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, final

from eagerflow.runtime.threads.ending import ending
from eagerflow.runtime.threads.reported_calls import call_and_report

#: seconds after which a thread that has nothing to do ends
_IDLE: Final = 1.0


@final
class Workers:
    """A pool of threads.

    Args:
        idle: seconds after which a thread that has nothing to do ends.
        most: gives the maximal number of threads; None for as many as there are jobs.
        name: of the threads, before their numbers.
    """

    def __init__(
        self, idle: float = _IDLE, most: Callable[[], int] | None = None, name: str = "worker"
    ) -> None:
        self._idle = idle
        self._most = most
        self._name = name
        self._closed = False
        self._started = 0
        self.forget()

    def submit(self, job: Callable[[], object], most: int | None = None) -> bool:
        """Run ``job`` in a thread of the pool; its error, if any, goes to ``threading.excepthook``.

        Args:
            job: the function to run.
            most: the job is refused if all threads are busy and there are at least so many.

        Returns:
            Whether the job will be run.
        """
        with self._lock:
            if self._waiting > len(self._jobs) or self._has_enough():
                self._jobs.append(job)
                self._wake.notify()
                return True
            if most is not None and len(self._threads) >= most:
                return False
            self._jobs.append(job)
            self._started += 1
            name = f"eagerflow-{self._name}-{self._started}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.add(thread)
        ending.start(thread)
        return True

    def _has_enough(self) -> bool:
        return self._most is not None and len(self._threads) >= self._most()

    def _work(self) -> None:
        while True:
            job = self._next()
            if job is None:
                return
            call_and_report(job)
            del job  # it holds the values of its step

    def _next(self) -> Callable[[], object] | None:
        with self._lock:
            while not self._jobs:
                self._waiting += 1
                try:
                    notified = not self._closed and self._wake.wait(self._idle)
                finally:
                    self._waiting -= 1
                if not self._jobs and (self._closed or not notified):
                    self._threads.discard(threading.current_thread())
                    return None
            return self._jobs.popleft()

    def close(self) -> None:
        """End all threads once they have done their jobs; more jobs can be submitted later."""
        for thread in self.stop():
            if thread.ident is not None:  # Ctrl-C may have come before it was started
                thread.join()
        with self._lock:
            self._closed = False

    def stop(self) -> list[threading.Thread]:
        """As `close`, but return the threads instead of waiting for them."""
        with self._lock:
            self._closed = True
            self._wake.notify_all()
            return list(self._threads)

    def forget(self) -> None:
        """Forget all threads and jobs: they do not survive a fork."""
        self._jobs: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()  # entered itself: a condition would keep it after Ctrl-C
        self._wake = threading.Condition(self._lock)
        self._threads: set[threading.Thread] = set()
        self._waiting = 0
        ending.before(self, Workers.stop)

    def __len__(self) -> int:
        """Number of threads."""
        return len(self._threads)


#: the pool of this process
shared: Final = Workers()
os.register_at_fork(after_in_child=shared.forget)
