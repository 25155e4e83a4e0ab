"""An asynchronous kind of device, for tests of eagerflow and of packages built on it."""

from eagerflow_kernels.asynchronous.arrays import DeviceArray as DeviceArray
from eagerflow_kernels.asynchronous.backend import AsyncBackend as AsyncBackend
