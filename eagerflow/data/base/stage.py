"""What the stages of a pipeline have in common.

A *stage* says what is to be done and never changes. It is read, for one epoch, by *random
access*, any element at any time, or else through a *cursor*, one element after the other. All that
a cursor knows of its position are numbers. What sits on top of another stage reads its
cursor only through `AbstractCursor`, whatever fills it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from eagerflow.data.base.elements import join, stack
from eagerflow.data.base.orders import Seed
from eagerflow.errors import TensorValueError
from eagerflow.extending import QueueState

#: a number of elements: infinite for endless ones, None where that is not known
Length: TypeAlias = int | float | None
#: which elements, by random access: an interval, or any in any order
Rows: TypeAlias = range | np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True)
class Threads:
    """How many threads work on a stage.

    Attributes:
        name: of what they do.
        count: how many.
    """

    name: str
    count: int


class AbstractRandomAccess(ABC):
    """A stage in one epoch, its elements in any order."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many elements there are."""

    @abstractmethod
    def element(self, index: int) -> Any:
        """The element at ``index``."""

    @abstractmethod
    def rows(self, rows: Rows) -> Any:
        """The elements at ``rows`` (at least one), stacked."""

    @property
    def workers(self) -> Threads | None:
        """Which threads make the elements, if it is not the thread that reads."""

    def close(self) -> None:
        """As that of a cursor."""


@dataclass(eq=False, repr=False)
class AbstractDerived(AbstractRandomAccess):
    """Random access to as many elements as another one has, made of those."""

    _source: AbstractRandomAccess

    @property
    def length(self) -> int:
        return self._source.length

    @property
    def workers(self) -> Threads | None:
        return self._source.workers

    def close(self) -> None:
        self._source.close()


@final
@dataclass(eq=False, repr=False)
class ReorderedAccess(AbstractDerived):
    """Some of the elements of another one, in an order: their numbers, which may be an interval."""

    _order: Rows

    @property
    def length(self) -> int:
        return len(self._order)

    def element(self, index: int) -> Any:
        return self._source.element(int(self._order[index]))

    def rows(self, rows: Rows) -> Any:
        order = self._order
        if isinstance(rows, range):
            return self._source.rows(order[rows.start : rows.stop])
        return self._source.rows(rows + order.start if isinstance(order, range) else order[rows])


class AbstractCursor(ABC):
    """A stage in one epoch, its elements one after the other.

    After an error it stands behind the elements that it had taken.
    """

    @abstractmethod
    def next(self) -> Any:
        """The next element; raises StopIteration if there is none."""

    def chunk(self, count: int) -> tuple[Any, int]:
        """The next elements stacked, and their number.

        There are fewer than ``count`` only at the end; StopIteration if there is none.
        """
        elements = self.some(count)
        return stack(elements), len(elements)

    def some(self, count: int) -> list[Any]:
        """The same elements, not stacked."""
        elements: list[Any] = []
        try:
            while len(elements) < count:
                elements.append(self.next())
        except StopIteration:
            if not elements:
                raise
        return elements

    @property
    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The position, in dicts and lists of plain numbers."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go to a position; only before anything was read."""

    def close(self) -> None:
        """Let go of threads and processes.

        Any thread may ask, also while another one reads, which gets a CancelledError then. The
        position can still be read.
        """

    @property
    def queues(self) -> list[QueueState]:
        """What elements wait in on their way to this cursor, in the order of the pipeline."""
        return []


@dataclass(eq=False, repr=False)
class AbstractFollower(AbstractCursor):
    """A cursor that reads another one, whose position is its own."""

    _source: AbstractCursor

    @property
    def state(self) -> dict[str, Any]:
        return self._source.state

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state)

    def close(self) -> None:
        self._source.close()

    @property
    def queues(self) -> list[QueueState]:
        return self._source.queues


class AbstractCounter(AbstractFollower):
    """A cursor that reads another one, and must know how many elements it has read."""

    _index = 0

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index, "source": self._source.state}

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state["source"])
        self._index = state["index"]


@dataclass(eq=False, repr=False)
class AbstractIndexed(AbstractCursor):
    """A cursor that reads by random access, and whose position is the index of the next element."""

    _elements: AbstractRandomAccess
    _index = 0

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index}

    def restore(self, state: dict[str, Any]) -> None:
        index, length = state["index"], self._elements.length
        if index > length:
            raise behind_end(index, length)
        self._index = index

    def close(self) -> None:
        self._elements.close()


