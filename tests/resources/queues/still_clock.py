"""A manual clock for all timers, advanced by tests of thousands of waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, final

import pytest

from eagerflow.runtime.threads.clock import AbstractClock
from eagerflow.runtime.threads.timers import timers

LONG: Final = 1000.0  # seconds


@final
class StillClock(AbstractClock):
    """A clock that stands still until a test sets ``time``."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def wait(self, bell: threading.Lock, seconds: float | None) -> None:
        bell.acquire(timeout=0.01)  # the time may be advanced meanwhile


@contextmanager
def still_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[StillClock]:
    """Makes all timers use the manual clock; at the end all of them expire."""
    made = StillClock()
    monkeypatch.setattr(timers, "_clock", made)
    yield made
    made.time += 2 * LONG
    timers.join()


def until(holds: Callable[[], bool]) -> None:
    """Sleep until a condition holds, which is slow to check with so many waits."""
    while not holds():
        threading.Event().wait(0.01)
