"""Progress counters of kernels of regions, and cancellation while a kernel runs.

A *control* is memory that machine code and Python share. The kernel counts its work in it, in terms
times elements. Every 30 ms the thread that called the kernel takes the lock of the interpreter and
calls a function, which may raise: signal handlers do, and the function that ends a step. Then all
threads that share the call leave it, its results are incomplete, and `Control.end` raises the
error. So signals are handled while a kernel runs, as between two ops.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from threading import get_ident
from typing import Final, final

import numpy as np

from eagerflow_kernels.native.llvm.thread_pool_code import CONTROL, CONTROL_SIZE, COUNTS
from eagerflow_kernels.native.thread_pool import ThreadPool

#: offsets of bytes in the memory of a control: the first is not 0 once the kernel has been ended;
#: Python sets the second before a call, so that the kernel counts from 0
FLAG: Final = CONTROL["flag"]
BEGIN: Final = CONTROL["begin"]

_restore: Final = ctypes.pythonapi.PyErr_Restore
_restore.argtypes = [ctypes.c_void_p] * 3
_restore.restype = None


@final
class Control:
    """The control of one kernel. Several threads may call the kernel: each call is ended alone.

    Args:
        pool: the threads that share large calls.
        ask: called while the kernel runs; if it raises, the kernel ends. None for a kernel that is
            never ended, as it writes into memory that must not be left half written.

    Attributes:
        memory: the memory shared with machine code.
    """

    __slots__ = ("_ask", "_pool", "_whole", "address", "memory")

    def __init__(self, pool: ThreadPool, ask: Callable[[], object] | None) -> None:
        self.memory = bytearray(CONTROL_SIZE)
        #: the memory keeps its address as long as an array refers to it
        self._whole = np.frombuffer(self.memory, np.uint8)
        self.address = int(self._whole.ctypes.data)
        self._ask, self._pool = ask, pool
        self._set("pool", pool.address)
        self._set("poll", pool.poll)
        self._set("kind", COUNTS if ask is None else 0)
        self._set("ask", 0 if ask is None else id(ask))

    def _set(self, field: str, value: int) -> None:
        struct.pack_into("<Q", self.memory, CONTROL[field], value)

    def _get(self, field: str) -> int:
        value: int = struct.unpack_from("<Q", self.memory, CONTROL[field])[0]
        return value

    @property
    def can_end(self) -> bool:
        """Whether the kernel can be ended."""
        return self._ask is not None

    @property
    def done(self) -> int:
        """Terms times elements that have been computed in the call so far.

        If other calls run at the same time, the part computed by workers may belong to them.
        """
        return self._get("done") + self._pool.done_by_workers()

    def end(self) -> None:
        """Raise the error that ended the kernel, if this thread called it."""
        if self._get("stopped") != get_ident():
            return
        error = [self._get(field) for field in ("type", "value", "trace")]
        self.memory[FLAG] = 0
        self._set("stopped", 0)
        _restore(*error)
