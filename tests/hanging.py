"""Time limit for a block of a test, which reports the stacks of all threads when it is exceeded."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["ends_within"]


@contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    """Interrupts the block with an AssertionError when it takes longer in the main thread.

    Waits for locks are interrupted, too; the error shows the stacks of all threads.
    """

    def hangs(number: int, frame: FrameType | None) -> Any:
        places = "\n".join(
            "".join(traceback.format_stack(other, limit=5))
            for other in sys._current_frames().values()
        )
        raise AssertionError(f"it has not ended after {seconds} s; threads are at\n{places}")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
