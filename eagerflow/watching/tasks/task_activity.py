"""A watcher's data about tasks: regions that ran there, their health, and places of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, NamedTuple, final

from eagerflow.watching.activity import Activity
from eagerflow.watching.limits import LOG_ROWS, TIMELINE_STEPS
from eagerflow.watching.sampler import Place
from eagerflow.watching.tasks.sources import (
    Health,
    TaskHealth,
    TaskNews,
    TaskPlace,
    TaskRegion,
    task_sources,
)

#: seconds after which the places of a task's threads are outdated
_STALE: Final = 1.0


class TaskChange(NamedTuple):
    """A change of a task's health.

    Attributes:
        task: its name.
        health: its health now (see `TaskHealth`).
        time: the time of the change.
    """

    task: str
    health: Health
    time: float


@final
class TaskActivity:
    """A subscriber to the news of tasks. One thread calls `collect`, some times a second.

    Args:
        activity: receives their transfers, like those of this process.

    Attributes:
        regions: the last regions that ran at tasks.
        told: number of regions in all.
        changes: the last changes of the health of tasks.
        changed: number of changes in all.
        health: the health of each task now, without tasks that were ended.
    """

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._news: deque[TaskNews] = deque(maxlen=LOG_ROWS)
        self.hear: Final = self._news.append
        self._is_open = False
        self.regions: deque[TaskRegion] = deque(maxlen=TIMELINE_STEPS)
        self.told = 0
        self.changes: deque[TaskChange] = deque(maxlen=LOG_ROWS)
        self.changed = 0
        self.health: dict[str, TaskHealth] = {}
        self._places: dict[str, tuple[float, Sequence[TaskPlace]]] = {}
        self._since: dict[tuple[str, int, int, str], float] = {}  # first report of each place

    def open(self) -> None:
        """Subscribe to the news of tasks."""
        self._is_open = True
        task_sources.subscribe(self)

    def close(self) -> None:
        """End the subscription."""
        self._is_open = False
        task_sources.unsubscribe(self)

    def look(self) -> None:
        """Request news of the tasks, which comes later."""
        task_sources.look()

    def _look_after(self) -> None:
        """Note changes of the health of tasks, which this process knows without asking them."""
        now = dict(task_sources.health())
        for task, before in list(self.health.items()):
            if task not in now:
                del self.health[task]
                since = before.since if before.health == "lost" else perf_counter()
                self._change(TaskChange(task, "gone", since))
        for task, health in now.items():
            if self.health.get(task) != health:
                self.health[task] = health
                self._change(TaskChange(task, *health))

    def _change(self, change: TaskChange) -> None:
        self.changes.append(change)
        self.changed += 1

    def collect(self) -> None:
        """Take in the news of tasks, and their health."""
        if self._is_open:
            self._look_after()
        while self._news:
            news = self._news.popleft()
            self.regions.extend(news.regions)
            self.told += len(news.regions)
            for move in news.moves:
                self._activity.end(move)
            for level in news.levels:
                self._activity.brief_level(level)
            for sums in news.sums:
                self._activity.add_transfers(*sums)
            self._places[news.task] = perf_counter(), news.places

    def places(self, now: float, is_long: Callable[[int], bool]) -> list[Place]:
        """The places of threads of tasks, as last reported.

        Args:
            now: the time.
            is_long: whether the steps of an executable are long enough to show a place.
        """
        before, self._since = self._since, {}
        places = []
        for task, (when, told) in self._places.items():
            for place in told if when >= perf_counter() - _STALE else ():
                if is_long(place.executable):
                    key = task, place.thread, place.executable, place.node
                    since = self._since[key] = before.get(key, now)
                    places.append(Place(0, place.executable, place.node, "works", since,
                                        place.frames, progress=place.progress))  # fmt: skip
        return places
