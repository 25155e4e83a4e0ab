"""Opening of a stage: by random access if it has that, with threads if it asks for them."""

from __future__ import annotations

from typing import Any, final

from eagerflow.data.base.stage import AbstractCursor, AbstractIndexed, AbstractStage
from eagerflow.data.workers.parallel import ParallelAccessCursor


def open_stage(stage: AbstractStage, epoch: int) -> AbstractCursor:
    """A cursor over the elements of ``stage`` in ``epoch``."""
    elements = stage.random_access(epoch)
    if elements is None:
        return stage.cursor(epoch)
    workers = elements.workers
    return _AccessCursor(elements) if workers is None else ParallelAccessCursor(elements, workers)


@final
class _AccessCursor(AbstractIndexed):
    """A cursor over random access, from the first element to the last."""

    def next(self) -> Any:
        index = self._index
        if index >= self._elements.length:
            raise StopIteration
        self._index = index + 1
        return self._elements.element(index)

    def chunk(self, count: int) -> tuple[Any, int]:
        start = self._index
        stop = min(start + count, self._elements.length)
        if start >= stop:
            raise StopIteration
        self._index = stop
        return self._elements.rows(range(start, stop)), stop - start
