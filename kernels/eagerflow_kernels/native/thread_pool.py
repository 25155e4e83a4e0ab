"""The pool of threads that share large calls of native kernels.

A process has one pool. Its memory is never freed, since threads and machine code point to it; its
threads are started by the first call that is large enough, never run Python, and sleep between
calls. Results do not depend on the number of threads: rows are independent.

After a fork the child has none of the threads, and begins anew.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Final, final

import numpy as np

from eagerflow_kernels.native.executable_memory import MachineCode
from eagerflow_kernels.native.llvm.thread_pool_code import CONTROL, WORKS
from eagerflow_kernels.native.locks import POOLING

#: terms times elements from which on a second thread saves more than the 50 us that it may take to
#: wake up
WORTH: Final = 4_000_000
#: the number of the system call ``futex``, by processor
_FUTEX: Final = {"x86_64": 202, "aarch64": 98}
#: the signals that workers leave to the threads of Python, as bits; signals of faults of a worker
#: itself are not blocked, for `faulthandler`
_FAULTS: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP)
_BLOCKED: Final = ((1 << 63) - 1) & ~sum(1 << (number - 1) for number in _FAULTS)


@final
class ThreadPool:
    """The pool of a process.

    Args:
        code: machine code with the function ``pool_parallel``.
        fields: offsets into the memory of the pool, by name.
        size: of the memory.
    """

    def __init__(self, code: MachineCode, fields: dict[str, int], size: int) -> None:
        self._code, self._fields = code, fields
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a child of a fork has memory of its own
        self._memory = mmap.mmap(-1, size, flags=flags)
        self.address = int(np.frombuffer(self._memory, np.uint8).ctypes.data)
        self._threads = usable_cores()
        self._set("parallel", code.address("pool_parallel"))
        self._set("least", WORTH)
        futex = _FUTEX.get(os.uname().machine, 0) if sys.platform == "linux" else 0
        if futex:
            system = ctypes.CDLL(None)
            self._set("syscall", _address(system.syscall))
            self._set("create", _address(system.pthread_create))
            self._set("futex", futex)
            self._set("sigmask", _address(system.pthread_sigmask))
            self._set("signals", _BLOCKED)
        self._works = bool(futex)
        #: the address of the function that kernels poll to learn whether they are to end
        self.poll = code.address("control_poll")
        for field, function in _functions().items():
            self._set(field, _address(function))
        self._set("clock_id", time.CLOCK_MONOTONIC)
        # workers have a control of their own
        own = fields["worker"]
        struct.pack_into("<QQ", self._memory, own + CONTROL["pool"], self.address, self.poll)
        struct.pack_into("<q", self._memory, own + CONTROL["kind"], WORKS)
        self.threads = self._threads
        os.register_at_fork(after_in_child=self._forget)
        # workers may run while Python ends and frees all reachable objects
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        _be_limited_by_threadpoolctl()

    @property
    def threads(self) -> int:
        """The most threads that work on a call, the calling thread included."""
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads = count
        self._set("helpers", count - 1 if self._works else 0)

    def limit(self, count: int | None) -> None:
        """Limit the threads of a call to a number; None for the number of cores."""
        self.threads = usable_cores() if count is None else count

    def share_from(self, least: int) -> None:
        """Set the least work, in terms times elements, of calls that are shared."""
        self._set("least", least)

    def workers(self) -> int:
        """Number of worker threads."""
        return self._get(self._fields["workers"])

    def _get(self, place: int) -> int:
        value: int = struct.unpack_from("<q", self._memory, place)[0]
        return value

    def done_by_workers(self) -> int:
        """Terms times elements that workers have computed in the shared call, if there is one."""
        if not self._get(self._fields["owner"]):
            return 0
        return self._get(self._fields["worker"] + CONTROL["done"])

    def _set(self, field: str, value: int) -> None:
        struct.pack_into("<q", self._memory, self._fields[field], value)

    def _forget(self) -> None:
        """Forget all threads and the call in progress, in the child of a fork."""
        for field in ("lock", "generation", "active", "open", "workers", "owner"):
            self._set(field, 0)


def _be_limited_by_threadpoolctl() -> None:
    """Let ``threadpoolctl.threadpool_limits`` limit the pool, too."""
    # it has no types; it identifies the pool by a library of NumPy, which is always loaded
    from threadpoolctl import (  # type: ignore[import-untyped]  # noqa: PLC0415
        LibController,
        register,
    )

    @final
    class NativeKernels(LibController):  # type: ignore[misc]  # likewise
        user_api = "eagerflow"
        internal_api = "eagerflow"
        filename_prefixes = ("_multiarray_umath",)

        def get_num_threads(self) -> int:
            return _pool[0].threads

        def set_num_threads(self, num_threads: int) -> None:
            _pool[0].threads = num_threads

        def get_version(self) -> None:
            return None

    register(NativeKernels)


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _functions() -> dict[str, Any]:
    """The functions of Python and of the system that kernels call by `control_poll`."""
    system, python = ctypes.CDLL(None), ctypes.pythonapi
    return {
        "self": system.pthread_self, "clock": system.clock_gettime,
        "ensure": python.PyGILState_Ensure, "release": python.PyGILState_Release,
        "call": python.PyObject_CallNoArgs, "fetch": python.PyErr_Fetch, "drop": python.Py_DecRef,
    }  # fmt: skip


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


_pool: list[ThreadPool] = []


def pool_of(make: Callable[[], ThreadPool]) -> ThreadPool:
    """The pool of this process, made by ``make`` at the first call."""
    if not _pool:
        with POOLING:
            if not _pool:
                _pool.append(make())
    return _pool[0]
