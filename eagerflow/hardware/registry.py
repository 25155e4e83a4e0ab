"""Devices: their names and their backends. Which one is current: `hardware/scopes.py`.

A device has a *backend*, one per kind, that holds data on it; third parties add kinds with
`register_backend` or by the entry point ``eagerflow.devices``.
"""

from __future__ import annotations

import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from eagerflow import plugins, settings
from eagerflow.errors import DeviceError
from eagerflow.hardware.lanes import Lane, known_operator
from eagerflow.hardware.names import DeviceName, parse
from eagerflow.types import BYTES, DTYPES, LIST


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


@final
class Device:
    """One device. There is one object per name, so ``is`` and ``==`` are the same.

    Attributes:
        name: the whole name, such as ``"cpu:0"`` or ``"worker:1/gpu:0"``.
        kind: such as ``"cpu"``.
        index: its number among its kind.
        task: ``"worker:1"`` on a task server, else None.
        backend: what holds its arrays.
        lanes: its lanes by dtype.
    """

    __slots__ = ("backend", "index", "kind", "lanes", "name", "task")

    def __init__(self, name: str, kind: str, index: int, backend: AbstractBackend) -> None:
        self.name = name
        self.kind = kind
        self.index = index
        self.task: str | None = None
        self.backend = backend
        self.lanes: dict[Any, Lane] = {}
        for dtype in (*DTYPES.values(), LIST, BYTES):
            self.lanes[dtype.dtype] = self.lanes[dtype] = Lane(dtype, self)
        for lane in self.lanes.values():
            lane.truth = self.lanes[DTYPES["bool"]]
            lane.twin.truth = lane.truth.twin

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_device, (self.name,))


# --- the registry ---------------------------------------------------------------------------

_lock: Final = threading.Lock()
_backends: dict[str, AbstractBackend] = {}
_devices: dict[str, Device] = {}
_plugins_loaded = False


def register_backend(backend: AbstractBackend) -> None:
    """Add a kind of device, or replace one of that name (its devices are made anew).

    >>> ef.hardware.register_backend(ef.hardware.CpuBackend())
    """
    if not isinstance(backend, AbstractBackend) or not re.fullmatch(r"[a-z]\w*", backend.kind):
        raise DeviceError(
            "this is not a backend",
            given=repr(backend),
            expected="an instance of a subclass of AbstractBackend, with a kind such as 'tpu'",
        )
    with _lock:
        old = _backends.get(backend.kind)
        _backends[backend.kind] = backend
        if old is not None and type(old) is not type(backend):
            for name in [n for n, d in _devices.items() if d.kind == backend.kind]:
                del _devices[name]


def _backend(kind: str) -> AbstractBackend | None:
    global _plugins_loaded
    backend = _backends.get(kind)
    if backend is None and not _plugins_loaded:
        _plugins_loaded = True
        for point in plugins.entry_points("eagerflow.devices"):
            try:
                register_backend(point.load()())
            except Exception as error:
                raise DeviceError(
                    f"the plug-in {point.name} ({point.value}) failed: {error!r}"
                ) from error
        backend = _backends.get(kind)
    return backend


def _none_is_open(name: object) -> Device | None:
    """What `scopes_by` replaces."""
    return None


_of_scope: Callable[[object], Device | None] = _none_is_open


def scopes_by(find: Callable[[object], Device | None]) -> None:
    """Let a function from above say which device None and scopes stand for."""
    global _of_scope
    _of_scope = find


def as_device(name: Any) -> Device:
    """The device of that name; a kind alone means its first one, None the current device.

    Args:
        name: ``"cpu:0"``, ``"cpu"``, ``"/device:CPU:0"``, a `Device`, a scope such as
            ``ef.device("cpu:0")``, or None.

    Raises:
        DeviceError: no such device.

    >>> ef.hardware.as_device("/device:CPU:0")
    Device('cpu:0')
    """
    if type(name) is Device:
        return name
    if not isinstance(name, str):
        found = _of_scope(name)
        if found is not None:
            return found
    candidate = _devices.get(name) if isinstance(name, str) else None
    return existing(find(known_name(name)) if candidate is None else candidate)


def first_cpu() -> Device:
    """``cpu:0``, which there always is."""
    return _devices.get("cpu:0") or _local("cpu", 0)


