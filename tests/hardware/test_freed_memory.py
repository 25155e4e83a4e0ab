"""Freed memory is used again without new pages, and given back when the process is idle."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from time import process_time

import pytest

from eagerflow.hardware import freed_memory
from eagerflow.hardware.freed_memory import LOOK_SECONDS, FreedMemory

has_options = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no such options"
)
#: fills 16 arrays of 6 MB at a time, in a process of its own: the options hold until its end
_PROGRAM = """
import resource
import numpy as np
from eagerflow.hardware.freed_memory import keep_freed_memory

def fill():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.empty(6_000_000, np.uint8) for _ in range(16)]
    for array in arrays:
        array[:] = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

kept = keep_freed_memory()
fill()
again = max(fill(), fill())
kept.look(0.0)
full = resident()
kept.look(1e9)
print(again, full - resident())
"""


@has_options
@pytest.mark.skipif(sys.platform != "linux", reason="reads the pages in use from /proc")
def test_freed_memory_is_used_again_and_given_back() -> None:
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    faults, given_back = map(int, told.stdout.split())
    assert faults < 1_000  # 16 arrays have 23,000 pages
    assert given_back > 80_000_000


class FakeLibrary:
    """Counts how often memory is given back."""

    count = 0

    def malloc_trim(self, pad: int) -> int:
        self.count += 1
        return 1


def work(seconds: float) -> None:
    until = process_time() + seconds
    while process_time() < until:
        pass


def test_memory_is_given_back_once_when_the_process_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = FakeLibrary()
    monkeypatch.setattr(freed_memory, "_libc", library)
    freed, now = FreedMemory(), 100.0
    assert freed.look(now) == now + LOOK_SECONDS
    for _ in range(3):
        work(0.02)
        now += 1.0
        freed.look(now)
    assert library.count == 0
    for _ in range(3):
        now += 1e6
        freed.look(now)
    assert library.count == 1
    work(0.02)
    freed.look(now + 1.0)
    freed.look(now + 1e6)
    assert library.count == 2


def test_another_c_library_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_libc", object())
    assert freed_memory.keep_freed_memory() is None
