"""Stages that put elements together: batch, repeat and zip."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, final

from eagerflow.data.base.elements import join
from eagerflow.data.base.stage import (
    AbstractCursor,
    AbstractFollower,
    AbstractStage,
    AbstractView,
    Length,
    Rows,
    Threads,
)
from eagerflow.data.workers.opening import open_stage
from eagerflow.errors import TensorValueError
from eagerflow.extending.pipelines import QueueState

__all__ = ["BatchStage", "RepeatStage", "ZipStage"]

_ENDLESS_EPOCH: Final = 2**32  # passes that an epoch of an endless dataset has numbers for


@final
class BatchStage(AbstractStage):
    """So many elements at a time, stacked."""

    __slots__ = ("count", "drop_last", "sources")
    seed = None

    def __init__(self, of: AbstractStage, count: int, drop_last: bool) -> None:
        self.sources = (of,)
        self.count = count
        self.drop_last = drop_last

    @property
    def length(self) -> Length:
        length = self.sources[0].length
        if length is None or length == math.inf:
            return length
        return int(length) // self.count if self.drop_last else -(-int(length) // self.count)

    def view(self, epoch: int) -> None:
        return None

    def cursor(self, epoch: int) -> AbstractCursor:
        source = open_stage(self.sources[0], epoch)
        return _BatchCursor(source, self.count, self.drop_last)

    def __str__(self) -> str:
        return f"{self.sources[0]}.batch({self.count}{', drop_last=True' * self.drop_last})"


@final
class _BatchCursor(AbstractFollower):
    __slots__ = ("_count", "_drop_last")

    def __init__(self, source: AbstractCursor, count: int, drop_last: bool) -> None:
        super().__init__(source)
        self._count = count
        self._drop_last = drop_last

    def next(self) -> Any:
        rows, taken = self._source.chunk(self._count)
        if taken < self._count and self._drop_last:
            raise StopIteration
        return rows


@final
class RepeatStage(AbstractStage):
    """The elements again and again, each pass an epoch of the source."""

    __slots__ = ("count", "sources")
    seed = None

    def __init__(self, of: AbstractStage, count: int | None) -> None:
        self.sources = (of,)
        self.count = count

    @property
    def length(self) -> Length:
        length = self.sources[0].length
        if length == 0 or self.count == 0:
            return 0
        return length if length is None else length * (self.count or math.inf)

    def view(self, epoch: int) -> None:
        return None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _RepeatCursor(self.sources[0], epoch, self.count)

    def __str__(self) -> str:
        return f"{self.sources[0]}.repeat({'' if self.count is None else self.count})"


@final
class _RepeatCursor(AbstractFollower):
    """A pass that gives nothing is the last one: else an empty source would keep us for ever."""

    __slots__ = ("_count", "_first", "_pass", "_stage")

    def __init__(self, stage: AbstractStage, epoch: int, count: int | None) -> None:
        self._stage = stage
        self._count = count
        self._first = epoch * (_ENDLESS_EPOCH if count is None else count)
        self._pass = 0
        super().__init__(open_stage(stage, self._first))

    def next(self) -> Any:
        return self._read(lambda source: source.next())

    def chunk(self, count: int) -> tuple[Any, int]:
        pieces = []
        missing = count
        try:
            while missing:
                piece, taken = self._read(lambda source, most=missing: source.chunk(most))
                pieces.append(piece)
                missing -= taken
        except StopIteration:
            if not pieces:
                raise
        return join(pieces), count - missing

    def _read(self, read: Callable[..., Any]) -> Any:
        """What ``read`` gives of this pass, or of the next."""
        if self._count == 0:
            raise StopIteration
        try:
            return read(self._source)
        except StopIteration:
            if self._pass + 1 == self._count:
                raise
        self._open(self._pass + 1)
        self._pass += 1
        try:
            return read(self._source)
        except StopIteration:
            self._count = self._pass + 1
            raise

    @property
    def state(self) -> dict[str, Any]:
        return {"pass": self._pass, "source": self._source.state}

    def restore(self, state: dict[str, Any]) -> None:
        if state["pass"]:
            if self._count is not None and state["pass"] >= self._count:
                raise TensorValueError(
                    "this position is behind the end of the dataset",
                    given=f"pass {state['pass']}, counted from 0",
                    expected=f"a pass below {self._count}",
                )
            self._pass = state["pass"]
            self._open(self._pass)
        self._source.restore(state["source"])

    def _open(self, number: int) -> None:
        self._source.close()
        self._source = open_stage(self._stage, self._first + number)


@final
class ZipStage(AbstractStage):
    """Tuples of an element of each source, as many as the shortest has."""

    __slots__ = ("sources",)
    seed = None

    def __init__(self, sources: tuple[AbstractStage, ...]) -> None:
        self.sources = sources

    @property
    def length(self) -> Length:
        lengths = [source.length for source in self.sources]
        known = [length for length in lengths if length is not None]
        return min(known) if len(known) == len(lengths) or 0 in known else None

    def view(self, epoch: int) -> AbstractView | None:
        views = [view for source in self.sources if (view := source.view(epoch)) is not None]
        return _ZipView(views) if len(views) == len(self.sources) else None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _ZipCursor([open_stage(source, epoch) for source in self.sources])

    def __str__(self) -> str:
        return f"zip({', '.join(f'Dataset.{source}' for source in self.sources)})"


@final
class _ZipView(AbstractView):
    __slots__ = ("_sources",)

    def __init__(self, sources: list[AbstractView]) -> None:
        self._sources = sources

    @property
    def length(self) -> int:
        return min(source.length for source in self._sources)

    def element(self, index: int) -> Any:
        return tuple(source.element(index) for source in self._sources)

    def rows(self, rows: Rows) -> Any:
        return tuple(source.rows(rows) for source in self._sources)

    @property
    def workers(self) -> Threads | None:
        threads = [x for source in self._sources if (x := source.workers) is not None]
        return max(threads, key=lambda x: x.count, default=None)

    def close(self) -> None:
        for source in self._sources:
            source.close()


@final
class _ZipCursor(AbstractCursor):
    __slots__ = ("_sources",)

    def __init__(self, sources: list[AbstractCursor]) -> None:
        self._sources = sources

    def next(self) -> Any:
        elements, failed = [], None
        for source in self._sources:  # all of them, also after an error: they stay side by side
            try:
                elements.append(source.next())
            except StopIteration:
                raise failed or StopIteration from None
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return tuple(elements)

    @property
    def state(self) -> dict[str, Any]:
        return {"sources": [source.state for source in self._sources]}

    def restore(self, state: dict[str, Any]) -> None:
        for source, inner in zip(self._sources, state["sources"], strict=True):
            source.restore(inner)

    def close(self) -> None:
        for source in self._sources:
            source.close()

    @property
    def queues(self) -> list[QueueState]:
        return [queue for source in self._sources for queue in source.queues]
