"""Copies between devices and the memory of the host.

A value of a device is an array of the device's class, or one of NumPy: an op may say that some of
its outputs are in the memory of the host, whatever the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow.errors import DeviceError, EagerflowError
from eagerflow.hardware.contract import HostArray
from eagerflow.hardware.memory import out_of_memory
from eagerflow.hardware.registry import Device


def to_host(data: Any, device: Device) -> HostArray:
    """A value of ``device`` as an array of NumPy, not copied where the host can read its memory.

    Raises:
        DeviceError: the device holds no values, or has failed to copy them.
        EagerflowError: the work that computes the value has failed.
    """
    if type(data) is np.ndarray:
        return data
    try:
        return device.backend.copy_out(data, device.index)
    except EagerflowError:
        raise
    except Exception as error:  # not of a kernel: kernels' errors are translated by then
        raise DeviceError(f"{device}: a copy has failed", given=repr(error)) from error


def from_host(array: HostArray, device: Device, *, borrowed: bool = False) -> Any:
    """A value of ``device`` with the elements of ``array``.

    Args:
        array: the elements, in the memory of the host.
        device: the device of the value.
        borrowed: whether the caller may write into ``array`` afterwards.

    Raises:
        OutOfMemoryError: the device has not enough memory.
    """
    try:
        return device.backend.copy_in(array, device.index, borrowed=borrowed)
    except MemoryError as error:
        raise out_of_memory(f"{array.dtype} of shape {array.shape}", device, error) from None


def share_memory(source: Device, target: Device) -> bool:
    """Whether `copied` gives the array itself of each array of NumPy: both devices are the CPU."""
    return source.backend is target.backend and source.backend.kind == "cpu"


def copied(data: Any, source: Device, target: Device) -> Any:
    """A value of ``source`` as one of ``target``; the array itself if both can read it.

    Raises:
        DeviceError: there are no values to copy.
        MemoryError: the target has not enough memory.
        EagerflowError: the work that computes the value has failed.
    """
    backend = target.backend
    within = source.backend is backend or (source.task is not None and target.task is not None)
    if within and type(data) is backend.array_type:
        return backend.copy_to_peer(data, source.index, target.index)
    if not target.holds_data:
        return backend.allocate(data.shape, data.dtype, target.index)
    return backend.copy_in(to_host(data, source), target.index, borrowed=False)
