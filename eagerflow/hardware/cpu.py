"""The CPU backend: the device contract for NumPy arrays, mostly without any work of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, final

import numpy as np

from eagerflow import settings
from eagerflow.hardware.contract import HostArray, KernelCall, MemoryStats, Ready


@final
class CpuBackend:
    """NumPy arrays in the memory of this process; every ``cpu:n`` is virtual.

    They share that memory, so nothing is copied between them, and work is done when it is issued.
    """

    kind = "cpu"
    array_type = np.ndarray
    holds_bytes = True
    holds_data = True

    def count(self) -> int:
        """The number set by ``ef.config(cpu_devices=n)``."""
        return settings.current().cpu_devices

    def namespace(self, index: int) -> Any:
        """NumPy."""
        return np

    def launcher(self, call: KernelCall, index: int) -> Callable[..., Any]:
        """The kernel itself."""
        return call.kernel(np, np.ndarray)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], index: int) -> HostArray:
        """An array whose elements are not set."""
        return np.empty(shape, dtype)

    def copy_in(self, array: HostArray, index: int, *, borrowed: bool) -> HostArray:
        """The array itself; a copy if it is ``borrowed``."""
        return array.copy() if borrowed else array

    def copy_out(self, data: HostArray, index: int) -> HostArray:
        """The array itself."""
        return data

    def copy_to_peer(self, data: HostArray, index: int, peer: int) -> HostArray:
        """The array itself."""
        return data

    def ready(self, data: HostArray) -> bool:
        """True: work is done when it is issued."""
        return True

    def when_ready(self, data: HostArray, done: Ready) -> None:
        """Call ``done`` at once."""
        done(None)

    def synchronize(self, index: int) -> None:
        """Do nothing, as there is nothing to wait for."""

    def memory(self, index: int) -> MemoryStats:
        """The memory of this process, and that of the machine."""
        resident, total = None, None
        try:
            with open("/proc/self/statm") as statm:
                resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
            with open("/proc/meminfo") as meminfo:
                total = int(meminfo.readline().split()[1]) * 1024
        except OSError:  # not Linux
            pass
        return MemoryStats(resident, resident, None, total)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        """Refuse, as NumPy takes memory from the system, where it is not counted.

        Raises:
            ValueError: always.
        """
        raise ValueError("use the limits of the system, such as ulimit -v")

    def held(self, index: int) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """Nothing: NumPy keeps no list of its arrays."""
        return []

    def release(self, index: int) -> None:
        """Do nothing, as nothing is reserved: NumPy frees at once."""
