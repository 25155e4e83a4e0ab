"""The memory of a device: how much is held, and a limit."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, final

import numpy as np


class MemoryUse(NamedTuple):
    """In bytes; see `eagerflow.hardware.MemoryStats`."""

    in_use: int
    reserved: int
    limit: int | None
    total: int | None


@final
class NotEnoughError(MemoryError):
    """A device has not so much memory left.

    Attributes:
        asked: how many bytes.
    """

    def __init__(self, asked: int) -> None:
        super().__init__(f"{asked} bytes")
        self.asked = asked


@final
class MemoryBlock:
    """Memory that one array holds, and its views; it is given back when the last of them dies."""

    __slots__ = ("_memory", "dtype", "nbytes", "shape")

    def __init__(
        self, memory: DeviceMemory, nbytes: int, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self._memory, self.nbytes, self.dtype, self.shape = memory, nbytes, dtype, shape

    def __del__(self) -> None:
        self._memory.give_back(self)


@final
class DeviceMemory:
    """What one device holds.

    Attributes:
        in_use: how many bytes.
        limit: how many there may be; None for any number.
    """

    def __init__(self) -> None:
        self.in_use = 0
        self.limit: int | None = None
        self._blocks: dict[int, tuple[int, np.dtype[Any], tuple[int, ...], object]] = {}
        # a block may die while another one is taken in the same thread
        self._lock = threading.RLock()

    def fits(self, nbytes: int) -> bool:
        """Whether there is so much left."""
        return self.limit is None or self.in_use + nbytes <= self.limit

    def take(
        self, nbytes: int, dtype: np.dtype[Any], shape: tuple[int, ...], *, limited: bool = True,
        line: object = None,
    ) -> MemoryBlock:  # fmt: skip
        """Memory for an array, which a line has made.

        Raises:
            NotEnoughError: there is not so much left, and it is ``limited``.
        """
        with self._lock:
            if limited and not self.fits(nbytes):
                raise NotEnoughError(nbytes)
            self.in_use += nbytes
            block = MemoryBlock(self, nbytes, dtype, shape)
            self._blocks[id(block)] = (nbytes, dtype, shape, line)
            return block

    def give_back(self, block: MemoryBlock) -> None:
        """It is not held any more."""
        with self._lock:
            self.in_use -= block.nbytes
            self._blocks.pop(id(block), None)

    def held(self) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """The arrays that hold it, the largest first, with the lines that made them."""
        with self._lock:
            blocks = sorted(self._blocks.values(), key=lambda block: -block[0])
        return [
            (dtype, shape, "" if line is None else str(line)) for _, dtype, shape, line in blocks
        ]
