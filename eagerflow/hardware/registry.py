"""The registry of devices and backends. For the current device see `hardware/device_scopes.py`.

A device has a *backend*, one per kind, that holds data on it (`eagerflow.hardware.contract`). The
backends of eagerflow are loaded by name when one of their devices is requested; third parties add
kinds with `register_backend` or by the entry point ``eagerflow.devices``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from importlib import import_module
from types import CodeType
from typing import Any, Final, cast, final
from weakref import WeakSet

import numpy as np

from eagerflow import plugins
from eagerflow.errors import DeviceError
from eagerflow.hardware.contract import MEMBERS, Backend
from eagerflow.hardware.device_names import DeviceName, parse
from eagerflow.hardware.lanes import Lane, known_operator
from eagerflow.source import position
from eagerflow.types import BYTES, DTYPES, LIST


@final
class Device:
    """A device. There is one object per name, so ``is`` and ``==`` are the same.

    Attributes:
        name: the whole name, such as ``"cpu:0"`` or ``"worker:1/gpu:0"``.
        kind: the kind, such as ``"cpu"``.
        index: its number among its kind.
        task: the task, such as ``"worker:1"``, if it is on a task server; else None.
        backend: the backend that holds its arrays.
        lanes: its lanes by dtype.
        holds_data: whether there are values on it; null devices know types only.
        is_ready_at_once: whether a value is ready when its op has returned, as arrays of NumPy are,
            and arrays without values. A value of a task counts as ready, since the task orders
            its reads after its computation.
        xp: the array namespace for its arrays; None without values.
        put: the code and the offset of the line that put tensors there last: a move, a block of
            `eagerflow.device`, or the creation of a tensor; None if none did. For the first CPU,
            where tensors are made by default, only a block counts.
    """

    __slots__ = ("__weakref__", "backend", "holds_data", "index", "is_ready_at_once", "kind",
                 "lanes", "name", "put", "task", "xp")  # fmt: skip

    def __init__(
        self, name: str, kind: str, index: int, backend: Backend, task: str | None = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.index = index
        self.task = task
        self.backend = backend
        self.holds_data = backend.holds_data
        self.is_ready_at_once = (
            task is not None or backend.array_type is np.ndarray or not backend.holds_data
        )
        self.xp = backend.namespace(index)
        self.put: tuple[CodeType, int] | None = None
        self.lanes: dict[Any, Lane] = {}
        for dtype in (*DTYPES.values(), LIST, BYTES):
            self.lanes[dtype.dtype] = self.lanes[dtype] = Lane(dtype, self)
        for lane in self.lanes.values():
            lane.truth = self.lanes[DTYPES["bool"]]
            lane.twin.truth = lane.truth.twin
        _known.add(self)

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

_lock: Final = threading.RLock()  # a backend may register kernels while its devices are made
_backends: dict[str, Backend] = {}
_devices: dict[str, Device] = {}
#: all devices, including replaced ones that are still in use
_known: Final[WeakSet[Device]] = WeakSet()
_when_replaced: Final[list[Callable[[Collection[Device]], object]]] = []
_plugins_loaded = False
#: hints for kinds that do not exist
_HINTS: Final = {
    "cuda": "a GPU is called 'gpu:0' here",
    "gpu": "it takes a GPU of NVIDIA with its driver, and pip install 'eagerflow[gpu]'",
    "mps": "there is no backend for it",
    **dict.fromkeys(
        ("ps", "task", "worker"), "tasks are devices of a cluster: ef.cluster.local({'worker': 1})"
    ),
}
#: the backends that come with eagerflow, by kind
_BY_NAME: Final = {
    "async": "eagerflow_kernels.asynchronous:AsyncBackend",
    "cpu": "eagerflow.hardware.cpu:CpuBackend",
    "gpu": "eagerflow_kernels.cuda:CudaBackend",
    "null": "eagerflow.hardware.null:NullBackend",
}
#: kinds among them of which this machine has no device
_absent: Final[set[str]] = set()
#: kinds that stand for absent machines, and the number of devices that a list of the kind shows
_STAND_INS: Final = {"async": 2, "null": 8}


def register_backend(backend: Backend) -> None:
    """Add a kind of device, or replace one of that name: its devices are made anew.

    Tensors on the old devices stay there and can be used; ``x.to(name)`` brings them to the new
    device. Traced functions that use such a device are traced anew.

    Args:
        backend: any object with the members of `eagerflow.hardware.Backend`.

    Raises:
        DeviceError: members of the contract are missing.

    >>> ef.hardware.register_backend(ef.hardware.CpuBackend())
    """
    _check(backend)
    with _lock:
        old = _backends.get(backend.kind)
        if old is not None and _is_same(old, backend):
            return
        _backends[backend.kind] = backend
        replaced = [d for d in _devices.values() if d.kind == backend.kind and d.task is None]
        for one in replaced:
            del _devices[one.name]
    if replaced:
        for tell in _when_replaced:
            tell(replaced)


def known_kinds() -> frozenset[str]:
    """The kinds of devices of which there are backends, whether the machine has such or not."""
    return frozenset({*_backends, *_BY_NAME})


def is_known_kind(kind: str) -> bool:
    """Whether there is a backend of that kind, also in a package that is not loaded yet."""
    return kind in known_kinds() or _backend(kind) is not None


def on_replaced(tell: Callable[[Collection[Device]], object]) -> None:
    """Call ``tell`` with the devices replaced, each time that a new backend replaces some."""
    _when_replaced.append(tell)


def _is_same(a: Backend, b: Backend) -> bool:
    """Whether two backends behave alike: one object, or stateless objects of one class."""
    return a is b or (type(a) is type(b) and not getattr(a, "__dict__", a))


def _check(backend: Any) -> None:
    missing = [name for name in MEMBERS if not hasattr(backend, name)]
    if isinstance(backend, type):
        missing = [f"an object of it: register_backend({backend.__name__}())"]
    hint = f"it lacks {', '.join(missing)}" if missing else None
    kind = getattr(backend, "kind", None)
    if hint or not isinstance(kind, str) or not re.fullmatch(r"[a-z]\w*", kind):
        raise DeviceError(
            "the object is not a backend",
            given=repr(backend),
            expected="an object with the members of ef.hardware.Backend, and a kind such as 'tpu'",
            hint=hint,
        )


def _backend(kind: str) -> Backend | None:
    global _plugins_loaded
    backend = _backends.get(kind)
    if backend is None and kind in _BY_NAME:
        if kind in _absent:
            return None
        module, _, name = _BY_NAME[kind].partition(":")
        made = cast("Backend", getattr(import_module(module), name)())
        if kind == "gpu" and not made.count():
            _absent.add(kind)
            return None
        with _lock:
            _backends.setdefault(kind, made)
    elif backend is None and not _plugins_loaded:
        _plugins_loaded = True
        for point in plugins.entry_points("eagerflow.devices"):
            try:
                register_backend(point.load()())
            except Exception as error:
                raise DeviceError(
                    f"the plug-in {point.name} ({point.value}) failed: {error!r}"
                ) from error
    return _backends.get(kind)


def _none_is_open(name: object) -> Device | None:
    """The default that `scopes_by` replaces."""
    return None


_of_scope: Callable[[object], Device | None] = _none_is_open
#: the device scope that was opened last in this thread, None if none was
latest_scope: Final[ContextVar[Any]] = ContextVar("device scope", default=None)


def scopes_by(find: Callable[[object], Device | None]) -> None:
    """Set the function of a higher module that returns the device of a scope object."""
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
    if name is None:
        return current_device()
    if not isinstance(name, str):
        device = _of_scope(name)
        if device is not None:
            return device
    candidate = _devices.get(name) if isinstance(name, str) else None
    return existing(find(_one_name(name)) if candidate is None else candidate)


def _one_name(text: object) -> DeviceName:
    """The parts of the name of a single device.

    Raises:
        DeviceError: it is no device name, or a pattern of several devices.
    """
    name = known_name(text)
    if name.is_pattern:
        raise DeviceError(
            f"{text!r} may be any of several devices",
            expected="one of them, such as 'cpu:0'",
            hint=f"a block of ef.device({text!r}) leaves the choice to operands",
        )
    return name


def current_device() -> Device:
    """The device on which new tensors are made."""
    latest = latest_scope.get()
    if latest is None:
        return _devices.get("cpu:0") or _local("cpu", 0)
    device: Device | None = latest.certain.device
    if device is not None:  # the usual case in a scope
        return device
    one = latest.innermost()
    return first_cpu() if one is None or one.scope is None else one.scope.device


def first_cpu() -> Device:
    """``cpu:0``, which always exists."""
    return _devices.get("cpu:0") or _local("cpu", 0)


def note_put(device: Device) -> None:
    """Note the user's line that puts a tensor on ``device``, for errors of mixed operands."""
    if device is not _devices.get("cpu:0"):
        code, offset = position(2)
        device.put = None if code is None else (code, offset)


