"""Devices: their names, their backends, and the lanes of the values on them."""

from eagerflow.hardware.contract import Backend as Backend
from eagerflow.hardware.contract import KernelCall as KernelCall
from eagerflow.hardware.contract import MemoryStats as MemoryStats
from eagerflow.hardware.copies import copied as copied
from eagerflow.hardware.copies import from_host as from_host
from eagerflow.hardware.copies import share_memory as share_memory
from eagerflow.hardware.copies import to_host as to_host
from eagerflow.hardware.cpu import CpuBackend as CpuBackend
from eagerflow.hardware.device_blocks import colocate as colocate
from eagerflow.hardware.device_blocks import device as device
from eagerflow.hardware.device_scopes import DeviceScope as DeviceScope
from eagerflow.hardware.device_scopes import beside as beside
from eagerflow.hardware.device_scopes import current_device_scope as current_device_scope
from eagerflow.hardware.device_scopes import home_of as home_of
from eagerflow.hardware.lanes import Lane as Lane
from eagerflow.hardware.lanes import operator_number as operator_number
from eagerflow.hardware.memory import limit_memory as limit_memory
from eagerflow.hardware.memory import memory as memory
from eagerflow.hardware.memory import out_of_memory as out_of_memory
from eagerflow.hardware.memory import release as release
from eagerflow.hardware.memory import synchronize as synchronize
from eagerflow.hardware.memory import wait_for_data as wait_for_data
from eagerflow.hardware.null import NullArray as NullArray
from eagerflow.hardware.null import NullBackend as NullBackend
from eagerflow.hardware.registry import Device as Device
from eagerflow.hardware.registry import as_device as as_device
from eagerflow.hardware.registry import current_device as current_device
from eagerflow.hardware.registry import devices as devices
from eagerflow.hardware.registry import forget_kernel as forget_kernel
from eagerflow.hardware.registry import is_known_kind as is_known_kind
from eagerflow.hardware.registry import known_kinds as known_kinds
from eagerflow.hardware.registry import note_put as note_put
from eagerflow.hardware.registry import on_replaced as on_replaced
from eagerflow.hardware.registry import register_backend as register_backend
from eagerflow.unknown_names import module_dir as _module_dir

__dir__ = _module_dir(globals())
