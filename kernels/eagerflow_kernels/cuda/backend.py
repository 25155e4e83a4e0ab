"""The backend of GPUs: the contract of devices, by CuPy.

This code has been checked against the signatures of CuPy, and is run on a GPU by the tests that are
marked ``gpu``; `eagerflow_kernels.cuda.library.STATUS` says where they were run.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, final

import numpy as np

from eagerflow_kernels.cuda import kernels as _kernels  # noqa: F401 - registers them
from eagerflow_kernels.cuda import library
from eagerflow_kernels.cuda.copies import Copies

HostArray = np.ndarray[Any, Any]

#: bytes from which on a result is remembered, to be named in an error when memory is short
_LARGE: Final = 1 << 20


class GpuMemory(NamedTuple):
    """Memory of a GPU in bytes; see `eagerflow.memory`."""

    in_use: int | None
    reserved: int | None
    limit: int | None
    total: int | None


class _Held(NamedTuple):
    """A large array that may be alive.

    Attributes:
        array: a weak reference to the array.
        explain: the result of `KernelCall.issued`, with the line; None if no kernel made the array.
    """

    array: Any
    explain: Any


def _is_large(x: Any) -> bool:
    """Whether an array is large enough to be named when memory is short."""
    return getattr(x, "nbytes", 0) >= _LARGE


def _line(explain: Any) -> str:
    return "" if explain is None else str(explain.source or "")


@final
class _Completions:
    """Callbacks of waiters for values, run in a thread: callbacks of the driver cannot use the GPU.

    The thread lives as long as there are callbacks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: deque[Callable[[Exception | None], object]] = deque()
        self._works = False

    def add(self, done: Callable[[Exception | None], object]) -> None:
        """Queue a callback; called by the driver."""
        with self._lock:
            self._due.append(done)
            if self._works:
                return
            self._works = True
        threading.Thread(target=self._work, daemon=True, name="gpu completions").start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._works = False
                    return
                done = self._due.popleft()
            done(None)