def existing(candidate: Device) -> Device:
    """The same device, if it exists.

    Raises:
        DeviceError: its index exceeds the number of devices of its kind.
    """
    if candidate.name == "cpu:0" or candidate.task is not None:  # the first CPU always exists
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
    """The parts of a name; a kind that exists only as a job is read as the job: ``"worker:1"``.

    Raises:
        DeviceError: it is no device name.
    """
    name = parse(text)
    if name.job is None and name.kind is not None and any(
        device.task is not None and device.task.partition(":")[0] == name.kind
        for device in list(_devices.values())
    ) and _backend(name.kind) is None:  # fmt: skip
        return DeviceName(name.kind, name.index, None, None)
    return name


def _is_like(kind: str, known: str) -> bool:
    """Whether a kind is a misspelling of another: letters swapped, added or missing."""
    if sorted(kind) == sorted(known) or kind.startswith(known) or known.startswith(kind):
        return True
    shorter, longer = sorted((kind, known), key=len)
    letters = iter(longer)
    return len(longer) - len(shorter) == 1 and all(letter in letters for letter in shorter)


def find(name: DeviceName) -> Device:
    """The device of that name, created if necessary; for a pattern the first device.

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
        hint = _HINTS.get(kind)
        if hint is None and (match := re.fullmatch(r"([a-z]+?)(\d+)", kind)):
            hint = f"did you mean '{match[1]}:{match[2]}'?"
        jobs = {d.task.partition(":")[0] for d in _devices.values() if d.task is not None}
        kinds = sorted({*_backends, *_BY_NAME} - {"gpu"} | {*_backends, *jobs})
        if hint is None and (near := [known for known in kinds if _is_like(kind, known)]):
            hint = f"did you mean '{near[0]}:{index}'?"
        raise DeviceError(
            f"there is no device of kind {kind!r}", expected=", ".join(kinds), hint=hint
        )
    full = f"{kind}:{index}"
    with _lock:
        entry = _devices.get(full)
        if entry is None:
            entry = _devices[full] = Device(full, kind, index, backend)
    return entry


def _of_task(name: DeviceName, full: str) -> Device:
    """The device of a task; for a pattern the first device."""
    entry = _devices.get(full)
    if entry is None and name.is_pattern:
        fits = [d for d in _devices.values() if name.takes(d.task, d.kind, d.index)]
        entry = min(fits, key=lambda d: (str(d.task), d.kind, d.index), default=None)
    if entry is None:
        raise _no_device_of_task(str(name) if name.is_pattern else full, full.partition("/")[0])
    return entry


def _no_device_of_task(wanted: str, task: str) -> DeviceError:
    """The error about a device that a task lacks, or a task that is not there."""
    there = [d for d in _devices.values() if d.task is not None]
    text = f"there is no device {wanted}"
    if of_task := sorted(d.name for d in there if d.task == task):
        hint = None
        if re.fullmatch(r"cpu:\d+", wanted.rpartition("/")[2]):
            hint = (
                "ef.cluster.local(jobs, cpu_devices=n) and eagerflow serve --cpu-devices n "
                "give each task n virtual CPUs"
            )
        return DeviceError(text, given=f"{task} has {', '.join(of_task)}", hint=hint)
    tasks = sorted({str(d.task) for d in there})
    return DeviceError(text, given=f"tasks {', '.join(tasks)}" if tasks else "no task is connected")


def _local(kind: str, index: int) -> Device:
    return find(DeviceName(None, None, kind, index))


def add_task(
    task: str, kinds: Sequence[tuple[str, int]], backends: Sequence[Backend]
) -> list[Device]:
    """Add the devices of a task server.

    Args:
        task: the task, such as ``"ps:0"``.
        kinds: the kind and the number of each of its devices.
        backends: the backend that reaches each of them.

    Raises:
        DeviceError: there already is a task of that name.
    """
    with _lock:
        if any(device.task == task for device in _devices.values()):
            raise DeviceError(
                f"there is a task {task} already", hint="close the cluster that has it"
            )
        made = [
            Device(f"{task}/{kind}:{i}", kind, i, backend, task)
            for (kind, i), backend in zip(kinds, backends, strict=True)
        ]
        _devices.update({device.name: device for device in made})
    return made


def remove_task(task: str) -> None:
    """Remove the devices of a task server. Traced functions that use one are traced anew."""
    with _lock:
        gone = [device for device in _devices.values() if device.task == task]
        for device in gone:
            del _devices[device.name]
    if gone:
        for tell in _when_replaced:
            tell(gone)


def name_device(name: str, device: Device) -> None:
    """Give a device of this process a second name, by which other processes know it."""
    with _lock:
        _devices[name] = device


def devices(kind: str | None = None) -> list[Device]:
    """The devices of this process, CPUs first.

    Args:
        kind: only devices of this kind. Devices that stand for absent machines, such as null
            devices, are listed only if requested by kind (eight of them).

    >>> ef.devices()
    [Device('cpu:0')]
    """
    if kind is not None and _backend(kind) is None:
        _local(kind, 0)  # raises
    _backend("")  # loads the entry points
    _backend("gpu")  # is there only if there are some
    others = [k for k in _backends if k != "cpu" and k not in _STAND_INS]
    kinds = ["cpu", *others] if kind is None else [kind]
    _backend("cpu")
    counts = {k: _STAND_INS.get(k) or _backends[k].count() for k in kinds}
    return [_local(k, i) for k, count in counts.items() for i in range(count)]


def gpus() -> list[Device]:
    """The GPUs of this process; an empty list without a GPU or without CuPy."""
    return [] if _backend("gpu") is None else devices("gpu")


def forget_kernel(name: str) -> None:
    """Drop the kernels that lanes cache for the operator ``name``: it was registered anew."""
    number = known_operator(name)
    if number is None:
        return
    with _lock:
        known = list(_known)
    for device in known:
        for lane in device.lanes.values():
            lane.kernels[number] = None
