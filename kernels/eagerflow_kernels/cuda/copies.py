"""Copies between the host and a GPU, beside the kernels that run there.

Kernels run on the default stream of a GPU, where other libraries look for them; copies have a
stream for each direction. An event orders a copy after the work that makes its source, and later
kernels after the copy, only where they need it. Memory that a copy writes goes back to the pool of
its stream, so it is given back when all kernels issued before its array died have run.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, final

import numpy as np

HostArray = np.ndarray[Any, Any]


@final
class _Owner:
    """Holds the memory of an array that was copied in, for as long as the array lives."""

    def __init__(self, copies: Copies, memory: Any) -> None:
        self._copies = copies
        self._memory = memory

    def __del__(self) -> None:
        self._copies.retire(self._memory)


@final
class Copies:
    """The copies of one GPU.

    Args:
        cupy: the module.
        index: of the GPU.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy = cupy
        self._index = index
        self._lock = threading.RLock()  # an owner may die wherever memory is allocated
        self._in: Any = None
        self._out: Any = None
        #: by the address of memory, the event of the copy that fills it
        self._pending: dict[int, Any] = {}
        #: memory that kernels may still read, with the event after those kernels
        self._retired: deque[tuple[Any, Any]] = deque()
        #: buffers of the host that are read by copies, with their events
        self._read: deque[tuple[Any, Any]] = deque()

    def _streams(self) -> tuple[Any, Any]:
        if self._in is None:
            stream = self._cupy.cuda.Stream
            self._in, self._out = stream(non_blocking=True), stream(non_blocking=True)
        return self._in, self._out

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def retire(self, memory: Any) -> None:
        """Give memory back when all kernels issued so far have run."""
        with self._lock, self._cupy.cuda.Device(self._index):
            self._retired.append((self._event(self._cupy.cuda.Stream.null), memory))

    def tidy(self, *, wait: bool = False) -> None:
        """Drop memory and buffers no longer in use; with ``wait``, wait until none is in use."""
        with self._lock:
            for queue in (self._retired, self._read):
                while queue and (wait or queue[0][0].done):
                    if wait:
                        queue[0][0].synchronize()
                    queue.popleft()
            done = [start for start, event in self._pending.items() if event.done]
            for start in done:
                del self._pending[start]

    def copy_in(self, array: HostArray) -> Any:
        """A copy on the GPU of an array of the host, which may be changed afterwards."""
        cupy = self._cupy
        inward, _ = self._streams()
        self.tidy()
        order = _axes(array)
        packed = np.asarray(array.transpose(order), order="C")  # of no axes, too
        if not packed.size:
            return _restored(cupy.empty(packed.shape, packed.dtype), order)
        pinned = cupy.cuda.alloc_pinned_memory(packed.nbytes)
        staged = np.frombuffer(pinned, packed.dtype, packed.size).reshape(packed.shape)
        staged[...] = packed
        with inward:
            memory = cupy.cuda.alloc(packed.nbytes)
        owner = _Owner(self, memory)
        unowned = cupy.cuda.UnownedMemory(memory.ptr, packed.nbytes, owner, self._index)
        pointer = cupy.cuda.MemoryPointer(unowned, 0)
        made = cupy.ndarray(packed.shape, packed.dtype, memptr=pointer)
        made.set(staged, stream=inward)
        event = self._event(inward)
        with self._lock:
            self._pending[memory.ptr] = event
            self._read.append((event, (pinned, staged, memory)))
        return _restored(made, order)

    def use(self, arrays: Any) -> None:
        """Let later kernels wait for the copies that fill some arrays."""
        if not self._pending:
            return
        null = self._cupy.cuda.Stream.null
        with self._lock:
            for x in arrays:
                data = getattr(x, "data", None)
                event = self._pending.get(getattr(getattr(data, "mem", None), "ptr", 0))
                if event is not None:
                    null.wait_event(event)

    def copy_out(self, data: Any) -> HostArray:
        """The values in the memory of the host; waits for work issued so far, and no later work."""
        _, outward = self._streams()
        self.use([data])
        outward.wait_event(self._event(self._cupy.cuda.Stream.null))
        order = _axes(data)
        packed = data.transpose(order)
        if not packed.flags.c_contiguous:
            packed = self._cupy.asarray(packed, order="C")
            outward.wait_event(self._event(self._cupy.cuda.Stream.null))
        host = packed.get(stream=outward)
        outward.synchronize()
        return np.asarray(_restored(host, order))

    def copy_to(self, other: Copies, data: Any) -> Any:
        """A copy of an array on another GPU."""
        cupy = self._cupy
        self.use([data])
        order = _axes(data)
        packed = cupy.asarray(data.transpose(order), order="C")
        made_at = self._event(cupy.cuda.Stream.null)
        with cupy.cuda.Device(other._index):
            made = cupy.empty(packed.shape, packed.dtype)
            stream = cupy.cuda.Stream.null
            stream.wait_event(made_at)
            cupy.cuda.runtime.memcpyPeerAsync(
                made.data.ptr, other._index, packed.data.ptr, self._index, packed.nbytes, stream.ptr
            )
            event = other._event(stream)
        cupy.cuda.Stream.null.wait_event(event)  # later kernels here may write into the source
        with self._lock:
            self._read.append((event, packed))
        return _restored(made, order)

    def synchronize(self) -> None:
        """Wait for all kernels and copies."""
        self._cupy.cuda.Stream.null.synchronize()
        for stream in (self._in, self._out):
            if stream is not None:
                stream.synchronize()
        self.tidy()


def _axes(array: Any) -> tuple[int, ...]:
    """The axes by their strides, the largest first: the order of elements in memory."""
    return tuple(sorted(range(array.ndim), key=lambda axis: (-abs(array.strides[axis]), axis)))


def _restored(array: Any, order: tuple[int, ...]) -> Any:
    """An array whose axes were permuted by ``order``, with the axes as they were."""
    if order == tuple(range(len(order))):
        return array
    back = [0] * len(order)
    for i, axis in enumerate(order):
        back[axis] = i
    return array.transpose(tuple(back))
