"""The memory of arrays that a step frees is there for the next step, without new pages."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

_ON_GLIBC = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
    reason="the thresholds are those of glibc",
)
#: prints the page faults of a step with arrays of 3 MB, in a process of its own, and the memory
#: that the process has at most
_PROGRAM = """
import resource
import numpy as np
import eagerflow as ef

{made}
def fill():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(3_000_000, np.uint8) for _ in range(4)]
    del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(3):
    fill()
print(min(fill() for _ in range(3)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin)
"""
_TRACED = "ef.trace(ef.exp)(ef.ones(2))"


def _told(made: str, **options: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(made=made)],
        capture_output=True, text=True, timeout=120, check=True, env={**os.environ, **options},
    )  # fmt: skip
    faults, kilobytes = map(int, done.stdout.split())
    return faults, kilobytes


@_ON_GLIBC
def test_steps_get_no_new_pages() -> None:
    faults, kilobytes = _told(_TRACED)
    assert faults < 300  # the four arrays have 2,900 pages
    assert kilobytes < 16_000  # the array of 16 MiB was not written


@_ON_GLIBC
def test_thresholds_of_the_user_stay_in_force() -> None:
    faults, _ = _told(_TRACED, MALLOC_TRIM_THRESHOLD_="100000", MALLOC_MMAP_THRESHOLD_="100000")
    assert faults > 2_000
