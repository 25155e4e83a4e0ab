"""The shuffle stage: all elements at once, or by a buffer.

Both draw alike: `eagerflow.data.base.orders.permutation` predicts the order of a buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import eagerflow as ef
from eagerflow.data.base.orders import Seed, generator, permutation, words_of
from eagerflow.data.base.stage import (
    AbstractCursor,
    AbstractRandomAccess,
    AbstractReplayed,
    AbstractStep,
    ReorderedAccess,
)
from eagerflow.data.workers.open_stage import open_stage
from eagerflow.events import LevelEvent
from eagerflow.extending import QueueState, ShuffleStore


@final
@dataclass(eq=False, repr=False)
class ShuffleStage(AbstractStep):
    """The elements in random order."""

    size: int | None
    reshuffle: bool
    seed: Seed

    def _draws(self, epoch: int) -> ef.random.Generator:
        return generator(self.seed.value, epoch if self.reshuffle else 0)

    def random_access(self, epoch: int) -> AbstractRandomAccess | None:
        elements = self.of.random_access(epoch)
        if elements is None:
            return None
        order = permutation(elements.length, self.size, self._draws(epoch))
        return ReorderedAccess(elements, order)

    def cursor(self, epoch: int) -> AbstractCursor:
        size = int(self.length or 1) if self.size is None else self.size
        return BufferCursor(open_stage(self.of, epoch), size, self._draws(epoch))

    def __str__(self) -> str:
        size = "" if self.size is None else f"{self.size}, "
        fixed = "" if self.reshuffle else ", reshuffle=False"
        return f"{self.of}.shuffle({size}seed={self.seed}{fixed})"


@final
class BufferCursor(AbstractReplayed):
    """A cursor that hands out a random one of the next ``size`` elements of its source.

    It is a shuffle queue that hands out elements only if it is full, or closed behind the last
    element. One thread puts in and takes out, and so never waits: it uses the store directly.

    Args:
        source: the cursor that it reads.
        size: the number of elements held.
        draws: the generator of the random choices, used by nothing else.

    Attributes:
        queue: the buffer as a resource.
        sent: the counter that the store keeps of a producer; not used.
    """

    def __init__(self, source: AbstractCursor, size: int, draws: ef.random.Generator) -> None:
        super().__init__(source)
        words = words_of(draws)
        self._store = ShuffleStore(size - 1, lambda count: next(words) % count)
        self.queue = QueueState(size, self._store, "shuffle", name="shuffle")
        self.sent = 0

    def next(self) -> Any:
        queue, store = self.queue, self._store
        while not queue.closed and len(store.items) < queue.room:
            try:
                self.fill()
            except StopIteration:
                queue.closed = True
                if LevelEvent.wanted:
                    queue.tell_change()
        if not store.items:
            raise StopIteration
        taken: list[Any] = []
        store.move(taken)
        queue.taken += 1
        self._index += 1
        if LevelEvent.wanted:
            queue.tell_change()
        return taken[0]

    def give(self) -> Any:
        return self.next()

    def fill(self) -> None:
        self._store.put(self, self.read_one(), 0)
        if LevelEvent.wanted:
            self.queue.tell_change()

    @property
    def queues(self) -> list[QueueState]:
        return [*self._source.queues, self.queue]
