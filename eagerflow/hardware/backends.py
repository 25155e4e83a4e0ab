"""What holds the arrays of one kind of device: an `AbstractBackend`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from eagerflow import settings
from eagerflow.errors import DeviceError

if TYPE_CHECKING:
    from eagerflow.hardware.registry import Device

__all__ = ["AbstractBackend", "CpuBackend", "MemoryStats", "NullArray", "NullBackend"]


@final
@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Memory of a device in bytes; None where the device cannot tell.

    Attributes:
        in_use: held by living values (on CPU: resident memory of this process).
        reserved: held by the allocator.
        limit: what eagerflow may use at most.
        total: what the device has.
    """

    in_use: int | None
    reserved: int | None
    limit: int | None
    total: int | None


@final
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NullArray:
    """An array of a null device: a dtype and a shape, no data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


class AbstractBackend(ABC):
    """What one kind of device can do: hold arrays and run kernels on them.

    Attributes:
        kind: the kind's name, as in ``kind:0``.
        xp: the array namespace that portable kernels get; None if there is none.
        array_type: the class of its arrays.
        holds_bytes: whether its arrays can be of dtype bytes, which are objects of Python.
    """

    kind: str
    xp: Any
    array_type: type[Any]
    holds_bytes: bool = False

    @abstractmethod
    def count(self) -> int:
        """How many devices of this kind there are now."""

    @abstractmethod
    def from_host(self, array: np.ndarray[Any, Any], device: Device) -> Any:
        """A copy of a NumPy array on ``device``."""

    @abstractmethod
    def to_host(self, data: Any, device: Device) -> np.ndarray[Any, Any]:
        """The array as a NumPy array; without a copy where the memory is the same."""

    @abstractmethod
    def memory(self, device: Device) -> MemoryStats:
        """Memory statistics of ``device``."""

    @abstractmethod
    def release(self, device: Device) -> None:
        """Give memory that is reserved but not used back to the system."""


@final
class CpuBackend(AbstractBackend):
    """NumPy arrays in the memory of this process; every ``cpu:n`` is virtual."""

    kind = "cpu"
    xp = np
    array_type = np.ndarray
    holds_bytes = True

    def count(self) -> int:
        return settings.current().cpu_devices

    def from_host(self, array: np.ndarray[Any, Any], device: Device) -> np.ndarray[Any, Any]:
        return array.copy()

    def to_host(self, data: np.ndarray[Any, Any], device: Device) -> np.ndarray[Any, Any]:
        return data

    def memory(self, device: Device) -> MemoryStats:
        resident, total = None, None
        try:
            with open("/proc/self/statm") as statm:
                resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
            with open("/proc/meminfo") as meminfo:
                total = int(meminfo.readline().split()[1]) * 1024
        except OSError:  # not Linux
            pass
        return MemoryStats(resident, resident, None, total)

    def release(self, device: Device) -> None:
        """Nothing is reserved: NumPy frees at once."""


@final
class NullBackend(AbstractBackend):
    """Devices that know types but hold no data, for planning without the machines."""

    kind = "null"
    xp = None
    array_type = NullArray
    holds_bytes = True

    def count(self) -> int:
        return 1_000_000

    def from_host(self, array: np.ndarray[Any, Any], device: Device) -> NullArray:
        return NullArray(array.dtype, array.shape)

    def to_host(self, data: Any, device: Device) -> np.ndarray[Any, Any]:
        raise DeviceError(
            f"a tensor on {device} has no values", hint="null devices know types only"
        )

    def memory(self, device: Device) -> MemoryStats:
        return MemoryStats(0, 0, None, None)

    def release(self, device: Device) -> None:
        """Nothing to give back."""
