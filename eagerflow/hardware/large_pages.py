"""Large pages for the objects of this process.

The processor finds a page by a small table, which is emptied whenever another process runs. Where
many processes share a few processors, each begins with an empty one many times in a second, and its
objects lie in thousands of pages of 4 KiB; in pages of 2 MiB they are a dozen.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: bytes of a large page
_LARGE: Final = 2 << 20
#: <asm-generic/mman-common.h>; Linux has it since 6.1
_MADV_COLLAPSE: Final = 25
#: the size of pages other than 4 KiB is not known here
_PAGE: Final = 4096
_MAPS: Final = Path("/proc/self/maps")
#: the memory of the C library and of Python, which is written and belongs to no file
_OWN: Final = re.compile(r"(\w+)-(\w+) rw.p 00000000 00:00 0 +(?:\[heap\])?\n")

_libc: Final = ctypes.CDLL(None)


def use_large_pages() -> int:
    """Move the objects made so far into large pages; gives the number of these.

    The system does so only with ranges of which it finds the pages in memory, and not where an
    administrator has forbidden it. Where it cannot, nothing changes. It is for processes of
    eagerflow's own, once they have loaded their modules: later memory stays as it is.
    """
    try:
        maps = _MAPS.read_text()
        advise = _libc.madvise
    except (OSError, AttributeError):  # another system
        return 0
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return sum(advise(start, _LARGE, _MADV_COLLAPSE) == 0 for start in _whole(maps))


def _whole(maps: str) -> Iterator[int]:
    """The addresses of large pages that lie in one range of memory."""
    for low, high in _OWN.findall(maps):
        first = -(-int(low, 16) // _LARGE) * _LARGE
        yield from range(first, int(high, 16) - _LARGE + 1, _LARGE)
