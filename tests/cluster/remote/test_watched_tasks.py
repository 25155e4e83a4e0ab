"""Events of other processes for watchers in this process, with this process's times."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.cluster.protocol.message_heads import ErrorHead
from eagerflow.cluster.relaying.news import (
    News,
    ToldArrival,
    ToldMove,
    ToldRegion,
    encode,
)
from eagerflow.cluster.relaying.transfer_ends import TransferEnds
from eagerflow.cluster.remote import watched_tasks
from eagerflow.cluster.remote.watched_tasks import _Watched
from eagerflow.watching import Watcher
from eagerflow.watching.tasks.sources import TaskNews, task_sources
from tests.watching.fake_comm import FakeComm

STEPS = 20


class Ear:
    """Records the news of tasks, and lets a test wait for them."""

    def __init__(self) -> None:
        self.news: list[TaskNews] = []
        self._changed = threading.Condition()

    def hear(self, news: TaskNews) -> None:
        with self._changed:
            self.news.append(news)
            self._changed.notify_all()

    def ask(self, cluster: ef.cluster.Cluster) -> list[TaskNews]:
        """The news with which each task of a cluster answers."""
        count = len(cluster.tasks)  # asks them: what they tell meanwhile takes the lock
        with self._changed:
            before = len(self.news)
            task_sources.look()
            assert self._changed.wait_for(lambda: len(self.news) >= before + count, 60)
            return self.news[before:]


@pytest.fixture
def ear() -> Iterator[Ear]:
    made = Ear()
    task_sources.subscribe(made)
    yield made
    task_sources.unsubscribe(made)


@pytest.fixture
def step(cluster: ef.cluster.Cluster):
    with ef.device("ps:0"):
        w = ef.Variable(ef.ones(8), name="w")

    @ef.trace
    def step(x):
        with ef.device("worker:0"):
            y = x.to("worker:0") * w.to("worker:0") + 1
        w.assign_sub(0.125 * y.to("ps:0"))
        return y

    step(ef.ones(8))
    return step


def test_regions_and_transfers_of_two_processes(cluster, ear, step) -> None:
    ear.ask(cluster)
    begin = perf_counter()
    for _ in range(STEPS):
        step(ef.ones(8))
    end = perf_counter()
    told = {news.task: news for news in ear.ask(cluster)}
    late = ear.ask(cluster)  # the second halves of some transfers
    assert set(told) == {"ps:0", "ps:1", "worker:0"}
    assert not told["ps:1"].regions
    for task in ("ps:0", "worker:0"):
        regions = told[task].regions
        assert len(regions) >= STEPS
        assert {region.device for region in regions} == {f"{task}/cpu:0"}
        # on one clock, each part of a step lies within it
        assert all(begin <= region.start <= region.stop <= end for region in regions)
    moves = [move for news in [*told.values(), *late] for move in news.moves]
    assert all(begin <= move.start <= move.stop <= end for move in moves)
    assert {(move.origin, move.device) for move in moves} == {
        ("ps:0/cpu:0", "worker:0/cpu:0"),
        ("worker:0/cpu:0", "ps:0/cpu:0"),
    }
    read = [move for move in moves if move.device == "worker:0/cpu:0"]
    assert (len(read), {move.nbytes for move in read}) == (STEPS, {32})


def test_levels_of_queues_that_have_changed(cluster, ear) -> None:
    queue = ef.Queue(4, "f32[]", device="ps:0", name="depths")
    barrier = ef.Barrier(("f32[]",), device="ps:0", name="pairs", container="shared")
    queue.enqueue_many([1.0, 2.0, 3.0])

    def levels() -> dict[str, tuple[Any, ...]]:
        begin = perf_counter()
        told = [level for news in ear.ask(cluster) for level in news.levels]
        assert all(begin <= level[7] <= perf_counter() for level in told)
        return {level[0]: level[1:7] for level in told}

    assert levels() == {
        "ps:0/depths": ("fifo", 3, 4, 0, 0, False),
        "ps:0/shared/pairs": ("barrier", 0, 0, 0, 0, False),
    }
    assert levels() == {}
    queue.dequeue()
    barrier.insert_many(0, [7], [0.5])
    queue.close()
    assert levels() == {
        "ps:0/depths": ("fifo", 2, 4, 0, 0, True),
        "ps:0/shared/pairs": ("barrier", 1, 0, 0, 0, False),
    }
    assert ef.show(queue).live.queues == ("ps:0/depths",)
    assert ef.show(barrier).live.queues == ("ps:0/shared/pairs",)


def test_a_view_gets_lanes_links_and_health(cluster, step) -> None:
    comm, watcher = FakeComm(), Watcher()
    watcher._run = lambda: None  # no thread: the test calls the steps
    watcher.connect(comm)
    ear = Ear()
    with watcher:
        task_sources.subscribe(ear)
        ear.ask(cluster)
        for _ in range(STEPS):
            step(ef.ones(8))
        ear.ask(cluster)
        ear.ask(cluster)
        watcher.look(perf_counter())
        watcher.tell(perf_counter())
        task_sources.unsubscribe(ear)
    names = dict(comm.rows("names"))
    ((number, *_),) = [r for r in comm.rows("executables") if names[r[1]] == "step"]
    regions = comm.rows("regions")
    assert {names[row[-1]] for row in regions} == {"ps:0/cpu:0", "worker:0/cpu:0"}
    assert {row[0] for row in regions} == {number}
    health = {names[task]: names[health] for task, health, _ in comm.rows("tasks")}
    assert health == {"ps:0": "ready", "ps:1": "ready", "worker:0": "ready"}
    there = [
        row for row in comm.rows("transfers")
        if (names[row[0]], names[row[1]]) == ("ps:0/cpu:0", "worker:0/cpu:0")
    ]  # fmt: skip
    assert sum(row[4] for row in there) == STEPS
    assert sum(row[5] for row in there) == 32 * STEPS
    here = [names[row[0]] for row in comm.rows("transfers")]
    assert not [name for name in here if name.startswith("client-")]


def test_nothing_is_asked_when_nobody_looks(cluster, step) -> None:
    ear = Ear()
    task_sources.subscribe(ear)
    ear.ask(cluster)
    task_sources.unsubscribe(ear)
    step(ef.ones(8))  # the message that ends the watching goes first
    task_sources.subscribe(ear)
    told = {news.task: news for news in ear.ask(cluster)}
    task_sources.unsubscribe(ear)
    assert not any(news.regions or news.moves for news in told.values())


def test_a_task_that_does_not_answer_is_told_that_nobody_looks(
    cluster, ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task may be a process that continues later, and would record events in vain."""
    ear.ask(cluster)
    connections, told = cluster._connections, set()
    monkeypatch.setattr(connections, "health", lambda task: "suspect")
    monkeypatch.setattr(connections, "tell", lambda task, message, heard: told.add(task))
    task_sources.unsubscribe(ear)
    monkeypatch.undo()
    assert told == set(cluster.tasks)


