"""What the stages of a pipeline have in common.

A *stage* says what is to be done and never changes. Reading it for one epoch makes either a
*view*, which gives any element at any time, or a *cursor*, which gives one after the other. All
that a cursor knows of its position are numbers. What sits on top of another stage reads its
cursor only through `AbstractCursor`, whatever fills it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from eagerflow.data.base.elements import stack
from eagerflow.data.base.orders import Seed
from eagerflow.errors import TensorValueError
from eagerflow.extending.pipelines import QueueState

__all__ = [
    "AbstractCounter",
    "AbstractCursor",
    "AbstractDerived",
    "AbstractFollower",
    "AbstractStage",
    "AbstractView",
    "Length",
    "Rows",
    "Threads",
    "behind_end",
    "check_position",
    "once",
    "seeds",
    "threaded",
]

#: a number of elements: infinite for endless ones, None where that is not known
Length: TypeAlias = int | float | None
#: which elements of a view: an interval, or any in any order
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


class AbstractView(ABC):
    """A stage in one epoch, its elements in any order."""

    __slots__ = ()

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
    @abstractmethod
    def workers(self) -> Threads | None:
        """Which threads make the elements, if it is not the thread that reads."""

    def close(self) -> None:
        """As that of a cursor."""


class AbstractDerived(AbstractView):
    """A view of as many elements as another one has, made of those.

    Args:
        source: the other one.
    """

    __slots__ = ("_source",)

    def __init__(self, source: AbstractView) -> None:
        self._source = source

    @property
    def length(self) -> int:
        return self._source.length

    @property
    def workers(self) -> Threads | None:
        return self._source.workers

    def close(self) -> None:
        self._source.close()


class AbstractCursor(ABC):
    """A stage in one epoch, its elements one after the other.

    After an error it stands behind the elements that it had taken.
    """

    __slots__ = ()

    @abstractmethod
    def next(self) -> Any:
        """The next element; raises StopIteration if there is none."""

    def chunk(self, count: int) -> tuple[Any, int]:
        """The next elements stacked, and their number.

        There are fewer than ``count`` only at the end; StopIteration if there is none.
        """
        elements: list[Any] = []
        try:
            while len(elements) < count:
                elements.append(self.next())
        except StopIteration:
            if not elements:
                raise
        return stack(elements), len(elements)

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


class AbstractFollower(AbstractCursor):
    """A cursor that reads another one, whose position is its own.

    Args:
        source: the other one.
    """

    __slots__ = ("_source",)

    def __init__(self, source: AbstractCursor) -> None:
        self._source = source

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

    __slots__ = ("_index",)

    def __init__(self, source: AbstractCursor) -> None:
        super().__init__(source)
        self._index = 0

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index, "source": self._source.state}

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state["source"])
        self._index = state["index"]


class AbstractStage(ABC):
    """One step of a pipeline.

    Attributes:
        sources: the stages it reads.
        seed: what its random choices come from.
        threads: whether its cursors have threads, which read ahead.
        once: whether it can be opened only once.
    """

    __slots__ = ()
    sources: tuple[AbstractStage, ...]
    seed: Seed | None
    threads: bool = False
    once: bool = False

    @property
    @abstractmethod
    def length(self) -> Length:
        """How many elements an epoch has."""

    @abstractmethod
    def view(self, epoch: int) -> AbstractView | None:
        """The elements in any order, if they can be had so."""

    @abstractmethod
    def cursor(self, epoch: int) -> AbstractCursor:
        """The elements one after the other; asked only of a stage that has no view."""

    @abstractmethod
    def __str__(self) -> str:
        """The pipeline up to here, as it was written."""


def check_position(index: int, length: int) -> None:
    """Refuse a position behind the end."""
    if index > length:
        raise behind_end(index, length)


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
