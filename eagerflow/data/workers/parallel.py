"""Cursors whose elements are made by several threads, which work ahead of the reader.

Jobs are numbered, so the order in which they end does not matter. A position counts the elements
handed out, not those begun; elements begun behind it are begun again after a restore.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

from eagerflow.data.base.stage import (
    AbstractCursor,
    AbstractFollower,
    AbstractIndexed,
    AbstractRandomAccess,
    Threads,
)
from eagerflow.data.base.user_calls import AbstractMapped, OnError, skips
from eagerflow.data.workers.jobs import Crew, Handover, Job
from eagerflow.extending import QueueState

_AHEAD: Final = 2  # jobs per thread: a running and a waiting one
_LATE: Final = 62  # elements that may overtake another one; a mask of them is a 64-bit number


class AbstractAhead(AbstractCursor):
    """A cursor whose elements are made by a crew of threads, and handed over."""

    _crew: Crew
    _done: Handover

    def close(self) -> None:
        self._crew.close()
        self._done.close()
        super().close()

    def __del__(self) -> None:
        if not self._crew.closed:
            self.close()

    @property
    def queues(self) -> list[QueueState]:
        return [*super().queues, self._done.queue]


@final
class ParallelAccessCursor(AbstractAhead, AbstractIndexed):
    """A cursor over random access with threads, from the first element to the last.

    A job makes an element, or a batch where batches are read: the next jobs are for requests like
    the last one.
    """

    def __init__(self, elements: AbstractRandomAccess, workers: Threads) -> None:
        super().__init__(elements)
        self._crew = Crew(workers.name, workers.count)
        self._ahead = _AHEAD * workers.count
        self._done = Handover(workers.name, self._ahead, numbered=True)
        self._grain: int | None = None  # elements of a job; None for a job that is not stacked
        self._jobs: deque[range] = deque()  # the rows of each job
        self._begun = 0  # number of jobs for this handover
        self._index = 0

    def next(self) -> Any:
        return self._take(None)[0]

    def chunk(self, count: int) -> tuple[Any, int]:
        return self._take(count)

    def _take(self, grain: int | None) -> tuple[Any, int]:
        if grain != self._grain:
            self._crew.forget()
            self._jobs.clear()
            self._done, self._begun = Handover(self._crew.name, self._ahead, numbered=True), 0
            self._grain = grain
        self._fill()
        if not self._jobs:
            raise StopIteration
        job = self._done.take()
        rows = self._jobs.popleft()
        self._index = rows.stop
        return job.result(), len(rows)

    def _fill(self) -> None:
        start = self._jobs[-1].stop if self._jobs else self._index
        while len(self._jobs) < self._ahead and start < self._elements.length:
            if self._grain is None:
                rows = range(start, start + 1)
                job = Job(partial(self._elements.element, start), self._begun)
            else:
                rows = range(start, min(start + self._grain, self._elements.length))
                job = Job(partial(self._elements.rows, rows), self._begun)
            self._crew.submit(job, self._done)
            self._jobs.append(rows)
            self._begun += 1
            start = rows.stop


@final
@dataclass(eq=False)
class _Begun:
    """An element of the source, and the job that maps it.

    Attributes:
        job: the call of the function.
        state: of the source, behind the element.
        taken: whether the result was handed out.
        read: whether there is an element; else the source raised, and so does the job.
    """

    job: Job
    state: dict[str, Any]
    taken: bool
    read: bool


@final
class ParallelMapCursor(AbstractAhead, AbstractFollower):
    """A cursor that maps the elements of its source by several threads.

    Without an order, a position consists of that of the first element not handed out yet, and a
    mask of the later elements that were.
    """

    def __init__(
        self, source: AbstractCursor, mapped: AbstractMapped, workers: Threads, ordered: bool,
        on_error: OnError,
    ) -> None:  # fmt: skip
        super().__init__(source)
        self._mapped = mapped
        self._crew = Crew(workers.name, workers.count)
        self._ahead = _AHEAD * workers.count
        self._done = Handover(workers.name, self._ahead, numbered=ordered)
        self._number = 0  # of the next job
        self._ordered = ordered
        self._on_error = on_error
        self._begun: deque[_Begun] = deque()
        self._index = 0  # index in the source of the first of them
        self._overtaken = 0  # after a restore: a bit for each element that had been handed out
        self._state: dict[str, Any] | None = None  # of the source at the index
        self._ended = False

    def next(self) -> Any:
        while True:
            self._fill()
            if all(begun.taken for begun in self._begun):
                raise StopIteration
            job = self._done.take()
            chosen = next(begun for begun in self._begun if begun.job is job)
            self._take(chosen)
            try:
                return job.result()
            except Exception as error:
                if not (chosen.read and skips(self._on_error, error, self._crew.name)):
                    raise

    def _take(self, chosen: _Begun) -> None:
        chosen.taken = True
        while self._begun and self._begun[0].taken:
            first = self._begun.popleft()
            self._state = first.state
            self._index += first.read

    def _fill(self) -> None:
        """Begin all jobs that may begin; an error of the source is raised in its order."""
        waiting = sum(not begun.taken for begun in self._begun)
        if self._state is None:
            self._state = self._source.state
        while waiting < self._ahead and len(self._begun) < _LATE and not self._ended:
            waiting += self._begin()

    def _begin(self) -> bool:
        element, error = _read(self._source)
        if isinstance(error, StopIteration):
            self._ended = True
            return False
        index = self._index + sum(begun.read for begun in self._begun)
        job = Job(partial(self._mapped, index, element), self._number)
        taken = error is None and bool(self._overtaken & 1)
        self._begun.append(_Begun(job, self._source.state, taken, error is None))
        self._number += not taken
        if error is not None:
            job.fail(error)
            del error  # its traceback leads here
            self._done.put(job, job.number)
            return True
        self._overtaken >>= 1
        if not taken:
            self._crew.submit(job, self._done)
        return not taken

    @property
    def state(self) -> dict[str, Any]:
        source = self._source.state if self._state is None else self._state
        state = {"index": self._index, "source": source}
        if not self._ordered:
            bits = [begun.taken for begun in self._begun if begun.read]
            mask = sum(bit << i for i, bit in enumerate(bits))
            state["overtaken"] = mask | self._overtaken << len(bits)
        return state

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state["source"])
        self._index = state["index"]
        self._overtaken = state.get("overtaken", 0)

    def close(self) -> None:
        self._mapped.close()
        super().close()


def _read(source: AbstractCursor) -> tuple[Any, Exception | None]:
    """The next element, or the error. A function, so that no traceback refers to the cursor."""
    try:
        return source.next(), None
    except Exception as error:
        return None, error