def existing(candidate: Device) -> Device:
    """The same device.

    Raises:
        DeviceError: there are not so many of its kind.
    """
    if candidate.name == "cpu:0" or candidate.task is not None:  # there always is the first
        return candidate
    count = candidate.backend.count()
    if candidate.index >= count:
        raise DeviceError(
            f"there is no device {candidate.name}",
            given=f"{count} of kind {candidate.kind}",
            hint="ef.config(cpu_devices=n) makes n virtual CPUs"
            if candidate.kind == "cpu"
            else None,
        )
    return candidate


def known_name(text: object) -> DeviceName:
    """The parts of a name; what is no kind of device here, but a job, is one: ``"worker:1"``.

    Raises:
        DeviceError: it is no name.
    """
    name = parse(text)
    if name.job is None and name.kind is not None and any(
        device.task is not None and device.task.partition(":")[0] == name.kind
        for device in list(_devices.values())
    ) and _backend(name.kind) is None:  # fmt: skip
        return DeviceName(name.kind, name.index, None, None)
    return name


def find(name: DeviceName) -> Device:
    """The device of that name, made if there is none yet; of a pattern the first one.

    Raises:
        DeviceError: there is no such device.
    """
    kind, index = name.kind or "cpu", max(name.index or 0, 0)
    if name.job is None and name.task is not None:
        raise DeviceError(f"task {name.task} of which job?", expected="job:task/kind:index")
    if name.job is not None:
        return _of_task(name, f"{name.job}:{max(name.task or 0, 0)}/{kind}:{index}")
    backend = _backend(kind)
    if backend is None:
        hint = "pip install 'eagerflow[gpu]'" if kind in ("gpu", "cuda") else None
        kinds = ", ".join(sorted(_backends))
        raise DeviceError(f"there is no device of kind {kind!r}", expected=kinds, hint=hint)
    full = f"{kind}:{index}"
    with _lock:
        entry = _devices.get(full)
        if entry is None:
            entry = _devices[full] = Device(full, kind, index, backend)
    return entry


def _of_task(name: DeviceName, full: str) -> Device:
    """The device of a task; of those that a pattern names the first."""
    entry = _devices.get(full)
    if entry is None and name.is_pattern:
        fits = [d for d in _devices.values() if name.takes(d.task, d.kind, d.index)]
        entry = min(fits, key=lambda d: (str(d.task), d.kind, d.index), default=None)
    if entry is None:
        tasks = sorted({d.task for d in _devices.values() if d.task is not None})
        given = f"tasks {', '.join(tasks)}" if tasks else "no task is connected"
        wanted = str(name) if name.is_pattern else full
        raise DeviceError(f"there is no device {wanted}", given=given)
    return entry


def _local(kind: str, index: int) -> Device:
    return find(DeviceName(None, None, kind, index))


def devices(kind: str | None = None) -> list[Device]:
    """The devices of this process, CPUs first.

    Args:
        kind: only devices of this kind. Null devices are listed only if asked for (eight of them).

    >>> ef.devices()
    [Device('cpu:0')]
    """
    if kind is not None and _backend(kind) is None:
        _local(kind, 0)  # raises
    _backend("")  # loads the entry points
    kinds = [k for k in _backends if k != "null"] if kind is None else [kind]
    counts = {k: 8 if k == "null" else _backends[k].count() for k in kinds}
    return [_local(k, i) for k, count in counts.items() for i in range(count)]


# --- memory ---------------------------------------------------------------------------------


def memory(device: Device | str | None = None) -> MemoryStats:
    """Memory statistics of a device, in bytes.

    >>> ef.memory("cpu:0").in_use > 0
    True
    """
    target = as_device(device)
    return target.backend.memory(target)


def release(device: Device | str | None = None) -> None:
    """Give memory that is reserved but not used back to the system.

    >>> ef.release("cpu:0")
    """
    target = as_device(device)
    target.backend.release(target)


def forget_kernel(name: str) -> None:
    """Drop what lanes remember for the operator ``name``: its kernel was registered anew."""
    number = known_operator(name)
    if number is not None:
        for entry in list(_devices.values()):
            for lane in entry.lanes.values():
                lane.kernels[number] = None


register_backend(CpuBackend())
register_backend(NullBackend())