def test_times_are_those_of_this_process(cluster, ear, step) -> None:
    ear.ask(cluster)
    connections = cluster._connections
    (partition, executable), *_ = connections.executables.items()
    watched = _Watched(connections, cluster._members["ps:0"].task, TransferEnds())
    watched.asked = perf_counter()
    there = perf_counter() + 1000.0
    regions = [ToldRegion(partition, 2, "ps:0/cpu:0", there - 5.0, there - 4.0)]
    client = f"{connections.name}/cpu:0"
    moves = [ToldMove(partition, 3, "y", "ps:0/cpu:0", client, there - 3.0, there - 1.0, 8)]
    arrivals = [ToldArrival(3, "y", there - 2.0)]
    watched.done({"ps:0": encode(News(there, regions, moves, arrivals, [], []))})
    news = ear.news[-1]
    ((number, region, device, start, stop),) = news.regions
    assert (number, region, device) == (executable, 2, "ps:0/cpu:0")
    assert (start, stop) == pytest.approx((there - 1005.0, there - 1004.0), abs=1.0)
    assert stop - start == pytest.approx(1.0)
    (move,) = news.moves
    assert (move.origin, move.device, move.executable) == ("ps:0/cpu:0", "cpu:0", executable)
    assert move.stop - move.start == pytest.approx(1.0)  # the receiver's duration
    watched.failed(ErrorHead("TaskLost", "ps:0 is lost"))
    assert watched.asked is None


def test_a_partition_that_is_let_go_of_while_its_news_are_read(
    cluster, ear, step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a finaliser may do; an error in the thread that owns the sockets would end the session."""

    class Vanishing(dict[int, int]):
        def __contains__(self, number: object) -> bool:
            return self.pop(number, None) is not None  # type: ignore[call-overload]  # any key

    connections = cluster._connections
    ((partition, _), *_) = connections.executables.items()
    monkeypatch.setattr(connections, "executables", Vanishing(connections.executables))
    watched = _Watched(connections, cluster._members["ps:0"].task, TransferEnds())
    regions = [ToldRegion(partition, 2, "ps:0/cpu:0", 1.0, 2.0)]
    watched.done({"ps:0": encode(News(3.0, regions, [], [], [], []))})
    assert [len(news.regions) for news in ear.news] == [1]


def test_where_a_long_step_is(cluster, ear) -> None:
    @ef.trace
    def power(x, n):
        with ef.device("worker:0"):
            x, n = x.to("worker:0"), n.to("worker:0")
            go_on, body = lambda i, y: i < n, lambda i, y: (i + 1, y @ x)
            return ef.while_loop(go_on, body, (n - n, x))[1]

    x = ef.zeros((300, 300))
    power(x, ef.tensor(3))
    ear.ask(cluster)
    number = max(cluster._connections.executables.values())  # the newest
    thread = threading.Thread(target=lambda: power(x, ef.tensor(300)).numpy())
    thread.start()
    places = []
    while thread.is_alive() and not places:
        told = {news.task: news for news in ear.ask(cluster)}
        places = told["worker:0"].places
        assert not told["ps:0"].places
    thread.join()
    place, *_ = places
    assert place.executable == number
    assert place.frames
    assert place.frames[0][1] >= 0


def test_many_tasks_are_asked_in_rotation(cluster, ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_tasks, "_AT_ONCE", 2)
    asked: list[str] = []
    monkeypatch.setattr(_Watched, "ask", lambda self: asked.append(self.process.task))
    for _ in range(3):
        task_sources.look()
    assert sorted(asked) == sorted(2 * list(cluster.tasks))
