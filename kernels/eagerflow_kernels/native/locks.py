"""The locks of native kernels, which are free in a child of a fork.

A lock that another thread holds during a fork would be held in the child for ever, so a fork takes
all locks first. It takes them in the order in which threads nest them: in another order a fork and
a compilation could deadlock.
"""

from __future__ import annotations

import os
import threading
from typing import Final

#: held while a function of NumPy is made; its maker may take both others
MAKING: Final = threading.Lock()
#: held while the pool of threads is made; its maker may compile
POOLING: Final = threading.Lock()
#: held while LLVM works, whose own locks must be free at a fork, too
COMPILING: Final = threading.Lock()

_INWARD: Final = (MAKING, POOLING, COMPILING)


def _take() -> None:
    for lock in _INWARD:
        lock.acquire()


def _release() -> None:
    for lock in reversed(_INWARD):
        lock.release()


os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_release)
