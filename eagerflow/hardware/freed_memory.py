"""Freed memory of this process, kept for later arrays.

By default the C library gives the memory of a long array back to the system when it is freed. The
next array gets other pages, which the system has to find, to clear and to map one by one. That
takes longer than to fill them.
"""

from __future__ import annotations

import ctypes
from time import process_time
from typing import Final, final

#: limit on the bytes that are kept at the end of a heap
_KEPT: Final = 256 << 20
#: bytes from which on an array has pages of its own, which are given back: the first number that
#: the C library accepts
_APART: Final = (128 << 20, 32 << 20)
#: seconds between two looks at whether the process is idle
LOOK_SECONDS: Final = 10.0
#: the part of a processor below which a process is idle
_IDLE: Final = 0.01
#: <malloc.h>
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

_libc: Final = ctypes.CDLL(None)


@final
class FreedMemory:
    """Gives freed memory back when the process is idle."""

    def __init__(self) -> None:
        self._since = self._worked = 0.0
        self._given_back = True

    def look(self, now: float) -> float:
        """Give the memory back if the process has been idle; gives the time of the next call."""
        worked = process_time()
        idle = worked - self._worked < _IDLE * (now - self._since)
        if idle and not self._given_back:
            _libc.malloc_trim(0)
        self._given_back = idle
        self._since, self._worked = now, worked
        return now + LOOK_SECONDS


def keep_freed_memory() -> FreedMemory | None:
    """Have the C library keep the memory of freed arrays; None if it cannot do so.

    This is for processes of eagerflow's own, since it concerns all code of the process.
    """
    try:
        set_option, _ = _libc.mallopt, _libc.malloc_trim
    except AttributeError:  # another C library
        return None
    if not any(set_option(_MMAP_THRESHOLD, size) for size in _APART):
        return None
    return FreedMemory() if set_option(_TRIM_THRESHOLD, _KEPT) else None
