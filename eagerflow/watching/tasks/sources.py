"""Sources of news of tasks: clusters, which are polled while there is a subscriber."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, final

from eagerflow.events import BriefLevel, TransferEvent

Health = Literal["ready", "suspect", "lost", "gone"]


class TaskHealth(NamedTuple):
    """The health of a task.

    Attributes:
        health: ``"ready"``, ``"suspect"`` (it does not answer), ``"lost"``, or ``"gone"`` (it was
            ended on purpose).
        since: when it became so, in seconds of ``time.perf_counter``.
    """

    health: Health
    since: float


class TaskRegion(NamedTuple):
    """A region that has run at a task.

    Attributes:
        executable: the number of its executable in this process.
        region: its number at the task.
        device: where it ran, such as ``"worker:1/cpu:0"``.
        start: when it began, in seconds of ``time.perf_counter`` here.
        stop: when it had ended.
    """

    executable: int
    region: int
    device: str
    start: float
    stop: float


class TaskTransfers(NamedTuple):
    """Sums of transfers that are reported together.

    Attributes:
        origin: the device that sent the data.
        device: the device that received it.
        executable: the number of their executable in this process.
        transfers: number of transfers.
        nbytes: their bytes together.
        seconds: their seconds together.
    """

    origin: str
    device: str
    executable: int
    transfers: int
    nbytes: int
    seconds: float


class TaskPlace(NamedTuple):
    """The place of a thread of a task.

    Attributes:
        thread: identifies it among the threads of the task.
        executable: the number of its executable in this process.
        node: the name of the node.
        frames: the innermost loop around it, with the iteration.
        progress: the fraction done of its native kernel, from 0 to 1.
    """

    thread: int
    executable: int
    node: str
    frames: tuple[tuple[str, int], ...]
    progress: float


@final
class TaskNews(NamedTuple):
    """News of one task.

    Attributes:
        task: its name.
        regions: regions that have run.
        moves: transfers from the task that have ended.
        sums: sums of further transfers.
        places: the current places of its threads.
        levels: the levels of its queues that have changed.
    """

    task: str
    regions: Sequence[TaskRegion] = ()
    moves: Sequence[TransferEvent] = ()
    sums: Sequence[TaskTransfers] = ()
    places: Sequence[TaskPlace] = ()
    levels: Sequence[BriefLevel] = ()


class Subscriber(Protocol):
    """Receives the news of tasks."""

    def hear(self, news: TaskNews, /) -> None:
        """Take the news of a task; called in any thread, which it must not block."""


class TaskSource(Protocol):
    """Tasks that can be asked. Its methods block nothing."""

    def look(self) -> None:
        """Request news, unless an earlier request is unanswered."""

    def rest(self) -> None:
        """Stop: there is no subscriber left."""

    def health(self) -> Mapping[str, TaskHealth]:
        """The health of each of its tasks."""


@final
class TaskSources:
    """The sources of a process, and the subscribers to their news."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sources: tuple[TaskSource, ...] = ()
        self._subscribers: tuple[Subscriber, ...] = ()

    def add(self, source: TaskSource) -> None:
        """Add a source, to be polled from now on."""
        with self._lock:
            self._sources = (*self._sources, source)

    def remove(self, source: TaskSource) -> None:
        """Remove a source; a source that was never added is no error."""
        with self._lock:
            self._sources = tuple([s for s in self._sources if s is not source])

    def subscribe(self, subscriber: Subscriber) -> None:
        """Let a subscriber receive all news from now on."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """End a subscription. With the last one, sources are told to rest."""
        with self._lock:
            self._subscribers = tuple([s for s in self._subscribers if s is not subscriber])
            if not self._subscribers:
                for source in self._sources:
                    source.rest()

    def publish(self, news: TaskNews) -> None:
        """Give the news of a task to all subscribers."""
        for subscriber in self._subscribers:
            subscriber.hear(news)

    def look(self) -> None:
        """Request news of all tasks."""
        for source in self._sources:
            source.look()

    def health(self) -> Iterable[tuple[str, TaskHealth]]:
        """The health of all tasks, with their names."""
        return [item for source in self._sources for item in source.health().items()]


#: the sources of this process
task_sources: Final = TaskSources()
