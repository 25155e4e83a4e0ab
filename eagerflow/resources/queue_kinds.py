"""Kinds of queues: the store of the elements of each, and its options.

A new kind is a row of `KINDS`, with a store if none of these will do, and a word in the signature
and the docstring of `Queue`.

Changes that must happen together are written without a call in between (see
`eagerflow.resources.waiting_operations`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, Final, final


class AbstractStore(ABC):
    """The elements of a queue, as *entries*, which include the data needed to put one back.

    Attributes:
        items: the entries.
        together: whether all entries of one dequeue must be there before the first is taken.
    """

    __slots__ = ("items",)
    items: Any
    together = False

    def available(self, closed: bool) -> int:
        """The number of entries that can be taken."""
        return len(self.items)

    def put(self, taker: Any, element: Any, priority: int) -> None:
        """Add an element, and increment ``taker.sent`` at the same moment."""
        items = self.items
        items += (element,)
        taker.sent += 1

    @abstractmethod
    def move(self, taken: list[Any]) -> None:
        """Move the next entry to the end of ``taken``. There must be an entry."""

    @abstractmethod
    def restore(self, taker: Any) -> None:
        """Put the entries of ``taker.taken`` back, so that they are taken next."""

    def element(self, entry: Any) -> Any:
        """The element of an entry."""
        return entry


@final
class FifoStore(AbstractStore):
    """First in, first out.

    >>> from eagerflow.extending import FifoStore, QueueState
    >>> queue = QueueState(None, FifoStore())
    >>> queue.put_at_once("a"), queue.put_at_once("b")
    (True, True)
    >>> queue.take_at_once(), queue.take_at_once(), queue.take_at_once()
    (['a'], ['b'], [])
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.items = deque[Any]()

    def move(self, taken: list[Any]) -> None:
        items = self.items
        taken += (items[0],)
        del items[0]

    def restore(self, taker: Any) -> None:
        backwards = taker.taken[::-1]
        taker.taken = []
        self.items.extendleft(backwards)


@final
class ShuffleStore(AbstractStore):
    """A store in random order: any element may be the next.

    Args:
        least: the number of elements that stay, to choose from, until the queue is closed.
        draw: gives a random number below its argument.

    >>> from eagerflow.extending import QueueState, ShuffleStore
    >>> queue = QueueState(None, ShuffleStore(1, lambda count: count - 1), "shuffle")
    >>> queue.put_at_once("a"), queue.put_at_once("b")
    (True, True)
    >>> queue.take_at_once(), queue.take_at_once()
    (['b'], [])
    """

    __slots__ = ("_draw", "_least")

    def __init__(self, least: int, draw: Callable[[int], int]) -> None:
        self.items = list[Any]()
        self._least = least
        self._draw = draw

    def available(self, closed: bool) -> int:
        return len(self.items) - (0 if closed else self._least)

    def move(self, taken: list[Any]) -> None:
        items = self.items
        i = self._draw(len(items))
        taken += (items[i],)
        items[i] = items[-1]
        del items[-1]

    def restore(self, taker: Any) -> None:
        items, back = self.items, taker.taken
        taker.taken = []
        items += back


class AbstractHeap(AbstractStore):
    """A heap: the lowest priority first; among equals in order of arrival.

    Attributes:
        gone: the number of elements taken, without those that were put back.
    """

    __slots__ = ("_serial", "gone")

    def __init__(self) -> None:
        self.items = list[Any]()
        self._serial = self.gone = 0

    def put(self, taker: Any, element: Any, priority: int) -> None:
        items, entry = self.items, (priority, self._serial, element)
        self._serial += 1
        taker.sent += 1
        heappush(items, entry)

    def move(self, taken: list[Any]) -> None:
        items = self.items
        taken += (items[0],)
        self.gone += 1
        heappop(items)

    def restore(self, taker: Any) -> None:
        items, back = self.items, taker.taken
        taker.taken = []
        self.gone -= len(back)
        items += back
        heapify(items)

    def element(self, entry: Any) -> Any:
        return entry[2]


@final
class PriorityStore(AbstractHeap):
    """The lowest priority first; among equals in order of arrival."""

    __slots__ = ()
    together = True  # a later element may have a lower priority


@final
class SequenceStore(AbstractHeap):
    """A store in order of number, from 0 on without gaps: elements wait for lower numbers.

    The number of an element is its priority. Elements come from several workers at once, and leave
    in the order in which the work was given out.

    >>> from eagerflow.extending import QueueState, SequenceStore
    >>> queue = QueueState(None, SequenceStore(), "sequence")
    >>> queue.put_at_once("b", 1), queue.take_at_once()
    (True, [])
    >>> queue.put_at_once("a", 0), queue.take_at_once(), queue.take_at_once()
    (True, ['a'], ['b'])
    """

    __slots__ = ()

    def available(self, closed: bool) -> int:
        items = self.items
        return int(len(items) > 0 and items[0][0] == self.gone)


# --- kinds ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class QueueKind:
    """A kind of queue that users ask for by name.

    Attributes:
        store: makes the store of a queue, from the number of elements that stay to choose from,
            and a seed.
        chooses: whether it uses these two options.
        fills_up: whether elements of different sizes stack, padded with zeros.
        has_priorities: whether each element comes with a priority.
    """

    store: Callable[[int, int | None], AbstractStore]
    chooses: bool = False
    fills_up: bool = False
    has_priorities: bool = False


KINDS: Final[Mapping[str, QueueKind]] = {
    "fifo": QueueKind(lambda least, seed: FifoStore()),
    "shuffle": QueueKind(
        lambda least, seed: ShuffleStore(least, Random(seed).randrange), chooses=True
    ),
    "padding": QueueKind(lambda least, seed: FifoStore(), fills_up=True),
    "priority": QueueKind(lambda least, seed: PriorityStore(), has_priorities=True),
}
