"""Cursors whose elements are made by several threads, which work ahead of who reads.

Jobs are numbered, so the order in which they end does not matter. A position counts what was
handed out, not what was begun; what was begun behind it is begun again by who restores it.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from functools import partial
from typing import Any, Final, Protocol, final

from eagerflow.data.calls import OnError, skips
from eagerflow.data.jobs import Crew, Job, tell_taken
from eagerflow.data.stage import AbstractCursor, AbstractView, Threads, check_position, stack_next
from eagerflow.events import listening

__all__ = ["ParallelMapCursor", "ParallelViewCursor"]

_AHEAD: Final = 2  # jobs for each thread: one that it does, one that waits for it
_LATE: Final = 62  # elements that may have overtaken one; a mask of them is a 64-bit number


class _Closes(Protocol):
    def close(self) -> None: ...


def _close(*things: _Closes) -> None:
    for thing in things:
        thing.close()


@final
class ParallelViewCursor(AbstractCursor):
    """Through a view from its first element to its last.

    A job is an element, or where batches are read a batch: what was asked for last is what the
    next jobs are for.
    """

    __slots__ = ("__weakref__", "_ahead", "_crew", "_grain", "_index", "_jobs", "_view")

    def __init__(self, view: AbstractView, workers: Threads) -> None:
        self._view = view
        self._crew = Crew(workers.name, workers.count)
        self._ahead = _AHEAD * workers.count
        self._grain: int | None = None  # elements of a job; None for one that is not stacked
        self._jobs: deque[tuple[Job, range]] = deque()
        self._index = 0
        weakref.finalize(self, _close, self._crew, view)

    def next(self) -> Any:
        return self._take(None)[0]

    def chunk(self, count: int) -> tuple[Any, int]:
        return self._take(count)

    def _take(self, grain: int | None) -> tuple[Any, int]:
        if grain != self._grain:
            self._crew.forget([job for job, _ in self._jobs])
            self._jobs.clear()
            self._grain = grain
        self._fill()
        if not self._jobs:
            raise StopIteration
        job, rows = self._jobs[0]
        start, depth = time.perf_counter(), sum(job.done for job, _ in self._jobs)
        self._crew.wait([job])
        self._jobs.popleft()
        self._index = rows.stop
        value = job.result()
        if listening():
            tell_taken(self._crew.name, start, depth, value)
        return value, len(rows)

    def _fill(self) -> None:
        begun = self._jobs[-1][1].stop if self._jobs else self._index
        while len(self._jobs) < self._ahead and begun < self._view.length:
            if self._grain is None:
                rows = range(begun, begun + 1)
                job = Job(partial(self._view.element, begun))
            else:
                rows = range(begun, min(begun + self._grain, self._view.length))
                job = Job(partial(self._view.rows, rows))
            self._crew.submit(job)
            self._jobs.append((job, rows))
            begun = rows.stop

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index}

    def restore(self, state: dict[str, Any]) -> None:
        check_position(state["index"], self._view.length)
        self._index = state["index"]

    def close(self) -> None:
        _close(self._crew, self._view)


class _Mapped(Protocol):
    def __call__(self, index: int, element: Any) -> Any: ...
    def close(self) -> None: ...


@final
class _Begun:
    """An element of the source, and what it is mapped to.

    Attributes:
        job: the call.
        state: of the source, behind the element.
        taken: whether it was handed out.
        read: whether there is an element; else the source raised, and so does the job.
    """

    __slots__ = ("job", "read", "state", "taken")

    def __init__(self, job: Job, state: dict[str, Any], taken: bool, read: bool) -> None:
        self.job = job
        self.state = state
        self.taken = taken
        self.read = read


@final
class ParallelMapCursor(AbstractCursor):
    """What a source gives one after the other is mapped by several threads.

    Without an order, a position is that of the first element that was not handed out yet, and a
    mask of those behind it that were.
    """

    __slots__ = (
        "__weakref__", "_ahead", "_begun", "_crew", "_ended", "_index", "_mapped", "_on_error",
        "_ordered", "_overtaken", "_source", "_state",
    )  # fmt: skip

    def __init__(
        self, source: AbstractCursor, mapped: _Mapped, workers: Threads, ordered: bool,
        on_error: OnError,
    ) -> None:  # fmt: skip
        self._source = source
        self._mapped = mapped
        self._crew = Crew(workers.name, workers.count)
        self._ahead = _AHEAD * workers.count
        self._ordered = ordered
        self._on_error = on_error
        self._begun: deque[_Begun] = deque()
        self._index = 0  # of the first of them in the source
        self._overtaken = 0  # when restored: a bit for each element that had been handed out
        self._state: dict[str, Any] | None = None  # of the source at the index
        self._ended = False
        weakref.finalize(self, _close, self._crew, source, mapped)

    def next(self) -> Any:
        while True:
            self._fill()
            waiting = [begun for begun in self._begun if not begun.taken]
            if not waiting:
                raise StopIteration
            start, depth = time.perf_counter(), sum(begun.job.done for begun in waiting)
            jobs = [begun.job for begun in waiting[: 1 if self._ordered else None]]
            chosen = waiting[self._crew.wait(jobs)]
            self._take(chosen)
            try:
                value = chosen.job.result()
            except Exception as error:
                if chosen.read and skips(self._on_error, error, self._crew.name):
                    continue
                raise
            if listening():
                tell_taken(self._crew.name, start, depth, value)
            return value

    def _take(self, chosen: _Begun) -> None:
        chosen.taken = True
        while self._begun and self._begun[0].taken:
            first = self._begun.popleft()
            self._state = first.state
            self._index += first.read

    def _fill(self) -> None:
        """Begin what may be begun; an error of the source waits for its turn."""
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
        if error is not None:
            job = Job(_nothing)
            job.fail(error)
            del error  # its traceback leads here
            self._begun.append(_Begun(job, self._source.state, False, False))
            return True
        index = self._index + sum(begun.read for begun in self._begun)
        job = Job(partial(self._mapped, index, element))
        taken = bool(self._overtaken & 1)
        self._overtaken >>= 1
        self._begun.append(_Begun(job, self._source.state, taken, True))
        if not taken:
            self._crew.submit(job)
        return not taken

    def chunk(self, count: int) -> tuple[Any, int]:
        return stack_next(self, count)

    @property
    def state(self) -> dict[str, Any]:
        source = self._source.state if self._state is None else self._state
        found = {"index": self._index, "source": source}
        if not self._ordered:
            bits = [begun.taken for begun in self._begun if begun.read]
            mask = sum(bit << i for i, bit in enumerate(bits))
            found["overtaken"] = mask | self._overtaken << len(bits)
        return found

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state["source"])
        self._index = state["index"]
        self._overtaken = state.get("overtaken", 0)

    def close(self) -> None:
        _close(self._crew, self._mapped, self._source)


def _read(source: AbstractCursor) -> tuple[Any, Exception | None]:
    """The next element, or why there is none. A function, so that no traceback knows the cursor."""
    try:
        return source.next(), None
    except Exception as error:
        return None, error


def _nothing() -> None:
    """What a job does that failed before it began."""