@final
class CudaBackend:
    """The GPUs of this machine. Nothing is allocated, and no context made, before one is used.

    Kernels are CuPy's, issued on the default stream of their GPU in the order of the program;
    copies run beside them. Arrays cannot hold 8-bit floats or bytes, which CuPy lacks, nor
    bfloat16, for which it has few functions.
    """

    kind = "gpu"
    holds_bytes = False
    holds_data = True

    def __init__(self) -> None:
        self._copies: dict[int, Copies] = {}
        self._limits: dict[int, int | None] = {}
        self._held: dict[int, list[_Held]] = {}
        self._lock = threading.Lock()
        self._completions = _Completions()

    @property
    def cupy(self) -> Any:
        """The module CuPy."""
        return library.cupy()

    @property
    def array_type(self) -> type[Any]:
        """The class of arrays on GPUs."""
        kind: type[Any] = self.cupy.ndarray
        return kind

    def count(self) -> int:
        """The number of GPUs."""
        return library.device_count()

    def namespace(self, index: int) -> Any:
        """The array namespace, CuPy."""
        return self.cupy

    def copies(self, index: int) -> Copies:
        """The copies to and from a GPU."""
        with self._lock:
            if index not in self._copies:
                self._copies[index] = Copies(self.cupy, index)
            return self._copies[index]

    # --- running ---

    def launcher(self, call: Any, index: int) -> Callable[..., Any]:
        """The function that issues a kernel, with a second try where memory was short."""
        there = call.on_host and bool(call.host_outputs())
        kernel = call.kernel(np if there else self.cupy, self.array_type)
        device, copies = self.cupy.cuda.Device(index), self.copies(index)

        def launch(*arrays: Any, **attrs: Any) -> Any:
            with device:
                inputs = self._placed(arrays, index, call.host_inputs(len(arrays), attrs))
                copies.use(inputs)
                results = self._with_room(lambda: kernel(*inputs, **attrs), index)
            for x in results if isinstance(results, tuple) else (results,):
                if _is_large(x):
                    self._remember(x, index, call.issued(arrays, attrs))
            return results

        return launch

    def _placed(self, arrays: Sequence[Any], index: int, on_host: frozenset[int]) -> list[Any]:
        """Each input in the memory where the kernel reads it."""
        inputs = []
        for i, x in enumerate(arrays):
            if i in on_host and not isinstance(x, (np.ndarray, np.generic, int, float)):
                x = self.copy_out(x, index)
            elif type(x) is np.ndarray and i not in on_host:
                x = self.copy_in(x, index, borrowed=False)
            inputs.append(x)
        return inputs

    def _remember(self, x: Any, index: int, explain: Any = None) -> Any:
        """Remember a large array, and the line that made it; returns the array."""
        if _is_large(x) and type(x) is self.array_type:
            held = self._held.setdefault(index, [])
            held.append(_Held(weakref.ref(x), explain))
            if len(held) % 64 == 0:
                held[:] = [one for one in held if one.array() is not None]
        return x

    # --- memory ---

    def _make_room(self, index: int) -> None:
        """Wait for pending copies, and give unused memory back."""
        self.copies(index).tidy(wait=True)
        self.cupy.get_default_memory_pool().free_all_blocks()

    def _with_room(self, make: Callable[[], Any], index: int) -> Any:
        """The result of ``make`` on a GPU, with a second try where memory was short."""
        with self.cupy.cuda.Device(index):
            with suppress(MemoryError):  # whose traceback would keep arrays of the first try
                return make()
            self._make_room(index)
            return make()

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], index: int) -> Any:
        """An array whose elements are not set.

        Raises:
            MemoryError: there is not enough.
        """
        self._check(dtype)
        made = self._with_room(lambda: self.cupy.empty(shape, dtype), index)
        return self._remember(made, index)

    def copy_in(self, array: HostArray, index: int, *, borrowed: bool) -> Any:
        """A copy on a GPU of an array of the host, whose values are staged before this returns.

        Raises:
            MemoryError: there is not enough.
            TypeError: no array on a GPU has such a dtype.
        """
        self._check(array.dtype)
        made = self._with_room(lambda: self.copies(index).copy_in(array), index)
        return self._remember(made, index)

    def _check(self, dtype: np.dtype[Any]) -> None:
        if dtype.char not in "?bBhHiIlLqQefdFD":
            raise TypeError(f"arrays of {dtype} are not for GPUs")

    def copy_out(self, data: Any, index: int) -> HostArray:
        """The values in the memory of the host; waits for them."""
        if isinstance(data, np.ndarray):
            return data
        with self.cupy.cuda.Device(index):
            return self.copies(index).copy_out(data)

    def copy_to_peer(self, data: Any, index: int, peer: int) -> Any:
        """A copy of an array on another GPU.

        Raises:
            MemoryError: there is not enough.
        """

        def copy() -> Any:
            with self.cupy.cuda.Device(index):
                return self.copies(index).copy_to(self.copies(peer), data)

        return self._remember(self._with_room(copy, peer), peer)

    def memory(self, index: int) -> GpuMemory:
        """Bytes that the pool holds for living and for later arrays, and the total of the GPU."""
        with self.cupy.cuda.Device(index):
            pool = self.cupy.get_default_memory_pool()
            _, total = self.cupy.cuda.runtime.memGetInfo()
            limit = self._limits.get(index)
            return GpuMemory(pool.used_bytes(), pool.total_bytes(), limit, total)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        """Limit the bytes of the pool; None for no limit."""
        with self.cupy.cuda.Device(index):
            # for CuPy 0 bytes mean no limit, so the least limit is one byte
            limit = 0 if nbytes is None else max(nbytes, 1)
            self.cupy.get_default_memory_pool().set_limit(size=limit)
        self._limits[index] = nbytes

    def held(self, index: int) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """The large living arrays, the largest first; results of kernels with lines."""
        alive = [(one.array(), one.explain) for one in self._held.get(index, ())]
        rows = [(x.nbytes, x.dtype, x.shape, e) for x, e in alive if x is not None]
        rows.sort(key=lambda row: -row[0])
        return [(dtype, shape, _line(explain)) for _, dtype, shape, explain in rows]

    def release(self, index: int) -> None:
        """Give the memory that the pool keeps for later arrays back to the driver."""
        with self.cupy.cuda.Device(index):
            self._make_room(index)
            self.cupy.get_default_pinned_memory_pool().free_all_blocks()

    # --- completion ---

    def _done(self, data: Any) -> Any:
        """An event after all issued work, which includes the work that makes ``data``."""
        with data.device:
            self.copies(data.device.id).use([data])
            event = self.cupy.cuda.Event(disable_timing=True)
            event.record(self.cupy.cuda.Stream.null)
        return event

    def ready(self, data: Any) -> bool:
        """Whether an array, and all work issued before this call, is done."""
        return isinstance(data, np.ndarray) or bool(self._done(data).done)

    def when_ready(self, data: Any, done: Callable[[Exception | None], object]) -> None:
        """Call ``done`` when an array is ready, in the thread of completions."""
        if isinstance(data, np.ndarray):
            done(None)
            return
        with data.device:
            self.copies(data.device.id).use([data])
            self.cupy.cuda.Stream.null.launch_host_func(self._completions.add, done)

    def synchronize(self, index: int) -> None:
        """Wait until all work of a GPU is done."""
        with self.cupy.cuda.Device(index):
            self.copies(index).synchronize()
