"""CuPy's interface to CUDA, without a GPU: devices, streams, events and memory, for `CudaBackend`.

Work is done as soon as it is issued, on arrays of NumPy. An order that a GPU might change is an
error: the vector clock of a stream says which work is known to be over before its next work,
through events, and through the host, which waits or asks. A use of memory that is not ordered
after earlier uses raises a `RaceError`. Memory is counted, may be limited, and is reused as soon
as it is given back: if that is too early, it is a race as well.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from math import prod
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import numpy as np

from eagerflow_kernels.cuda import library
from tests.kernels.cuda import checked
from tests.kernels.cuda.checked import CheckedCupy

_UNIT = 512  # bytes; sizes of allocations are multiples of it
DEVICES = 2
_P, _R = ParamSpec("_P"), TypeVar("_R")
#: by stream the amount of its work that is done
Clock = Counter[int]


class RaceError(Exception):
    """Memory is used, and an earlier use of it is not known to be over."""


class Memory:
    """A piece of memory, of a device or pinned in the host.

    Attributes:
        device: the number of its device; None for the host.
        arena: the number of the stream that it was allocated for.
        ptr: its address.
        buffer: its contents; None where an array of NumPy has them.
    """

    def __init__(self, device: int | None, arena: int, ptr: int, size: int) -> None:
        self.device, self.arena, self.ptr, self.size = device, arena, ptr, size
        self.buffer: bytearray | None = None
        self._written: tuple[int, int] = (0, 0)  # stream of the last write, and its work
        self._read: Clock = Counter()

    def use(self, stream: Stream, *, writes: bool) -> None:
        """Record a read or a write by a stream, which must be ordered after earlier uses."""
        other, number = self._written
        if stream.clock[other] < number:
            raise RaceError("it is used while another stream may still write it")
        if not writes:
            self._read[stream.number] = stream.clock[stream.number]
            return
        if not self._read <= stream.clock:
            raise RaceError("it is written while another stream may still read it")
        self._written, self._read = (stream.number, stream.clock[stream.number]), Counter()


class Stream:
    """A row of work on one device."""

    def __init__(self, driver: Driver, device: int) -> None:
        driver.streams += 1
        self.driver, self.device, self.number = driver, device, driver.streams
        self.ptr = self.number
        self.clock: Clock = Counter()

    def __enter__(self) -> Stream:
        self.driver.current.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.driver.current.pop()

    def work(self, reads: Iterable[Memory], writes: Iterable[Memory]) -> None:
        """Issue work that reads and writes memory."""
        if self.device != self.driver.device:
            raise RaceError(f"{self.driver.device} is the current device, not {self.device}")
        with self.driver.lock:
            self.clock |= self.driver.host
            self.clock[self.number] += 1
            for memory in reads:
                memory.use(self, writes=False)
            for memory in writes:
                memory.use(self, writes=True)

    def wait_event(self, event: Event) -> None:
        with self.driver.lock:
            self.clock |= event.clock

    def synchronize(self) -> None:
        with self.driver.lock:
            self.driver.host |= self.clock

    def launch_host_func(self, function: Callable[[Any], object], argument: Any) -> None:
        """Call a function in a thread of the driver."""
        thread = threading.Thread(target=function, args=(argument,))
        self.driver.callbacks.append(thread)
        thread.start()


class Event:
    """A moment of a stream. While the driver is busy, it has not come unless the host waits."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.clock: Clock = Counter()

    def record(self, stream: Any) -> None:
        with self._driver.lock:
            self.clock = Counter(stream.clock)

    @property
    def done(self) -> bool:
        if not self._driver.busy:
            self.synchronize()
        return self.clock <= self._driver.host

    def synchronize(self) -> None:
        with self._driver.lock:
            self._driver.host |= self.clock


class _Pooled:
    """An allocation of the pool; at its end the memory goes back."""

    def __init__(self, driver: Driver, memory: Memory) -> None:
        self.driver, self.memory, self.ptr = driver, memory, memory.ptr
        weakref.finalize(self, driver.give_back, memory).atexit = False


class _Unowned:
    """Memory that another object owns, which this object keeps alive."""

    def __init__(self, driver: Driver, ptr: int, size: int, owner: Any, device: int) -> None:
        self.driver, self.ptr, self.owner = driver, ptr, owner
        self.memory, _ = driver.find(ptr)
        assert (self.memory.device, self.memory.ptr) == (device, ptr)
        assert self.memory.size >= size


class _Pointer:
    """An address in memory."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """An array of NumPy at this address."""
        assert self.mem.memory.buffer is not None
        raw = np.frombuffer(self.mem.memory.buffer, dtype, prod(shape))
        self.mem.driver.note(raw, self.mem.memory, self.mem)
        return raw.reshape(shape)


class _Pinned(bytearray):
    """Pinned memory of the host."""

    memory: Memory


class Pool:
    """The pool of the current device, as CuPy's."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def used_bytes(self) -> int:
        return self._driver.used[self._driver.device]

    def total_bytes(self) -> int:
        driver = self._driver
        return driver.used[driver.device] + sum(m.size for m in driver.free[driver.device])

    def free_all_blocks(self) -> None:
        self._driver.free[self._driver.device].clear()

    def set_limit(self, *, size: int) -> None:
        self._driver.limits[self._driver.device] = size


