"""A clock of all timers that tests put forward, for waits by the thousand."""

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
    """It stands still until it is put forward."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def wait(self, bell: threading.Lock, seconds: float | None) -> None:
        bell.acquire(timeout=0.01)  # it may be put forward meanwhile


@contextmanager
def still_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[StillClock]:
    """The clock that all timers go by, which have all rung in the end."""
    made = StillClock()
    monkeypatch.setattr(timers, "_clock", made)
    yield made
    made.time += 2 * LONG
    timers.join()


def until(holds: Callable[[], bool]) -> None:
    """Let other threads run until something holds; to look at so many takes a while."""
    while not holds():
        threading.Event().wait(0.01)
