"""Accounting of the memory of a device, with a limit."""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple, final
from weakref import ref

import numpy as np

_MANY: Final = 64  # blocks


class MemoryUse(NamedTuple):
    """Memory of a device in bytes; see `eagerflow.hardware.MemoryStats`."""

    in_use: int
    reserved: int
    limit: int | None
    total: int | None


@final
class NotEnoughError(MemoryError):
    """A request for more memory than a device has left.

    Attributes:
        asked: number of bytes requested.
    """

    def __init__(self, asked: int) -> None:
        super().__init__(f"{asked} bytes")
        self.asked = asked


@final
class MemoryBlock:
    """Memory held by an array and its views; it is given back when the last of them dies."""

    __slots__ = ("__weakref__", "dtype", "line", "nbytes", "shape")

    def __init__(
        self, nbytes: int, dtype: np.dtype[Any], shape: tuple[int, ...], line: object
    ) -> None:
        self.nbytes, self.dtype, self.shape, self.line = nbytes, dtype, shape, line


@final
class DeviceMemory:
    """The memory blocks of one device.

    Their sum is taken over the living blocks. A count updated when blocks die would be wrong after
    a Ctrl-C in the midst of an update.

    Attributes:
        limit: the most bytes that may be held; None for any number.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._blocks: list[ref[MemoryBlock]] = []
        self._most = _MANY  # of references, until the dead ones are dropped
        # a block may die while another one is taken in the same thread
        self._lock = threading.RLock()

    @property
    def in_use(self) -> int:
        """Number of bytes held."""
        return sum(block.nbytes for block in self._living())

    def _living(self) -> list[MemoryBlock]:
        return [block for one in list(self._blocks) if (block := one()) is not None]

    def fits(self, nbytes: int) -> bool:
        """Whether ``nbytes`` more are within the limit."""
        return self.limit is None or self.in_use + nbytes <= self.limit

    def take(
        self, nbytes: int, dtype: np.dtype[Any], shape: tuple[int, ...], *, limited: bool = True,
        line: object = None,
    ) -> MemoryBlock:  # fmt: skip
        """Memory for an array, with the line that made it.

        Raises:
            NotEnoughError: the block would exceed the limit, and it is ``limited``.
        """
        with self._lock:
            if limited and not self.fits(nbytes):
                raise NotEnoughError(nbytes)
            block = MemoryBlock(nbytes, dtype, shape, line)
            self._blocks.append(ref(block))
            if len(self._blocks) > self._most:
                self._blocks = [one for one in self._blocks if one() is not None]
                self._most = 2 * len(self._blocks) + _MANY
            return block

    def held(self) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """The arrays that hold memory, the largest first, with the lines that made them."""
        blocks = sorted(self._living(), key=lambda block: -block.nbytes)
        return [
            (block.dtype, block.shape, "" if block.line is None else str(block.line))
            for block in blocks
        ]
