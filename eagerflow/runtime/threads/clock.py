"""Clocks for the runtime, which tests can replace."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from time import monotonic
from typing import final


class AbstractClock(ABC):
    """A clock that gives the time, and waits."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since some moment."""

    @abstractmethod
    def wait(self, bell: threading.Lock, seconds: float | None) -> None:
        """Wait until ``bell`` is released, and acquire it; at most for ``seconds``."""


@final
class SystemClock(AbstractClock):
    """The clock of the machine."""

    def now(self) -> float:
        return monotonic()

    def wait(self, bell: threading.Lock, seconds: float | None) -> None:
        bell.acquire(timeout=-1 if seconds is None else max(seconds, 0.0))