def _locked(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """A method of the driver that one thread runs at a time."""

    @wraps(method)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        driver: Any = args[0]
        with driver.lock:
            return method(*args, **kwargs)

    return run


class _OfThread(threading.local):
    """The current device and streams of a thread, as in CUDA."""

    def __init__(self) -> None:
        self.device = 0
        self.streams: list[Stream] = []


class Driver:
    """The driver of all devices.

    Attributes:
        device: the number of the current device.
        busy: whether work that was issued is still under way.
        host: the work that the host knows to be done.
        current: the streams of open blocks.
        used: by device the number of bytes in use by arrays.
        limits: by device the maximum number of bytes; 0 for no limit.
        free: by device the memory that the pool keeps for later arrays.
        callbacks: the threads of functions that streams launched on the host.
    """

    def __init__(self) -> None:
        self._of_thread = _OfThread()
        self.lock = threading.RLock()
        self.streams = 0
        self.busy = False
        self.host: Clock = Counter()
        self.nulls = [Stream(self, i) for i in range(DEVICES)]
        self.used, self.limits = [0] * DEVICES, [0] * DEVICES
        self.free: list[list[Memory]] = [[] for _ in range(DEVICES)]
        self.callbacks: list[threading.Thread] = []
        self._pinned: list[Memory] = []
        self._next = _UNIT
        #: by the id of an array of NumPy, its memory and the object that keeps that
        self._arrays: dict[int, tuple[Memory, Any]] = {}
        #: by address, memory with a reference to the array of NumPy in it
        self._alive: dict[int, tuple[Memory, Any]] = {}
        self.pool = Pool(self)

    # --- memory ---

    @property
    def device(self) -> int:
        return self._of_thread.device

    @device.setter
    def device(self, number: int) -> None:
        self._of_thread.device = number

    @property
    def current(self) -> list[Stream]:
        return self._of_thread.streams

    @_locked
    def take(self, size: int) -> Memory:
        """Memory of the current device, in the arena of the current stream.

        Raises:
            MemoryError: the limit is exceeded.
        """
        device = self.device
        stream = self.current[-1] if self.current else self.nulls[device]
        size = -(-max(size, 1) // _UNIT) * _UNIT
        free, limit = self.free[device], self.limits[device]
        memory = next((m for m in free if (m.size, m.arena) == (size, stream.number)), None)
        if memory is not None:
            free.remove(memory)
        else:
            if limit and self.pool.total_bytes() + size > limit:
                free.clear()  # as CuPy does
            if limit and self.used[device] + size > limit:
                raise MemoryError(f"out of memory allocating {size} bytes")
            memory = Memory(device, stream.number, self._next, size)
            self._next += size
        self.used[device] += size
        return memory

    @_locked
    def give_back(self, memory: Memory) -> None:
        """Return memory to the pool: no array uses it any more."""
        assert memory.device is not None
        self.used[memory.device] -= memory.size
        self.free[memory.device].append(memory)
        self._alive.pop(memory.ptr, None)

    def alloc(self, size: int) -> _Pointer:
        """Memory without an array, filled with noise."""
        memory = self.take(size)
        memory.buffer = bytearray(b"\xff") * memory.size
        self._alive[memory.ptr] = memory, None
        return _Pointer(_Pooled(self, memory), 0)

    def alloc_pinned_memory(self, size: int) -> _Pinned:
        memory = next((m for m in self._pinned if m.size >= size), None)
        if memory is None:
            memory = Memory(None, 0, -self._next, size)
        else:
            self._pinned.remove(memory)
            if not memory._read <= self.host:
                raise RaceError("pinned memory is taken again while a copy may still read it")
        made = _Pinned(size)
        made.memory = memory
        weakref.finalize(made, self._pinned.append, memory).atexit = False
        return made

    def note(self, root: np.ndarray[Any, Any], memory: Memory, keep: Any) -> None:
        """Register the memory of an array of NumPy, and an object that the array keeps alive."""
        self._arrays[id(root)] = memory, keep
        self._alive[memory.ptr] = memory, weakref.ref(root)
        weakref.finalize(root, self._arrays.pop, id(root)).atexit = False

    def made(self, inner: np.ndarray[Any, Any]) -> None:
        """Register a new array, in memory that is known, or in newly taken memory."""
        root = root_of(inner)
        if id(root) not in self._arrays:
            memory = self.take(root.nbytes)
            self.note(root, memory, _Pooled(self, memory))
            self.nulls[self.device].work([], [memory])

    def memory_of(self, inner: np.ndarray[Any, Any]) -> Memory:
        root = root_of(inner)
        base = _base(root)
        if isinstance(base, _Pinned):
            return base.memory
        return self._arrays[id(root)][0]

    def pointer_of(self, inner: np.ndarray[Any, Any]) -> _Pointer:
        root = root_of(inner)
        first, start = (x.__array_interface__["data"][0] for x in (inner, root))
        return _Pointer(self._arrays[id(root)][1], first - start)

    def find(self, ptr: int) -> tuple[Memory, Any]:
        """The memory that contains an address, and the reference to its array."""
        return next(
            (memory, root) for memory, root in self._alive.values()
            if memory.ptr <= ptr < memory.ptr + memory.size
        )  # fmt: skip

    # --- work ---

    def kernel(self, given: Iterable[np.ndarray[Any, Any]], results: Iterable[Any]) -> None:
        """Record the reads of a kernel; arrays whose views are its results are left out."""
        made = {id(root_of(x)) for x in results if isinstance(x, np.ndarray)}
        read = [self._here(x) for x in given if id(root_of(x)) not in made]
        if read:
            self.nulls[self.device].work(read, [])

    def written(self, inner: np.ndarray[Any, Any]) -> None:
        """Record the write of a kernel into an array."""
        self.nulls[self.device].work([], [self._here(inner)])

    def _here(self, inner: np.ndarray[Any, Any]) -> Memory:
        memory = self.memory_of(inner)
        if memory.device != self.device:
            raise RaceError(f"a kernel on {self.device} is given an array of {memory.device}")
        return memory

    def read_on_host(self, inner: np.ndarray[Any, Any]) -> None:
        """Record that the host has waited for an array."""
        self.kernel([inner], [])
        self.nulls[self.device].synchronize()

    def set(self, inner: np.ndarray[Any, Any], values: np.ndarray[Any, Any], stream: Any) -> None:
        stream.work([self.memory_of(values)], [self.memory_of(inner)])
        assert inner.flags.c_contiguous
        inner[...] = values

    def get(self, inner: np.ndarray[Any, Any], stream: Any) -> np.ndarray[Any, Any]:
        stream.work([self.memory_of(inner)], [])
        return inner.copy()

    def copy_to_peer(
        self, to: int, device: int, source: int, other: int, nbytes: int, stream: int
    ) -> None:  # fmt: skip
        """``memcpyPeerAsync``, on a default stream."""
        assert stream == 0
        (there, array), (here, values) = self.find(to), self.find(source)
        assert (there.device, here.device) == (device, other)
        self.nulls[self.device].work([here], [there])
        read, written = (x().reshape(-1).view(np.uint8) for x in (values, array))
        written[to - there.ptr :][:nbytes] = read[source - here.ptr :][:nbytes]

    def join(self) -> None:
        """Wait until all launched host functions have been called."""
        for thread in self.callbacks:
            thread.join()
        self.callbacks.clear()


def _base(array: np.ndarray[Any, Any]) -> Any:
    """The object that the memory of an array comes from."""
    return array.base.obj if isinstance(array.base, memoryview) else array.base


def root_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory of an array."""
    while isinstance(base := _base(array), np.ndarray):
        array = base
    return array


class _Null:
    """``Stream.null``: the default stream of the current device."""

    ptr = 0

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver.nulls[self._driver.device], name)


class _Device:
    """A device, which is the current one within a block."""

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver, self.id = driver, index
        self._before: list[int] = []

    def __enter__(self) -> _Device:
        self._before.append(self._driver.device)
        self._driver.device = self.id
        return self

    def __exit__(self, *exc: object) -> None:
        self._driver.device = self._before.pop()


class DrivenCupy(CheckedCupy):
    """CuPy with its module ``cuda``.

    Attributes:
        driver: the driver behind the module.
    """

    def __init__(self) -> None:
        super().__init__()
        self.driver = driver = Driver()
        stream = partial(_stream, driver)
        stream.null = _Null(driver)  # type: ignore[attr-defined]
        self.cuda = SimpleNamespace(
            Device=lambda index: _Device(driver, index),
            Stream=stream,
            Event=lambda disable_timing: Event(driver),
            MemoryPointer=_Pointer,
            UnownedMemory=partial(_Unowned, driver),
            alloc=driver.alloc,
            alloc_pinned_memory=driver.alloc_pinned_memory,
            runtime=SimpleNamespace(
                getDeviceCount=lambda: DEVICES,
                memGetInfo=lambda: (0, 1 << 34),
                memcpyPeerAsync=driver.copy_to_peer,
            ),
        )
        self.get_default_memory_pool = lambda: driver.pool
        self.get_default_pinned_memory_pool = lambda: driver.pool


def _stream(driver: Driver, *, non_blocking: bool) -> Stream:
    assert non_blocking  # else it would wait for the default stream
    return Stream(driver, driver.device)


@contextmanager
def driven() -> Iterator[DrivenCupy]:
    """CuPy on a driver without a GPU, within this block."""
    cupy = DrivenCupy()
    checked.driver = cupy.driver
    library.use(cupy)
    try:
        yield cupy
    finally:
        cupy.driver.join()
        library.use(None)
        checked.driver = None
