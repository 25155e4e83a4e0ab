"""Null devices: they know types and hold no data, for planning without the machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np

from eagerflow.errors import DeviceError
from eagerflow.hardware.contract import HostArray, KernelCall, MemoryStats, Ready


@final
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NullArray:
    """An array of a null device: a dtype and a shape, no data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __bool__(self) -> NoReturn:
        """The truth of a predicate, which is not known.

        Raises:
            DeviceError: always.
        """
        raise DeviceError(
            "a branch or a loop depends on a tensor on a null device, which has no values",
            hint="null devices know types only",
        )

    __int__ = __bool__


@final
class NullBackend:
    """The backend of null devices: its launchers run the type rule alone, and nothing waits."""

    kind = "null"
    array_type = NullArray
    holds_bytes = True
    holds_data = False

    def count(self) -> int:
        """More devices than any program uses."""
        return 1_000_000

    def namespace(self, index: int) -> None:
        """None, as there are no values to compute with."""

    def launcher(self, call: KernelCall, index: int) -> Callable[..., Any]:
        """A launcher that applies the type rule."""

        def launch(*arrays: Any, **attrs: Any) -> Any:
            outputs = [NullArray(*output) for output in call.outputs(arrays, attrs)]
            return tuple(outputs) if call.several else outputs[0]

        return launch

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], index: int) -> NullArray:
        """An array of this dtype and shape."""
        return NullArray(dtype, shape)

    def copy_in(self, array: HostArray, index: int, *, borrowed: bool) -> NullArray:
        """An array of the same dtype and shape."""
        return NullArray(array.dtype, array.shape)

    def copy_out(self, data: NullArray, index: int) -> NoReturn:
        """Refuse, as there are no values.

        Raises:
            DeviceError: always.
        """
        raise DeviceError(
            f"a tensor on null:{index} has no values", hint="null devices know types only"
        )

    def copy_to_peer(self, data: NullArray, index: int, peer: int) -> NullArray:
        """The array itself."""
        return data

    def ready(self, data: NullArray) -> bool:
        """True: there is no work to wait for."""
        return True

    def when_ready(self, data: NullArray, done: Ready) -> None:
        """Call ``done`` at once."""
        done(None)

    def synchronize(self, index: int) -> None:
        """Do nothing, as there is nothing to wait for."""

    def memory(self, index: int) -> MemoryStats:
        """Statistics with no memory in use."""
        return MemoryStats(0, 0, None, None)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        """Refuse, as there is no memory to limit.

        Raises:
            ValueError: always.
        """
        raise ValueError("null devices take no memory")

    def held(self, index: int) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """No arrays."""
        return []

    def release(self, index: int) -> None:
        """Do nothing, as no memory is reserved."""
