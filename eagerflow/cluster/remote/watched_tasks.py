"""Tasks that are watched: clients ask them for news while a view is open."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Final, final

from eagerflow.cluster.processes.client.connections import Connections
from eagerflow.cluster.protocol.message_heads import STEPS, ErrorHead, Heads
from eagerflow.cluster.protocol.messages import Look
from eagerflow.cluster.protocol.values import Frame, decode_values
from eagerflow.cluster.relaying.clock_offset import ClockOffset
from eagerflow.cluster.relaying.news import News, ToldMove, decode
from eagerflow.cluster.relaying.step_relay import name_of_value
from eagerflow.cluster.relaying.transfer_ends import TransferEnds
from eagerflow.cluster.remote.task_devices import TaskDevices
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.errors import EagerflowError
from eagerflow.events import TransferEvent
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.watching.tasks.sources import (
    Health,
    TaskHealth,
    TaskNews,
    TaskPlace,
    TaskRegion,
    TaskTransfers,
    task_sources,
)

#: number of tasks asked at a time, so that all answers together take little time
_AT_ONCE: Final = 4


@final
class WatchedTasks:
    """The tasks of one cluster, as a `TaskSource`.

    Args:
        connections: the connections of this client.
        members: the tasks by name; the mapping may change.
    """

    def __init__(self, connections: Connections, members: Mapping[str, TaskDevices]) -> None:
        self._connections = connections
        self._members = members
        self._watched: dict[str, _Watched] = {}
        self._health: dict[str, TaskHealth] = {}
        self._ends = TransferEnds()
        self._next = 0  # index of the next task to be asked

    def look(self) -> None:
        """Ask tasks for news, of many a few in rotation, unless an earlier question is open."""
        self._connections.station.arrived = self._arrives
        every = list(self._members.items())
        first = self._next % max(len(every), 1)
        self._next = first + _AT_ONCE
        for task, member in (every[first:] + every[:first])[:_AT_ONCE]:
            known = self._watched.get(task)
            if known is None or known.process is not member.task:  # its clock is another one, too
                known = self._watched[task] = _Watched(self._connections, member.task, self._ends)
            if self._now(task, member) == "ready" and known.asked is None:
                known.ask()

    def rest(self) -> None:
        """Stop watching."""
        self._connections.station.arrived = None
        watched, self._watched = self._watched, {}
        for task, known in watched.items():
            answers = self._connections.health(task) in ("ready", "suspect")  # or will answer later
            if answers and known.process.lost is None:
                self._connections.tell(task, Look(0, False), _Unheard())

    def health(self) -> Mapping[str, TaskHealth]:
        """The health of each task, and the time since which it was seen."""
        before, now = self._health, {}
        for task, member in list(self._members.items()):
            health, known = self._now(task, member), before.get(task)
            if known is None or known.health != health:
                known = TaskHealth(health, perf_counter())
            now[task] = known
        self._health = now
        return now

    def _arrives(self, key: Key) -> None:
        value = name_of_value(key.edge, key.path)
        self._ends.arrived[key.step % STEPS, value] = perf_counter()

    def _now(self, task: str, member: TaskDevices) -> Health:
        health = self._connections.health(task)
        if member.task.lost is not None or health not in ("ready", "suspect"):
            return "lost"
        return "ready" if health == "ready" else "suspect"


@final
class _Watched:
    """One process of a watched task, with the callbacks for its answers.

    Attributes:
        process: the process.
        asked: time of the question not answered yet; None if there is none.
    """

    def __init__(self, connections: Connections, process: RemoteTask, ends: TransferEnds) -> None:
        self._connections = connections
        self._ends = ends
        self.process: Final = process
        self.asked: float | None = None
        self._offset = ClockOffset()

    def ask(self) -> None:
        """Ask for news."""
        self.asked = perf_counter()
        self._connections.tell(self.process.task, Look(0, True), self)

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        """Publish an answer; called by the thread that owns the sockets."""
        asked, answered, self.asked = self.asked, perf_counter(), None
        ((heads, frames),) = results.values()
        try:
            news = decode(decode_values(heads, iter(frames)))
        except EagerflowError:
            return  # unreadable news is not shown
        if asked is not None:
            self._offset.heard(asked, news.time, answered)
        task_sources.publish(self._here(news))

    def failed(self, head: ErrorHead) -> None:
        """Drop the question: the task is lost, or does not know it."""
        self.asked = None

    def _here(self, news: News) -> TaskNews:
        """The news, converted to the times and numbers of this process."""
        ahead = self._offset.seconds
        known = dict(self._connections.executables)  # finalisers remove partitions from it
        shown = self._connections.shown
        regions = [
            TaskRegion(known[told.partition], told.region, told.device,
                       told.start - ahead, told.stop - ahead)
            for told in news.regions if told.partition in known
        ]  # fmt: skip
        for arrival in news.arrivals:
            self._ends.arrived[arrival.step, arrival.value] = arrival.time - ahead
        for told in news.moves:
            if told.partition in known:
                move = self._move(told, known[told.partition], ahead)
                self._ends.sent((told.step, told.value), move)
        moves = self._ends.take(perf_counter())
        sums = [
            TaskTransfers(shown(told.origin), shown(told.device), known[told.partition], *told[3:])
            for told in news.sums if told.partition in known
        ]  # fmt: skip
        places = [
            TaskPlace(told.thread, known[told.partition], told.node,
                      ((told.frame, told.iteration),) if told.frame else (), told.progress)
            for told in news.places if told.partition in known
        ]  # fmt: skip
        task, now = self.process.task, news.time - ahead
        levels = [
            (f"{task}/{told.name}", *told[1:6], bool(told.closed), now, -1) for told in news.levels
        ]
        return TaskNews(task, regions, moves, sums, places, levels)

    def _move(self, told: ToldMove, executable: int, ahead: float) -> TransferEvent:
        shown = self._connections.shown
        return TransferEvent(
            origin=shown(told.origin), device=shown(told.device), nbytes=told.nbytes,
            executable=executable, start=told.start - ahead, stop=told.stop - ahead,
            thread=0, caller=0, runner="", step=0, frames=(),
        )  # fmt: skip


@final
class _Unheard:
    """Callbacks that ignore the answer."""

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        pass

    def failed(self, head: ErrorHead) -> None:
        pass
