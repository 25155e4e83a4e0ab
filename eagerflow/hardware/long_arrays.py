"""What the C library does with the memory of long arrays when they are freed."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

__all__ = ["expect_long_arrays"]

#: bytes of an array; after it was freed, up to twice as many free bytes stay in the process
_LONG: Final = 16 << 20


@cache
def expect_long_arrays() -> None:
    """Have the C library treat memory as if an array of 16 MiB had been freed before.

    glibc gives arrays above a threshold pages of their own, and what is free at the end of its heap
    beyond another threshold it gives back; it raises both as longer arrays are freed, from 128 KiB.
    So a step that needs some arrays of a megabyte may get new pages for them each time, which the
    system has to clear, while the same step keeps them if the process has ever had a longer array.
    The array is never written, so it takes no memory, and 20 us once. Where the thresholds are set
    by ``MALLOC_TRIM_THRESHOLD_`` and the like, or the C library is another one, nothing changes.
    """
    np.empty(_LONG, np.uint8)
