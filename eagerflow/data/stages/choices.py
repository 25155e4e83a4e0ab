"""Stages that choose elements and their order: shuffle, take and skip."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

import eagerflow as ef
from eagerflow.data.base.orders import Buffer, Seed, generator, permutation
from eagerflow.data.base.stage import (
    AbstractCounter,
    AbstractCursor,
    AbstractDerived,
    AbstractFollower,
    AbstractStage,
    AbstractView,
    Length,
    Rows,
    behind_end,
)
from eagerflow.data.workers.opening import open_stage
from eagerflow.extending.pipelines import QueueState

__all__ = ["ShuffleStage", "SliceStage"]


@final
class ShuffleStage(AbstractStage):
    """The elements in random order."""

    __slots__ = ("reshuffle", "seed", "size", "sources")
    seed: Seed

    def __init__(self, of: AbstractStage, size: int | None, seed: Seed, reshuffle: bool) -> None:
        self.sources = (of,)
        self.size = size
        self.seed = seed
        self.reshuffle = reshuffle

    @property
    def length(self) -> Length:
        return self.sources[0].length

    def _draws(self, epoch: int) -> ef.random.Generator:
        return generator(self.seed.value, epoch if self.reshuffle else 0)

    def view(self, epoch: int) -> AbstractView | None:
        view = self.sources[0].view(epoch)
        if view is None:
            return None
        return _OrderView(view, permutation(view.length, self.size, self._draws(epoch)))

    def cursor(self, epoch: int) -> AbstractCursor:
        size = int(self.length or 1) if self.size is None else self.size
        return _BufferCursor(open_stage(self.sources[0], epoch), size, self._draws(epoch))

    def __str__(self) -> str:
        size = "" if self.size is None else f"{self.size}, "
        fixed = "" if self.reshuffle else ", reshuffle=False"
        return f"{self.sources[0]}.shuffle({size}seed={self.seed}{fixed})"


@final
class _OrderView(AbstractDerived):
    __slots__ = ("_order",)

    def __init__(self, source: AbstractView, order: np.ndarray[Any, Any]) -> None:
        super().__init__(source)
        self._order = order

    def element(self, index: int) -> Any:
        return self._source.element(int(self._order[index]))

    def rows(self, rows: Rows) -> Any:
        chosen = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
        return self._source.rows(self._order[chosen])


@final
class _BufferCursor(AbstractFollower):
    """What is held is restored by reading the epoch from its start."""

    __slots__ = ("_buffer", "_index")

    def __init__(self, source: AbstractCursor, size: int, draws: ef.random.Generator) -> None:
        super().__init__(source)
        self._buffer = Buffer(source.next, size, draws)
        self._index = 0

    def next(self) -> Any:
        element = self._buffer.next()
        self._index += 1
        return element

    @property
    def state(self) -> dict[str, Any]:
        return {
            "index": self._index,
            "read": self._buffer.read,
            "failed": self._buffer.failed,
        }

    def restore(self, state: dict[str, Any]) -> None:
        buffer = self._buffer
        while self._index < state["index"] or buffer.read < state["read"]:
            try:
                if self._index < state["index"]:
                    self.next()
                else:
                    buffer.fill()
            except StopIteration:
                raise behind_end(state["read"], buffer.read) from None
            except Exception:
                if buffer.failed > state["failed"]:  # else it was raised before, too
                    raise

    @property
    def queues(self) -> list[QueueState]:
        return [*super().queues, self._buffer.queue]


@final
class SliceStage(AbstractStage):
    """The elements from one index up to another, which may be infinite."""

    __slots__ = ("sources", "start", "stop")
    seed = None

    def __init__(self, of: AbstractStage, start: int, stop: float) -> None:
        self.sources = (of,)
        self.start = start
        self.stop = stop

    @property
    def length(self) -> Length:
        length = self.sources[0].length
        if length is None:
            return 0 if self.stop <= self.start else None
        return max(0, min(length, self.stop) - self.start)

    def view(self, epoch: int) -> AbstractView | None:
        view = self.sources[0].view(epoch)
        return None if view is None else _SliceView(view, self.start, self.stop)

    def cursor(self, epoch: int) -> AbstractCursor:
        return _SliceCursor(open_stage(self.sources[0], epoch), self.start, self.stop)

    def __str__(self) -> str:
        call = f"skip({self.start})" if self.stop == math.inf else f"take({self.stop})"
        return f"{self.sources[0]}.{call}"


@final
class _SliceView(AbstractDerived):
    __slots__ = ("_length", "_start")

    def __init__(self, source: AbstractView, start: int, stop: float) -> None:
        super().__init__(source)
        self._start = start
        self._length = max(0, int(min(source.length, stop)) - start)

    @property
    def length(self) -> int:
        return self._length

    def element(self, index: int) -> Any:
        return self._source.element(self._start + index)

    def rows(self, rows: Rows) -> Any:
        start = self._start
        if isinstance(rows, range):
            return self._source.rows(range(rows.start + start, rows.stop + start))
        return self._source.rows(rows + start)


@final
class _SliceCursor(AbstractCounter):
    __slots__ = ("_start", "_stop")

    def __init__(self, source: AbstractCursor, start: int, stop: float) -> None:
        super().__init__(source)
        self._start = start
        self._stop = stop

    def restore(self, state: dict[str, Any]) -> None:
        if state["index"] > self._stop:
            raise behind_end(state["index"], int(self._stop))
        super().restore(state)

    def next(self) -> Any:
        while self._index < self._start:
            self._index += 1
            self._source.next()
        if self._index >= self._stop:
            raise StopIteration
        self._index += 1
        return self._source.next()

    def chunk(self, count: int) -> tuple[Any, int]:
        if self._index < self._start:
            return super().chunk(count)
        count = int(min(count, self._stop - self._index))
        if count <= 0:
            raise StopIteration
        rows, taken = self._source.chunk(count)
        self._index += taken
        return rows, taken
