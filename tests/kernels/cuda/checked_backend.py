"""Devices of kind gpu that compute with the arrays of `checked.py`, without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerflow.hardware import KernelCall, MemoryStats
from tests.kernels.cuda.checked import CheckedArray, CheckedCupy, CheckedNamespace


class CheckedBackend:
    """Two devices of kind gpu, without a GPU.

    Attributes:
        launched: the names of the ops whose kernels have run here.
    """

    kind = "gpu"
    array_type = CheckedArray
    holds_bytes = False
    holds_data = True

    def __init__(self) -> None:
        self.launched: set[str] = set()

    def count(self) -> int:
        return 2

    def namespace(self, index: int) -> CheckedNamespace:
        return CheckedCupy()

    def launcher(self, call: KernelCall, index: int) -> Callable[..., Any]:
        there = bool(call.on_host and call.host_outputs())
        kernel = call.kernel(np if there else self.namespace(index), CheckedArray)

        def launch(*arrays: Any, **attrs: Any) -> Any:
            self.launched.add(call.name)
            read = call.host_inputs(len(arrays), attrs)
            placed = [_placed(x, i in read) for i, x in enumerate(arrays)]
            return kernel(*placed, **attrs)

        return launch

    def allocate(self, shape: tuple[int, ...], dtype: Any, index: int) -> CheckedArray:
        return CheckedArray(np.empty(shape, dtype))

    def copy_in(self, array: np.ndarray[Any, Any], index: int, *, borrowed: bool) -> CheckedArray:
        return CheckedArray(array.copy())

    def copy_out(self, data: Any, index: int) -> np.ndarray[Any, Any]:
        return data.inner.copy() if isinstance(data, CheckedArray) else data

    def copy_to_peer(self, data: CheckedArray, index: int, peer: int) -> CheckedArray:
        return CheckedArray(data.inner.copy())

    def ready(self, data: Any) -> bool:
        return True

    def when_ready(self, data: Any, done: Callable[[Exception | None], object]) -> None:
        done(None)

    def synchronize(self, index: int) -> None:
        """Returns at once: no work is ever under way."""

    def memory(self, index: int) -> MemoryStats:
        return MemoryStats(0, 0, None, None)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        raise ValueError("none")

    def held(self, index: int) -> list[Any]:
        return []

    def release(self, index: int) -> None:
        """Does nothing: no memory is reserved."""


def _placed(x: Any, on_host: bool) -> Any:
    if isinstance(x, CheckedArray) and on_host:
        return x.inner.copy()
    if isinstance(x, np.ndarray) and not on_host:
        return CheckedArray(x.copy())
    return x
