"""The state of a mutex: it has one holder at a time, the others wait in order."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any, Final, final

from eagerflow.errors import MutexError
from eagerflow.events import QueueEvent
from eagerflow.resources.attempt_events import tell_operation
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.waiting_operations import AbstractAttempt

_serial: Final = count(1)


@final
class _Numbered(threading.local):
    """The number of a thread, which is never reused."""

    def __init__(self) -> None:
        self.number = next(_serial)


_numbered: Final = _Numbered()


def this_thread() -> int:
    """The number of this thread, which unlike its identifier no other thread ever has."""
    return _numbered.number


@final
class _Acquire(AbstractAttempt):
    """The attempt to acquire the mutex. Its value is the number of the hold."""

    __slots__ = ("_hold", "_thread")

    def __init__(self, mutex: MutexState) -> None:
        super().__init__(mutex, 0, "acquire")
        self._hold = 0
        self._thread = 0

    def before_wait(self, sleeps: bool) -> None:
        mutex, thread = self.owner, this_thread()
        self._thread = thread if sleeps else 0  # else other work goes on in this thread
        if mutex.holder and mutex.thread == thread:
            raise MutexError(
                "acquire: this thread holds the mutex already and would wait for itself",
                given=mutex.state(),
            )

    def step(self) -> bool:
        mutex = self.owner
        if mutex.holder:
            return False
        hold = mutex.holds + 1
        mutex.thread = self._thread
        self._hold = mutex.holder = mutex.holds = hold
        self.done = True
        return True

    def retract(self) -> None:
        mutex = self.owner
        if self._hold and mutex.holder == self._hold:
            mutex.holder = 0

    @property
    def value(self) -> int:
        return self._hold


@final
class MutexState(AbstractMeeting):
    """A mutex, which has one holder at a time.

    Args:
        name: for display.

    Attributes:
        holds: the number of holds so far.
        holder: the number of the current hold, 0 if the mutex is free.
        thread: the thread that waited for that hold (see `this_thread`), 0 for none.
    """

    __slots__ = ("holder", "holds", "thread")
    room = 1.0

    def __init__(self, name: str | None = None) -> None:
        super().__init__(1, "mutex", name)
        self.holds = 0
        self.holder = 0
        self.thread = 0

    def __repr__(self) -> str:
        return self.called("mutex")

    def state(self) -> str:
        with self.lock:
            waiting = self.waiting(0)
            held = "held" if self.holder else "free"
        return f"{self!r}, {held}" + (f", {waiting} waiting" if waiting else "")

    def size(self) -> int:
        """1 while the mutex is held, else 0."""
        return int(self.holder != 0)

    def acquire(self) -> AbstractAttempt:
        """The attempt to acquire it; its value is the number of the hold."""
        return _Acquire(self)

    def release(self, hold: int) -> None:
        """End a hold, and let the next attempt in the wait queue acquire the mutex.

        Raises:
            MutexError: this is not the current hold.
        """
        if not self.drop(hold):
            raise MutexError("release: this hold of the mutex has ended", given=self.state())

    def drop(self, hold: Any) -> bool:
        """As `release`, without an error; returns whether it was the current hold."""
        with self.lock:
            if self.holder != hold:
                return False
            self.holder = 0
        self.settle()
        if QueueEvent.listeners:
            tell_operation(self, "release")
        return True

    def drop_held_by(self, thread: int, since: int) -> None:
        """End the current hold if ``thread`` waited for it, and it is later than ``since``."""
        with self.lock:
            hold = self.holder if self.thread == thread else 0
        if hold > since:
            self.drop(hold)
