"""Stages for elements of several lengths: batches that are padded, and buckets of like lengths."""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

from eagerflow.data.base.calls import UserCall
from eagerflow.data.base.checks import check_fill
from eagerflow.data.base.elements import pad
from eagerflow.data.base.stage import (
    AbstractCursor,
    AbstractFollower,
    AbstractStage,
    Length,
    behind_end,
)
from eagerflow.data.workers.opening import open_stage

__all__ = ["BucketStage", "PaddedBatchStage"]


@final
class PaddedBatchStage(AbstractStage):
    """So many elements at a time, padded to the largest of them and stacked."""

    __slots__ = ("count", "drop_last", "sources", "value")
    seed = None

    def __init__(self, of: AbstractStage, count: int, value: Any, drop_last: bool) -> None:
        check_fill("padded_batch", value)
        self.sources = (of,)
        self.count = count
        self.value = value
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
        return _PaddedCursor(open_stage(self.sources[0], epoch), self)

    def __str__(self) -> str:
        value = "" if self.value == 0 else f", value={self.value}"
        last = ", drop_last=True" * self.drop_last
        return f"{self.sources[0]}.padded_batch({self.count}{value}{last})"


@final
class _PaddedCursor(AbstractFollower):
    __slots__ = ("_stage",)

    def __init__(self, source: AbstractCursor, stage: PaddedBatchStage) -> None:
        super().__init__(source)
        self._stage = stage

    def next(self) -> Any:
        elements: list[Any] = []
        try:
            while len(elements) < self._stage.count:
                elements.append(self._source.next())
        except StopIteration:
            if not elements or self._stage.drop_last:
                raise
        return pad(elements, self._stage.value, "padded_batch")


@final
class BucketStage(AbstractStage):
    """Padded batches of elements whose lengths lie between the same two bounds."""

    __slots__ = ("bounds", "call", "counts", "drop_last", "sources", "value")
    seed = None

    def __init__(
        self, of: AbstractStage, call: UserCall, bounds: Sequence[int], counts: Sequence[int],
        value: Any, drop_last: bool,
    ) -> None:  # fmt: skip
        check_fill("bucket_by_length", value)
        self.sources = (of,)
        self.call: Callable[..., Any] = call
        self.bounds = tuple(bounds)
        self.counts = tuple(counts)
        self.value = value
        self.drop_last = drop_last

    @property
    def length(self) -> Length:
        length = self.sources[0].length
        return length if length in (0, math.inf) else None

    def view(self, epoch: int) -> None:
        return None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _BucketCursor(open_stage(self.sources[0], epoch), self)

    def __str__(self) -> str:
        same = len(set(self.counts)) == 1
        counts = self.counts[0] if same else list(self.counts)
        value = "" if self.value == 0 else f", value={self.value}"
        last = ", drop_last=True" * self.drop_last
        head = str(self.call)[:-1]
        return f"{self.sources[0]}.{head}, {list(self.bounds)}, {counts}{value}{last})"


@final
class _BucketCursor(AbstractFollower):
    """What is held is restored by reading the epoch from its start."""

    __slots__ = ("_asked", "_failed", "_full", "_held", "_index", "_read", "_stage")

    def __init__(self, source: AbstractCursor, stage: BucketStage) -> None:
        super().__init__(source)
        self._stage = stage
        self._held: list[list[Any]] = [[] for _ in stage.counts]
        self._full: deque[list[Any]] = deque()  # at the end, what is left in the buckets
        self._index = 0  # batches that were given
        self._read = 0  # elements
        self._asked = 0  # how often the source gave one, or failed
        self._failed = 0  # how often there was an error

    def next(self) -> Any:
        elements = self._gather()
        self._index += 1
        return pad(elements, self._stage.value, "bucket_by_length")

    def _gather(self) -> list[Any]:
        """The elements of the next batch."""
        while not self._full:
            self._fill()
        return self._full.popleft()

    def _fill(self) -> None:
        """Put the next element into its bucket."""
        try:
            self._put()
        except StopIteration:
            raise
        except Exception:
            self._failed += 1
            raise

    def _put(self) -> None:
        try:
            element = self._source.next()
        except StopIteration:
            left = [held for held in self._held if held]
            self._held = [[] for _ in self._held]
            if not left or self._stage.drop_last:
                raise
            self._full.extend(left)
            return
        except Exception:
            self._asked += 1
            raise
        self._asked += 1
        self._read += 1
        which = bisect.bisect_right(self._stage.bounds, self._stage.call(self._read - 1, element))
        held = self._held[which]
        held.append(element)
        if len(held) == self._stage.counts[which]:
            self._held[which] = []
            self._full.append(held)

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index, "read": self._asked, "failed": self._failed}

    def restore(self, state: dict[str, Any]) -> None:
        while self._index < state["index"] or self._asked < state["read"]:
            try:
                if self._index < state["index"]:
                    self._gather()
                    self._index += 1
                else:
                    self._fill()
            except StopIteration:
                raise behind_end(state["read"], self._asked) from None
            except Exception:
                if self._failed > state["failed"]:  # else it was raised before, too
                    raise
