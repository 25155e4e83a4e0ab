"""Devices with simulated time: their work takes known seconds of a clock that a test owns.

They follow the device contract as asynchronous devices do: each does its work in the order in which
it was issued, copies to it run concurrently, and callbacks for a value are called when the clock
reaches its time. Arrays hold no data. The executor that drives them is the real one; its waits use
the clock, which then advances to the next event.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from eagerflow.core import op as ops
from eagerflow.core.op_records.cost_formulas import Cost
from eagerflow.hardware import MemoryStats, registry
from eagerflow.runtime.threads.clock import AbstractClock
from eagerflow.types import TensorType
from eagerflow_kernels import table

#: operations per second in the executor's estimates, to express seconds as a cost
FLOPS = 4e9


def _cost(inputs: Any, outputs: Any, attrs: Any) -> Cost:
    return Cost(flops=attrs["seconds"] * FLOPS)


def define_pause(sleep: Callable[[float], object]) -> None:
    """Define the op ``pause``: of any tensors, takes ``seconds``, gives zeros of ``shape``."""

    def infer(*types: TensorType, seconds: float, shape: tuple[int, ...]) -> TensorType:
        return TensorType(types[0].dtype, shape)

    def kernel(xp: Any, *arrays: Any, seconds: float, shape: tuple[int, ...]) -> Any:
        sleep(seconds)
        return xp.zeros(shape, arrays[0].dtype)

    ops.define("pause", infer=infer, nondifferentiable=True, precision="exact", cost=_cost)
    table.portable("pause")(kernel)


def forget_pause() -> None:
    ops._ops.pop("pause")
    table.remove("pause")


def forget_timed() -> None:
    """Remove the devices of the kind."""
    registry._backends.pop("timed", None)
    for i in range(4):
        registry._devices.pop(f"timed:{i}", None)


class SimulatedClock(AbstractClock):
    """Advances to the next scheduled event when a thread waits."""

    def __init__(self) -> None:
        self.time = 0.0
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def now(self) -> float:
        return self.time

    def at(self, time: float, happen: Callable[[], object]) -> None:
        """Schedule a call of ``happen`` at a later time."""
        self._count += 1
        heappush(self._due, (time, self._count, happen))

    def wait(self, bell: threading.Lock, seconds: float | None) -> None:
        while not bell.acquire(blocking=False):
            self.time, _, happen = heappop(self._due)
            happen()


class TimedArray(NamedTuple):
    """An array without data.

    Attributes:
        dtype: dtype of its elements.
        shape: its sizes.
        end: the time at which it is computed.
    """

    dtype: Any
    shape: tuple[int, ...]
    end: float = 0.0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * int(self.dtype.itemsize)


class TimedBackend:
    """Four devices whose ops take their ``seconds``, and whose copies take time for each byte."""

    kind = "timed"
    array_type = TimedArray
    holds_bytes = False
    holds_data = True

    def __init__(self, clock: SimulatedClock, latency: float = 1e-4, speed: float = 1e9) -> None:
        self.clock = clock
        self.latency, self.speed = latency, speed
        self.free: Counter[Any] = Counter()  # by device, and by the device copied to
        self.last = 0.0

    def count(self) -> int:
        return 4

    def namespace(self, index: int) -> Any:
        return np

    def launcher(self, call: Any, index: int) -> Callable[..., Any]:
        def launch(*arrays: Any, **attrs: Any) -> TimedArray:
            ((dtype, shape),) = call.outputs(arrays, attrs)
            end = self._after(index, arrays, attrs.get("seconds", 0.0))
            return TimedArray(dtype, shape, end)

        return launch

    def _after(self, lane: Any, arrays: Any, seconds: float) -> float:
        start = max([self.clock.time, self.free[lane], *[x.end for x in arrays]])
        self.free[lane] = start + seconds
        self.last = max(self.last, start + seconds)
        return float(start + seconds)

    def allocate(self, shape: tuple[int, ...], dtype: Any, index: int) -> TimedArray:
        return TimedArray(dtype, shape)

    def copy_in(self, array: Any, index: int, *, borrowed: bool) -> TimedArray:
        return TimedArray(array.dtype, array.shape)

    def copy_out(self, data: Any, index: int) -> Any:
        return np.zeros(data.shape, data.dtype)

    def copy_to_peer(self, data: Any, index: int, peer: int) -> TimedArray:
        seconds = self.latency + data.nbytes / self.speed
        return data._replace(end=self._after(("to", peer), [data], seconds))

    def ready(self, data: Any) -> bool:
        return bool(data.end <= self.clock.time)

    def when_ready(self, data: Any, done: Callable[[Exception | None], object]) -> None:
        if self.ready(data):
            done(None)
        else:
            self.clock.at(data.end, lambda: done(None))

    def synchronize(self, index: int) -> None:
        pass

    def memory(self, index: int) -> MemoryStats:
        return MemoryStats(0, 0, None, None)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        raise ValueError("none")

    def held(self, index: int) -> list[Any]:
        return []

    def release(self, index: int) -> None:
        pass
