"""Memory of devices: statistics, limits, and the error for too little of it."""

from __future__ import annotations

import threading
from typing import Any, Final

from eagerflow import settings
from eagerflow.errors import DeviceError, OutOfMemoryError
from eagerflow.hardware.contract import MemoryStats
from eagerflow.hardware.registry import Device, as_device, gpus
from eagerflow.types import TensorType
from eagerflow_kernels.lists import ListData

_SHOWN: Final = 4  # kinds of arrays in a message
_LINES: Final = 2  # for each of them
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def memory(device: Device | str | None = None) -> MemoryStats:
    """Memory statistics of a device, in bytes.

    >>> ef.memory("cpu:0").in_use > 0
    True
    """
    target = as_device(device)
    figures = target.backend.memory(target.index)
    return MemoryStats(figures.in_use, figures.reserved, figures.limit, figures.total)


def limit_memory(nbytes: int | None, device: Device | str | None = None) -> None:
    """Let a device hold no more than so many bytes from now on.

    Args:
        nbytes: the number of bytes; None for no limit.
        device: the device; by default the current one.

    Raises:
        DeviceError: devices of this kind have no limit, or the number is negative.

    >>> ef.hardware.limit_memory(1 << 20, "async:0")
    >>> ef.memory("async:0").limit
    1048576
    >>> ef.hardware.limit_memory(None, "async:0")
    """
    target = as_device(device)
    if nbytes is not None and nbytes < 0:
        raise DeviceError(f"{nbytes} bytes are not a limit", expected="None, or 0 and more")
    try:
        target.backend.limit_memory(nbytes, target.index)
    except ValueError as error:
        raise DeviceError(
            f"the memory of {target} cannot be limited", hint=str(error) or None
        ) from None


def _limit_gpus(old: settings.Settings, new: settings.Settings) -> None:
    """Apply the setting ``gpu_memory_limit`` to GPUs."""
    if old.gpu_memory_limit != new.gpu_memory_limit:
        for device in gpus():
            device.backend.limit_memory(new.gpu_memory_limit, device.index)


settings.on_change(_limit_gpus)


def release(device: Device | str | None = None) -> None:
    """Give memory that is reserved but not used back to the system.

    >>> ef.release("cpu:0")
    """
    target = as_device(device)
    target.backend.release(target.index)


def synchronize(device: Device | str | None = None) -> None:
    """Wait until a device has done all work that was issued to it.

    Raises:
        EagerflowError: some of the work failed, and the failure was not raised yet.

    >>> ef.hardware.synchronize("cpu:0")
    """
    target = as_device(device)
    target.backend.synchronize(target.index)


def wait_for_data(data: Any, device: Device) -> None:
    """Wait until a raw array is ready. A failed one counts as ready: its reader gets the error.

    Args:
        data: the array, or a list of arrays.
        device: its device.
    """
    if device.is_ready_at_once or not device.holds_data:
        return
    if type(data) is ListData:
        for _, item in data.items():
            wait_for_data(item, device)
        return
    there = threading.Event()
    work = device.backend.when_ready(data, lambda _: there.set())
    while work is not None and not there.is_set():
        work()
    there.wait()


def out_of_memory(
    what: str, device: Device, error: Exception, given: str | None = None
) -> OutOfMemoryError:
    """The error for a device without enough memory, with the bytes requested and the arrays held.

    Args:
        what: the value that was to be made, or the op.
        device: the device.
        error: the exception of its backend, or of a kernel.
        given: the inputs.
    """
    asked = getattr(error, "asked", None)
    told = f"{_bytes(asked)} more" if asked is not None else str(error)
    wrong = f"{what}: out of memory" + (f" ({told})" if told else "")
    figures = memory(device)
    parts = {"in use": figures.in_use, "limit": figures.limit, "there": figures.total}
    known = [f"{name} {_bytes(n)}" for name, n in parts.items() if n is not None]
    held = _held(device)
    return OutOfMemoryError(
        wrong,
        given=given,
        expected=f"room on {device}: {', '.join(known)}{held}" if known else None,
        hint=_hint(device, figures),
    )


def _hint(device: Device, figures: MemoryStats) -> str:
    hint = "drop tensors that are not needed (del x), or compute with less at a time"
    if figures.limit is not None:
        hint += f"; ef.hardware.limit_memory(n, '{device}') sets the limit"
    return hint


def _held(device: Device) -> str:
    """Text of the largest arrays that hold memory: types, with the lines that made them."""
    kinds: dict[str, list[str]] = {}
    for dtype, shape, line in device.backend.held(device.index):
        kinds.setdefault(str(TensorType(device.lanes[dtype].dtype, shape)), []).append(line)
    if not kinds:
        return ""
    shown = []
    for kind, lines in list(kinds.items())[:_SHOWN]:
        known = list(dict.fromkeys(line for line in lines if line))[:_LINES]
        text = f"{len(lines)} of {kind}" if len(lines) > 1 else kind
        shown.append(text + (f" made at {' and '.join(known)}" if known else ""))
    return f"; held: {', '.join(shown)}{', …' if len(kinds) > _SHOWN else ''}"


def _bytes(count: int) -> str:
    """A number of bytes in the unit that keeps it short."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
