"""A watcher's knowledge of tasks: health, in words as well, and news from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter

import pytest

import eagerflow as ef
from eagerflow.watching import Watcher
from eagerflow.watching.diagnosing.diagnosis import diagnoses
from eagerflow.watching.status_sentence import sentence
from eagerflow.watching.tasks.sources import (
    Health,
    TaskHealth,
    TaskNews,
    TaskPlace,
    TaskRegion,
    TaskTransfers,
    task_sources,
)
from tests.watching.fake_comm import FakeComm


class FakeTasks:
    """A source of task health, set by tests."""

    def __init__(self) -> None:
        self.known: dict[str, TaskHealth] = {}
        self.looks = self.rests = 0

    def be(self, task: str, health: Health, ago: float = 0.0) -> None:
        self.known[task] = TaskHealth(health, perf_counter() - ago)

    def look(self) -> None:
        self.looks += 1

    def rest(self) -> None:
        self.rests += 1

    def health(self) -> Mapping[str, TaskHealth]:
        return self.known


@pytest.fixture
def tasks() -> Iterator[FakeTasks]:
    made = FakeTasks()
    task_sources.add(made)
    yield made
    task_sources.remove(made)


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()
    made._run = lambda: None  # type: ignore[method-assign]  # the test plays its thread
    with made:
        yield made


def test_tasks_are_asked_while_somebody_looks(tasks: FakeTasks) -> None:
    first, second = Watcher(), Watcher()
    for watcher in (first, second):
        watcher._run = lambda: None  # type: ignore[method-assign]
    with first:
        with second:
            first.look(perf_counter())
            assert tasks.looks == 1
        assert tasks.rests == 0
    assert tasks.rests == 1


def test_what_is_lost_or_silent_is_said(tasks: FakeTasks, watcher: Watcher) -> None:
    tasks.be("ps:0", "ready")
    tasks.be("worker:0", "lost", ago=3.0)
    tasks.be("worker:1", "suspect", ago=4.0)
    watcher.collect()
    now = perf_counter()
    assert sentence(watcher, now) == ("no step yet; worker:0 is lost; worker:1 does not answer")
    assert [(d.kind, d.device, d.text) for d in diagnoses(watcher, now)] == [
        ("lost", "worker:0",
         "worker:0 was lost 3 s ago: its values are gone, and steps that need them fail"),
        ("suspect", "worker:1",
         "worker:1 has not answered for 4 s: its process is stopped, or cut off"),
    ]  # fmt: skip
    tasks.be("worker:0", "ready")
    tasks.be("worker:1", "lost")
    tasks.be("ps:0", "lost")
    watcher.collect()
    assert sentence(watcher, now) == "no step yet; ps:0, worker:1 are lost"


def test_views_are_told_how_tasks_become(tasks: FakeTasks, watcher: Watcher) -> None:
    comm = FakeComm()
    watcher.connect(comm)
    steps: tuple[Health, ...] = ("ready", "lost", "ready")
    for second, health in enumerate(steps):
        tasks.be("worker:0", health)
        watcher.look(perf_counter())
        watcher.tell(perf_counter() + second)
    tasks.known.clear()  # its cluster was closed
    watcher.look(perf_counter())
    watcher.tell(perf_counter() + 4)
    names = dict(comm.rows("names"))
    told = [(names[task], names[health]) for task, health, _ in comm.rows("tasks")]
    assert told == [("worker:0", health) for health in (*steps, "gone")]
    times = [time for *_, time in comm.rows("tasks")]
    assert times == sorted(times)


def test_regions_links_and_places(tasks: FakeTasks, watcher: Watcher) -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1, name="small", compile="off")
    for _ in range(2):
        f(ef.ones(2))
    watcher.collect()
    (number,) = watcher.log.executables
    node = watcher.observer.of(number).index.nodes[0].name
    comm = FakeComm()
    watcher.connect(comm)
    device = "worker:0/cpu:0"
    place = TaskPlace(1, number, node, (("while", 7),), 0.5)
    task_sources.publish(TaskNews(
        "worker:0", [TaskRegion(number, 3, device, 1.0, 2.0)], [],
        [TaskTransfers(device, "ps:0/cpu:0", number, 9, 720, 0.5)], [place],
    ))  # fmt: skip
    watcher.look(perf_counter())
    assert watcher.tasks.places(perf_counter(), lambda number: False) == []  # its steps are short
    (shown,) = watcher.tasks.places(perf_counter(), lambda number: True)
    assert (shown.executable, shown.node, shown.frames) == (number, node, (("while", 7),))
    watcher.tell(perf_counter())
    names = dict(comm.rows("names"))
    ((executable, region, start, stop, thread, where),) = comm.rows("regions")
    assert (executable, region, start, stop, thread) == (number, 3, 1.0, 2.0, 0)
    assert names[where] == device
    (link,) = comm.rows("transfers")
    assert (names[link[0]], names[link[1]]) == (device, "ps:0/cpu:0")
    assert link[4:] == (9.0, 720.0, 0.5)
