"""Devices: their names, their backends, and the lanes of the values on them."""

from eagerflow.hardware.lanes import Lane, operator_number
from eagerflow.hardware.registry import (
    AbstractBackend,
    CpuBackend,
    Device,
    MemoryStats,
    NullArray,
    NullBackend,
    as_device,
    current_device,
    device,
    devices,
    forget_kernel,
    memory,
    register_backend,
    release,
)

__all__ = [
    "AbstractBackend",
    "CpuBackend",
    "Device",
    "Lane",
    "MemoryStats",
    "NullArray",
    "NullBackend",
    "as_device",
    "current_device",
    "device",
    "devices",
    "forget_kernel",
    "memory",
    "operator_number",
    "register_backend",
    "release",
]
