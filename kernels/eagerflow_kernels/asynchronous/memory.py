"""The memory of a device: how much is held, and a limit."""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple, final
from weakref import ref

import numpy as np

_MANY: Final = 64  # blocks


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

    __slots__ = ("__weakref__", "dtype", "line", "nbytes", "shape")

    def __init__(
        self, nbytes: int, dtype: np.dtype[Any], shape: tuple[int, ...], line: object
    ) -> None:
        self.nbytes, self.dtype, self.shape, self.line = nbytes, dtype, shape, line


@final
class DeviceMemory:
    """What one device holds.

    It is found by a look at what lives. A count that blocks change when they die would be wrong
    after a Ctrl-C that comes in the midst of that.

    Attributes:
        limit: how many bytes there may be; None for any number.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._blocks: list[ref[MemoryBlock]] = []
        self._most = _MANY  # of these, until the dead ones among them are dropped
        # a block may die while another one is taken in the same thread
        self._lock = threading.RLock()

    @property
    def in_use(self) -> int:
        """How many bytes are held."""
        return sum(block.nbytes for block in self._living())

    def _living(self) -> list[MemoryBlock]:
        return [block for one in list(self._blocks) if (block := one()) is not None]

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
            block = MemoryBlock(nbytes, dtype, shape, line)
            self._blocks.append(ref(block))
            if len(self._blocks) > self._most:
                self._blocks = [one for one in self._blocks if one() is not None]
                self._most = 2 * len(self._blocks) + _MANY
            return block

    def held(self) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """The arrays that hold it, the largest first, with the lines that made them."""
        blocks = sorted(self._living(), key=lambda block: -block.nbytes)
        return [
            (block.dtype, block.shape, "" if block.line is None else str(block.line))
            for block in blocks
        ]
