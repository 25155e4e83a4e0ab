"""Where watchers learn what runs at tasks: clusters are sources, asked while somebody looks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, final

from eagerflow.events import TransferEvent

Health = Literal["ready", "suspect", "lost", "gone"]


class TaskHealth(NamedTuple):
    """How a task is.

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
        executable: the number of what it is a part of, in this process.
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
    """Transfers that are told together.

    Attributes:
        origin: from where.
        device: to where.
        executable: the number of what they are a part of, in this process.
        transfers: how many.
        nbytes: of them together.
        seconds: of them together.
    """

    origin: str
    device: str
    executable: int
    transfers: int
    nbytes: int
    seconds: float


class TaskPlace(NamedTuple):
    """Where a thread of a task is.

    Attributes:
        thread: tells it apart from other threads of the task.
        executable: the number of what it runs, in this process.
        node: the name of the node.
        frames: the innermost loop around it, with the iteration.
        progress: how much of a native kernel has run, from 0 to 1.
    """

    thread: int
    executable: int
    node: str
    frames: tuple[tuple[str, int], ...]
    progress: float


@final
class TaskNews(NamedTuple):
    """What one task has told.

    Attributes:
        task: its name.
        regions: that have run.
        moves: transfers that have ended, which a task has sent.
        sums: more of those.
        places: where its threads are now.
    """

    task: str
    regions: Sequence[TaskRegion] = ()
    moves: Sequence[TransferEvent] = ()
    sums: Sequence[TaskTransfers] = ()
    places: Sequence[TaskPlace] = ()


class Subscriber(Protocol):
    """Receives the news of tasks."""

    def hear(self, news: TaskNews, /) -> None:
        """Take the news of a task; called in any thread, which it must not block."""


class TaskSource(Protocol):
    """Tasks that can be asked. Its methods block nothing."""

    def look(self) -> None:
        """Ask what has happened, unless the question before was not answered yet."""

    def rest(self) -> None:
        """Stop: there is no subscriber left."""

    def health(self) -> Mapping[str, TaskHealth]:
        """How each of its tasks is."""


@final
class TaskSources:
    """The sources of a process, and the subscribers to their news."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sources: tuple[TaskSource, ...] = ()
        self._subscribers: tuple[Subscriber, ...] = ()

    def add(self, source: TaskSource) -> None:
        """Let a source be asked from now on."""
        with self._lock:
            self._sources = (*self._sources, source)

    def remove(self, source: TaskSource) -> None:
        """Ask a source no more; a source that was never added is no error."""
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
        """Ask all tasks."""
        for source in self._sources:
            source.look()

    def health(self) -> Iterable[tuple[str, TaskHealth]]:
        """How all tasks are, by their names."""
        return [item for source in self._sources for item in source.health().items()]


#: those of this process
task_sources: Final = TaskSources()
