"""What a watcher knows of tasks: what ran there, how they are, and where their threads are."""

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

#: seconds after which it is not shown any more where threads of a task were
_STALE: Final = 1.0


class TaskChange(NamedTuple):
    """A task is not as it was before.

    Attributes:
        task: its name.
        health: how it is now (see `TaskHealth`).
        time: since when.
    """

    task: str
    health: Health
    time: float


@final
class TaskActivity:
    """Hears what tasks tell. `collect` is called by one thread, some times a second.

    Args:
        activity: is told of their transfers, as of those of this process.

    Attributes:
        regions: the last that ran at tasks.
        told: how many regions there were in all.
        changes: of how tasks are.
        changed: how many of these there were in all.
        health: how each task is now; those that were ended are gone.
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
        self._since: dict[tuple[str, int, int, str], float] = {}  # when each place was told first

    def open(self) -> None:
        """Somebody looks."""
        self._is_open = True
        task_sources.subscribe(self)

    def close(self) -> None:
        """Nobody does any more."""
        self._is_open = False
        task_sources.unsubscribe(self)

    def look(self) -> None:
        """Ask the tasks; what they tell comes soon."""
        task_sources.look()

    def _look_after(self) -> None:
        """How the tasks are now, which this process knows by itself."""
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
        """Take in what tasks have told, and how they are."""
        if self._is_open:
            self._look_after()
        while self._news:
            news = self._news.popleft()
            self.regions.extend(news.regions)
            self.told += len(news.regions)
            for move in news.moves:
                self._activity.end(move)
            for sums in news.sums:
                self._activity.add_transfers(*sums)
            self._places[news.task] = perf_counter(), news.places

    def places(self, now: float, is_long: Callable[[int], bool]) -> list[Place]:
        """Where threads of tasks are, as they told last.

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
