"""Time slices for the compiler, so that other threads make progress.

A thread of pure Python keeps the GIL for 5 ms at a time, while another thread may need it after
each small op. In slices the compiler releases the GIL every half millisecond, by sleeping.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import Final, final

#: seconds of a slice, and of the pause after it
_SLICE: Final = 0.5e-3
_PAUSE: Final = 0.2e-3


@final
class _Slice(threading.local):
    """The slice of a thread.

    Attributes:
        end: when it ends; infinite where work is not in slices.
    """

    end = float("inf")


_slice: Final = _Slice()


@contextmanager
def in_slices() -> Iterator[None]:
    """Within the block, `breathe` of this thread pauses between slices."""
    _slice.end = perf_counter() + _SLICE
    try:
        yield
    finally:
        _slice.end = float("inf")


def breathe(
    clock: Callable[[], float] = perf_counter, pause: Callable[[float], object] = sleep
) -> None:
    """Pause if the slice is over."""
    if clock() >= _slice.end:
        pause(_PAUSE)
        _slice.end = clock() + _SLICE
