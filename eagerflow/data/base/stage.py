"""Base classes of the stages of a pipeline, and of their cursors and random access.

A *stage* describes a transformation and never changes. It is read, for one epoch, by *random
access*, any element at any time, or else through a *cursor*, one element after the other. A
position of a cursor consists of plain numbers. A stage reads the cursor of its source only through
`AbstractCursor`, whatever fills it.
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

#: a number of elements: infinite for endless datasets, None where not known
Length: TypeAlias = int | float | None
#: indices for random access: an interval, or any indices in any order
Rows: TypeAlias = range | np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True)
class Threads:
    """The threads that work on a stage.

    Attributes:
        name: of their work.
        count: the number of threads.
    """

    name: str
    count: int


class AbstractRandomAccess(ABC):
    """A stage in one epoch, its elements in any order."""

    @property
    @abstractmethod
    def length(self) -> int:
        """The number of elements."""

    @abstractmethod
    def element(self, index: int) -> Any:
        """The element at ``index``."""

    @abstractmethod
    def rows(self, rows: Rows) -> Any:
        """The elements at ``rows`` (at least one), stacked."""

    @property
    def workers(self) -> Threads | None:
        """The threads that make the elements; None for the thread that reads."""

    def close(self) -> None:
        """Release threads and processes, as `AbstractCursor.close`."""


@dataclass(eq=False, repr=False)
class AbstractDerived(AbstractRandomAccess):
    """Random access to elements that are made one by one from those of a source."""

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
    """Random access to elements of a source in another order, by their indices."""

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

    After an error its position is behind the elements that it had taken.
    """

    @abstractmethod
    def next(self) -> Any:
        """The next element; raises StopIteration if there is none."""

    def chunk(self, count: int) -> tuple[Any, int]:
        """The next elements stacked, and their number.

        There are fewer than ``count`` only at the end; raises StopIteration if there is none.
        """
        elements = self.some(count)
        return stack(elements), len(elements)

    def some(self, count: int) -> list[Any]:
        """The elements of `chunk`, not stacked."""
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
        """Go to a position; to be called before the first read."""

    def close(self) -> None:
        """Release threads and processes.

        Any thread may call it, also while another thread reads, which then gets a CancelledError.
        The position can still be read.
        """

    @property
    def queues(self) -> list[QueueState]:
        """The queues that elements pass before this cursor, in the order of the pipeline."""
        return []


@dataclass(eq=False, repr=False)
class AbstractFollower(AbstractCursor):
    """A cursor that reads a source cursor and shares its position."""

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
    """A cursor that reads a source cursor and counts the elements read."""

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
    """A cursor that holds elements, and restores a position by reading the epoch from its start.

    Attributes:
        _index: the number of elements handed out.
        read: the number of elements requested from the source.
        failed: the number of requests that raised an error.
    """

    _index = 0
    read = 0
    failed = 0

    @abstractmethod
    def give(self) -> Any:
        """Take the next element, or its parts; raises StopIteration if there is none."""

    @abstractmethod
    def fill(self) -> None:
        """Hold one more element of the source; raises StopIteration if there is none."""

    def read_one(self) -> Any:
        """Read and count the next element of the source."""
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
    """A stage of a pipeline.

    Attributes:
        seed: the seed of its random choices, or None.
        threads: whether its cursors have threads, which read ahead.
        once: whether it can be opened only once.
    """

    seed: Seed | None = None
    threads: bool = False
    once: bool = False

    @property
    def sources(self) -> tuple[AbstractStage, ...]:
        """The stages that it reads."""
        return ()

    @property
    @abstractmethod
    def length(self) -> Length:
        """The number of elements of an epoch."""

    def random_access(self, epoch: int) -> AbstractRandomAccess | None:
        """Random access to the elements, or None if there is none."""
        return None

    @abstractmethod
    def cursor(self, epoch: int) -> AbstractCursor:
        """A cursor over the elements; called only if there is no random access."""

    @abstractmethod
    def __str__(self) -> str:
        """The pipeline up to here, as it was written."""


@dataclass(eq=False, repr=False)
class AbstractStep(AbstractStage):
    """A stage that reads one source stage, and by default has as many elements.

    Attributes:
        of: the source stage.
    """

    of: AbstractStage

    @property
    def sources(self) -> tuple[AbstractStage, ...]:
        return (self.of,)

    @property
    def length(self) -> Length:
        return self.of.length


class AbstractSourceStage(AbstractStage, AbstractRandomAccess):
    """A stage without sources, with random access to its elements."""

    @property
    @abstractmethod
    def length(self) -> int: ...

    def random_access(self, epoch: int) -> AbstractRandomAccess:
        return self

    def cursor(self, epoch: int) -> AbstractCursor:
        raise AssertionError("a stage with random access needs no cursor")


def collected(count: int, read: Callable[[int], tuple[Any, int]]) -> tuple[Any, int]:
    """The result of `AbstractCursor.chunk` from rows that come in pieces.

    Args:
        count: the number of rows.
        read: takes the number of missing rows, returns some of them and their number.
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
    """The error for a position behind the end of a dataset."""
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
    """Whether threads of a pipeline read ahead."""
    return stage.threads or any(threaded(source) for source in stage.sources)


def once(stage: AbstractStage) -> bool:
    """Whether a pipeline can be opened only once."""
    return stage.once or any(once(source) for source in stage.sources)
