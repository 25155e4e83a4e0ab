"""Devices: their names, their backends, and the lanes of the values on them."""

from eagerflow.hardware.lanes import Lane as Lane
from eagerflow.hardware.lanes import operator_number as operator_number
from eagerflow.hardware.registry import AbstractBackend as AbstractBackend
from eagerflow.hardware.registry import CpuBackend as CpuBackend
from eagerflow.hardware.registry import Device as Device
from eagerflow.hardware.registry import MemoryStats as MemoryStats
from eagerflow.hardware.registry import NullArray as NullArray
from eagerflow.hardware.registry import NullBackend as NullBackend
from eagerflow.hardware.registry import as_device as as_device
from eagerflow.hardware.registry import devices as devices
from eagerflow.hardware.registry import forget_kernel as forget_kernel
from eagerflow.hardware.registry import memory as memory
from eagerflow.hardware.registry import register_backend as register_backend
from eagerflow.hardware.registry import release as release
from eagerflow.hardware.scopes import DeviceScope as DeviceScope
from eagerflow.hardware.scopes import beside as beside
from eagerflow.hardware.scopes import colocate as colocate
from eagerflow.hardware.scopes import current_device as current_device
from eagerflow.hardware.scopes import current_device_scope as current_device_scope
from eagerflow.hardware.scopes import device as device
from eagerflow.hardware.scopes import home_of as home_of
