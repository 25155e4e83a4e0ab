"""Stages that combine elements: batches, buckets by length, repeat and zip."""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from eagerflow.data.base.elements import Fill
from eagerflow.data.base.stage import (
    AbstractCursor,
    AbstractFollower,
    AbstractRandomAccess,
    AbstractReplayed,
    AbstractStage,
    AbstractStep,
    Length,
    Rows,
    Threads,
    collected,
)
from eagerflow.data.base.user_calls import UserCall
from eagerflow.data.workers.open_stage import open_stage
from eagerflow.errors import EagerflowError, TensorValueError, relocate
from eagerflow.extending import QueueState, Source

_ENDLESS_EPOCH: Final = 2**32  # number of passes reserved for an epoch of an endless dataset


@final
@dataclass(eq=False, repr=False)
class BatchStage(AbstractStep):
    """Batches of a number of elements, stacked.

    Attributes:
        count: the number of elements of a batch.
        drop_last: whether a smaller batch at the end is left out.
        padded: the padding of elements to one shape; None if they have one shape.
        source: the line that put it into the pipeline.
    """

    count: int
    drop_last: bool
    padded: Fill | None = None
    source: Source | None = None

    @property
    def length(self) -> Length:
        length = self.of.length
        if length is None or length == math.inf:
            return length
        return int(length) // self.count if self.drop_last else -(-int(length) // self.count)

    def cursor(self, epoch: int) -> AbstractCursor:
        return _BatchCursor(open_stage(self.of, epoch), self)

    def __str__(self) -> str:
        last = ", drop_last=True" * self.drop_last
        if self.padded is None:
            return f"{self.of}.batch({self.count}{last})"
        return f"{self.of}.padded_batch({self.count}{self.padded}{last})"


@final
@dataclass(eq=False, repr=False)
class _BatchCursor(AbstractFollower):
    _stage: BatchStage

    def next(self) -> Any:
        stage = self._stage
        try:
            rows, taken = self._rows()
        except EagerflowError as error:
            _relocate(error, "batch" if stage.padded is None else stage.padded.method, stage.source)
            raise
        if taken < stage.count and stage.drop_last:
            raise StopIteration
        return rows

    def _rows(self) -> tuple[Any, int]:
        """The elements of the next batch, stacked, and their number."""
        stage = self._stage
        if stage.padded is None:
            return self._source.chunk(stage.count)
        elements = self._source.some(stage.count)
        return stage.padded.pad(elements), len(elements)


def _relocate(error: EagerflowError, method: str, source: Source | None) -> None:
    """Let an error about the elements of a batch name the line of its stage, not of the loop."""
    if error.wrong.startswith(f"{method}: "):  # other errors are of the source
        relocate(error, source, settled=True)


@final
@dataclass(eq=False, repr=False)
class BucketStage(AbstractStep):
    """Batches of elements of similar length, padded and stacked.

    Attributes:
        call: gives the length of an element.
        bounds: between the buckets.
        counts: the batch size of each bucket.
        padded: the padding.
        drop_last: whether batches that are smaller are left out.
    """

    call: UserCall
    bounds: Sequence[int]
    counts: Sequence[int]
    padded: Fill
    drop_last: bool

    @property
    def length(self) -> Length:
        length = self.of.length
        return length if length in (0, math.inf) else None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _BucketCursor(open_stage(self.of, epoch), self)

    def __str__(self) -> str:
        same = len(set(self.counts)) == 1
        counts = self.counts[0] if same else self.counts
        last = ", drop_last=True" * self.drop_last
        head = str(self.call)[:-1]
        return f"{self.of}.{head}, {self.bounds}, {counts}{self.padded}{last})"


@final
class _BucketCursor(AbstractReplayed):
    def __init__(self, source: AbstractCursor, stage: BucketStage) -> None:
        super().__init__(source)
        self._stage = stage
        self._held: list[list[Any]] = [[] for _ in stage.counts]
        self._full: deque[list[Any]] = deque()  # at the end also the rests of the buckets
        self._put = 0  # number of elements that the function was called for

    def next(self) -> Any:
        elements = self.give()
        try:
            return self._stage.padded.pad(elements)
        except EagerflowError as error:
            _relocate(error, self._stage.padded.method, self._stage.call.source)
            raise

    def give(self) -> list[Any]:
        while not self._full:
            self.fill()
        self._index += 1
        return self._full.popleft()

    def fill(self) -> None:
        try:
            element = self.read_one()
        except StopIteration:
            left = [held for held in self._held if held]
            self._held = [[] for _ in self._held]
            if not left or self._stage.drop_last:
                raise
            self._full.extend(left)
            return
        self._put += 1
        try:
            length = self._stage.call(self._put - 1, element)
        except Exception:
            self.failed += 1
            raise
        which = bisect.bisect_right(self._stage.bounds, length)
        held = self._held[which]
        held.append(element)
        if len(held) == self._stage.counts[which]:
            self._held[which] = []
            self._full.append(held)


@final
@dataclass(eq=False, repr=False)
class RepeatStage(AbstractStep):
    """Repeated passes over the elements, each of which is an epoch of the source."""

    count: int | None

    @property
    def length(self) -> Length:
        length = self.of.length
        if length == 0 or self.count == 0:
            return 0
        return length if length is None else length * (self.count or math.inf)

    def cursor(self, epoch: int) -> AbstractCursor:
        return _RepeatCursor(self.of, epoch, self.count)

    def __str__(self) -> str:
        return f"{self.of}.repeat({'' if self.count is None else self.count})"


@final
class _RepeatCursor(AbstractFollower):
    """A cursor over passes; an empty pass is the last one, so that an empty source ends."""

    def __init__(self, stage: AbstractStage, epoch: int, count: int | None) -> None:
        self._stage = stage
        self._count = count
        self._first = epoch * (_ENDLESS_EPOCH if count is None else count)
        self._pass = 0
        super().__init__(open_stage(stage, self._first))

    def next(self) -> Any:
        return self._read(lambda source: source.next())

    def chunk(self, count: int) -> tuple[Any, int]:
        return collected(count, lambda most: self._read(lambda source: source.chunk(most)))

    def _read(self, read: Callable[..., Any]) -> Any:
        """The result of ``read`` for this pass, or at its end for the next pass."""
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
@dataclass(eq=False, repr=False)
class ZipStage(AbstractStage):
    """Tuples of an element of each source, as many as the shortest has."""

    of: tuple[AbstractStage, ...]

    @property
    def sources(self) -> tuple[AbstractStage, ...]:
        return self.of

    @property
    def length(self) -> Length:
        lengths = [source.length for source in self.sources]
        known = [length for length in lengths if length is not None]
        return min(known) if len(known) == len(lengths) or 0 in known else None

    def random_access(self, epoch: int) -> AbstractRandomAccess | None:
        parts = [
            part for source in self.sources if (part := source.random_access(epoch)) is not None
        ]
        return _ZipAccess(parts) if len(parts) == len(self.sources) else None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _ZipCursor([open_stage(source, epoch) for source in self.sources])

    def __str__(self) -> str:
        return f"zip({', '.join(f'Dataset.{source}' for source in self.sources)})"


@final
@dataclass(eq=False, repr=False)
class _ZipAccess(AbstractRandomAccess):
    _sources: list[AbstractRandomAccess]

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
@dataclass(eq=False, repr=False)
class _ZipCursor(AbstractCursor):
    _sources: list[AbstractCursor]

    def next(self) -> Any:
        elements, failed = [], None
        for source in self._sources:  # all of them, even after an error, to stay in step
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