class AbstractReplayed(AbstractFollower):
    """A cursor that holds elements, and comes to a position by reading the epoch from its start.

    Attributes:
        _index: how many elements it has given.
        read: how many it has asked its source for.
        failed: how many of these raised an error.
    """

    _index = 0
    read = 0
    failed = 0

    @abstractmethod
    def give(self) -> Any:
        """Take the next element, or what it is made of; StopIteration if there is none."""

    @abstractmethod
    def fill(self) -> None:
        """Hold one more element of the source; StopIteration if there is none."""

    def read_one(self) -> Any:
        """The next element of the source, which is counted."""
        try:
            element = self._source.next()
        except StopIteration:
            raise
        except Exception:
            self.read += 1
            self.failed += 1
            raise
        self.read += 1
        return element

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index, "read": self.read, "failed": self.failed}

    def restore(self, state: dict[str, Any]) -> None:
        while self._index < state["index"] or self.read < state["read"]:
            try:
                if self._index < state["index"]:
                    self.give()
                else:
                    self.fill()
            except StopIteration:
                raise behind_end(state["read"], self.read) from None
            except Exception:
                if self.failed > state["failed"]:  # else it was raised before, too
                    raise


class AbstractStage(ABC):
    """One step of a pipeline.

    Attributes:
        seed: what its random choices come from.
        threads: whether its cursors have threads, which read ahead.
        once: whether it can be opened only once.
    """

    seed: Seed | None = None
    threads: bool = False
    once: bool = False

    @property
    def sources(self) -> tuple[AbstractStage, ...]:
        """The stages it reads."""
        return ()

    @property
    @abstractmethod
    def length(self) -> Length:
        """How many elements an epoch has."""

    def random_access(self, epoch: int) -> AbstractRandomAccess | None:
        """The elements in any order, if they can be had so."""
        return None

    @abstractmethod
    def cursor(self, epoch: int) -> AbstractCursor:
        """The elements one after the other; asked only of a stage without random access."""

    @abstractmethod
    def __str__(self) -> str:
        """The pipeline up to here, as it was written."""


@dataclass(eq=False, repr=False)
class AbstractStep(AbstractStage):
    """A stage that reads one other stage, and has as many elements unless it says otherwise.

    Attributes:
        of: the other stage.
    """

    of: AbstractStage

    @property
    def sources(self) -> tuple[AbstractStage, ...]:
        return (self.of,)

    @property
    def length(self) -> Length:
        return self.of.length


class AbstractSourceStage(AbstractStage, AbstractRandomAccess):
    """A stage that reads no other one, and whose elements can be had in any order."""

    @property
    @abstractmethod
    def length(self) -> int: ...

    def random_access(self, epoch: int) -> AbstractRandomAccess:
        return self

    def cursor(self, epoch: int) -> AbstractCursor:
        raise AssertionError("what has random access needs no cursor")


def collected(count: int, read: Callable[[int], tuple[Any, int]]) -> tuple[Any, int]:
    """What `AbstractCursor.chunk` gives, of rows that come in pieces.

    Args:
        count: how many rows.
        read: takes how many are missing, gives some of them and their number.
    """
    pieces: list[Any] = []
    missing = count
    try:
        while missing:
            piece, taken = read(missing)
            pieces.append(piece)
            missing -= taken
    except StopIteration:
        if not pieces:
            raise
    return join(pieces), count - missing


def behind_end(index: int, length: int) -> TensorValueError:
    """The error for a position that nothing can be read up to."""
    return TensorValueError(
        "this position is behind the end of the dataset",
        given=f"element {index}",
        expected=f"at most {length}",
    )


def seeds(stage: AbstractStage) -> list[Seed]:
    """The seeds of a pipeline, in the order of its text."""
    source_seeds = [seed for source in stage.sources for seed in seeds(source)]
    return source_seeds if stage.seed is None else [*source_seeds, stage.seed]


def threaded(stage: AbstractStage) -> bool:
    """Whether a pipeline is read ahead by threads."""
    return stage.threads or any(threaded(source) for source in stage.sources)


def once(stage: AbstractStage) -> bool:
    """Whether a pipeline, once it was opened, cannot be opened again."""
    return stage.once or any(once(source) for source in stage.sources)
