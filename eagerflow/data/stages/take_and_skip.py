"""The stage of `Dataset.take` and `Dataset.skip`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from eagerflow.data.base.stage import (
    AbstractCounter,
    AbstractCursor,
    AbstractRandomAccess,
    AbstractStep,
    Length,
    ReorderedAccess,
    behind_end,
)
from eagerflow.data.workers.open_stage import open_stage


@final
@dataclass(eq=False, repr=False)
class SliceStage(AbstractStep):
    """The elements from ``start`` up to ``stop``, which may be infinite."""

    start: int
    stop: float

    @property
    def length(self) -> Length:
        length = self.of.length
        if length is None:
            return 0 if self.stop <= self.start else None
        return max(0, min(length, self.stop) - self.start)

    def random_access(self, epoch: int) -> AbstractRandomAccess | None:
        elements = self.of.random_access(epoch)
        if elements is None:
            return None
        stop = int(min(elements.length, self.stop))
        return ReorderedAccess(elements, range(self.start, max(self.start, stop)))

    def cursor(self, epoch: int) -> AbstractCursor:
        return _SliceCursor(open_stage(self.of, epoch), self.start, self.stop)

    def __str__(self) -> str:
        call = f"skip({self.start})" if self.stop == math.inf else f"take({self.stop})"
        return f"{self.of}.{call}"


@final
@dataclass(eq=False, repr=False)
class _SliceCursor(AbstractCounter):
    _start: int
    _stop: float

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
