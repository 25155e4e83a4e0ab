"""How a stage is read: through its view if it has one, by threads if it asks for them."""

from __future__ import annotations

from typing import Any, final

from eagerflow.data.base.stage import AbstractCursor, AbstractIndexed, AbstractStage
from eagerflow.data.workers.parallel import ParallelViewCursor


def open_stage(stage: AbstractStage, epoch: int) -> AbstractCursor:
    """The elements of ``stage`` in ``epoch``."""
    view = stage.view(epoch)
    if view is None:
        return stage.cursor(epoch)
    workers = view.workers
    return _ViewCursor(view) if workers is None else ParallelViewCursor(view, workers)


@final
class _ViewCursor(AbstractIndexed):
    """Through a view from its first element to its last."""

    def next(self) -> Any:
        index = self._index
        if index >= self._view.length:
            raise StopIteration
        self._index = index + 1
        return self._view.element(index)

    def chunk(self, count: int) -> tuple[Any, int]:
        start = self._index
        stop = min(start + count, self._view.length)
        if start >= stop:
            raise StopIteration
        self._index = stop
        return self._view.rows(range(start, stop)), stop - start
