"""Read, preprocess, train and checkpoint at once: four loops over one graph (OSDI'16, §3.2).

Each loop is a thread that runs its own part of the graph again and again. The loops meet in queues
and variables of the graph, and nowhere else. With one thread for each part, all results follow
from the seed, and are compared bit by bit with those of a sequential run of the same steps.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import psutil
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.graph import Graph
from eagerflow.runtime.fetches import extract
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.scheduler import rerun

SIZE = 4
BATCH = 5
LEAST = 200  # rows, however long that takes


@final
class State:
    """The shared state of the loops, and the graph of which they run parts."""

    def __init__(self) -> None:
        row = ef.zeros(SIZE, dtype="float64")
        self.raw = ef.Queue(8, row, name="raw")
        self.batches = ef.Queue(2, ef.zeros((BATCH, SIZE), dtype="float64"), name="batches")
        self.weights = ef.Variable(row, name="weights")
        self.seen = ef.Variable(row, name="seen")
        self.steps = ef.Variable(0, name="steps")
        self.mutex = ef.Mutex()

    @property
    def variables(self) -> dict[str, ef.Variable]:
        return {"weights": self.weights, "seen": self.seen, "steps": self.steps}

    def preprocess(self, rows: ef.Tensor) -> ef.Tensor:
        return ef.tanh(rows) * 0.5 + rows / 3

    def update(self, batch: ef.Tensor) -> ef.Tensor:
        """A step of gradient descent, with the update of its counts."""
        error = batch @ self.weights - batch.sum(axis=1)
        self.weights.assign_sub(0.05 * (error @ batch))
        self.seen.assign_add(batch.sum(axis=0))
        self.steps.assign_add(1)
        return (error * error).mean()

    def graph(self) -> Graph:
        @ef.trace
        def whole(row: ef.Tensor) -> Any:
            with ef.unordered():
                self.raw.enqueue(row)
                rows = self.raw.dequeue_many(BATCH)
                self.batches.enqueue(self.preprocess(rows))
                batch = self.batches.dequeue()
                snapshot = ef.snapshot(self.variables)
            with ef.control_dependencies([batch]), self.mutex:
                loss = self.update(batch)
            return loss, snapshot

        return whole.graph(self.weights.value)

    def bits(self) -> tuple[int, bytes, bytes]:
        """All state that training changes, as bytes."""
        return as_bits(ef.snapshot(self.variables))


def as_bits(snapshot: dict[str, ef.Tensor]) -> tuple[int, bytes, bytes]:
    return (
        int(snapshot["steps"]),
        snapshot["weights"].numpy().tobytes(),
        snapshot["seen"].numpy().tobytes(),
    )


@final
class Part:
    """A part of a graph, run alternately by `Graph.run` and by a step whose log is replayed."""

    def __init__(self, graph: Graph, fetches: list[Any], feeds: list[str] | None = None) -> None:
        values = {v.name: v for v in graph.values()}
        nodes = {f"&{n.name}": n for n in graph.nodes}
        self.graph = graph
        self.fetches = [f if not isinstance(f, str) else nodes.get(f) for f in fetches]
        self.tier = ScheduledTier(extract(graph, self.fetches, [values[f] for f in feeds or ()]))
        self.steps = 0
        self.replayed = 0

    def run(self, **feeds: ef.Tensor) -> Any:
        """Run the part once; gives the first result."""
        self.steps += 1
        if self.steps % 2:
            return self.graph.run(self.fetches, feeds)[0]
        step = self.tier.step(log=True)
        try:
            results = step.run([x.numpy() for x in feeds.values()])
        finally:
            log = step.log or []
            again = rerun(self.tier.plan, log)  # raises if the instructions differ
            assert log[-1][1][-1] == ("finish", again.outcome)
            self.replayed += 1
        return results[0] if results else None


@final
class Loops:
    """The four loops.

    Attributes:
        looks: state seen by the latest checkpoints.
        memory: resident bytes of the process at each checkpoint.
    """

    def __init__(self, seed: int, seconds: float, folder: Path) -> None:
        self.state = state = State()
        self.draws = ef.random.Generator(seed)
        self.end = time.monotonic() + seconds
        self.manager = ef.checkpoint.Manager(folder, keep=2)
        self.rows = 0
        self.looks: deque[tuple[int, bytes, bytes]] = deque(maxlen=10_000)
        self.memory: list[int] = []
        self.trained = threading.Event()
        self.wrong: list[BaseException] = []
        graph = state.graph()
        self.graph = graph
        loss, *snapshot = graph.outputs
        self.reading = Part(graph, ["&queue_enqueue"], ["row"])
        self.preparing = Part(graph, ["&queue_enqueue_1"])
        self.training = Part(graph, [loss, "&mutex_release"])
        self.looking = Part(graph, snapshot)

    def read(self) -> None:
        while self.rows % BATCH or self.rows < LEAST or time.monotonic() < self.end:
            self.reading.run(row=self.draws.normal(SIZE, dtype="float64"))
            self.rows += 1
        self.state.raw.close()

    def prepare(self) -> None:
        self.until_closed(self.preparing)
        self.state.batches.close()

    def train(self) -> None:
        self.until_closed(self.training)
        self.trained.set()

    def checkpoint(self) -> None:
        """Save, and fetch the variables by the graph, between two steps."""
        over = False
        while not over:
            over = self.trained.is_set()
            with self.state.mutex:
                self.looking.run()
                number = int(self.state.steps)
                self.manager.save(number, self.state.variables, force=True)
                self.looks.append(self.state.bits())
            self.memory.append(psutil.Process().memory_info().rss)

    @staticmethod
    def until_closed(part: Part) -> None:
        try:
            while True:
                part.run()
        except errors.QueueClosedError:
            return

    def run(self) -> None:
        """Run all four loops until all rows are read and trained on."""
        threads = [
            threading.Thread(target=self.told, args=(loop,), name=loop.__name__)
            for loop in (self.read, self.prepare, self.train, self.checkpoint)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(self.end - time.monotonic(), 0) + 120)
        assert not [t.name for t in threads if t.is_alive()], "it waits for ever"
        if self.wrong:
            raise self.wrong[0]

    def told(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:
            self.wrong.append(error)
            self.state.raw.close(cancel_pending=True)
            self.state.batches.close(cancel_pending=True)
            self.trained.set()


def one_after_the_other(seed: int, rows: int) -> list[tuple[int, bytes, bytes]]:
    """The state of training after each step, without queues, graphs and threads."""
    state, draws = State(), ef.random.Generator(seed)
    states = [state.bits()]
    for _ in range(rows // BATCH):
        batch = ef.stack([draws.normal(SIZE, dtype="float64") for _ in range(BATCH)])
        state.update(state.preprocess(batch))
        states.append(state.bits())
    return states


@pytest.mark.parametrize("seconds", [1.0, pytest.param(120.0, marks=pytest.mark.slow)])
def test_four_loops_over_one_graph(seconds: float, tmp_path: Path) -> None:
    """Totals are exact, no row is lost, no loop is blocked, and the scheduler's logs replay."""
    loops = Loops(7, seconds, tmp_path)
    loops.run()
    state, steps = loops.state, loops.rows // BATCH
    assert int(state.steps) == steps
    want = one_after_the_other(7, loops.rows)
    assert state.bits() == want[-1]
    assert all(look == want[look[0]] for look in loops.looks)
    saved = ef.checkpoint.load(loops.manager.path(steps))
    assert as_bits(saved) == want[-1]
    for queue in (state.raw, state.batches):
        assert int(queue.size()) == 0
        assert queue.resource.waiting(0) == queue.resource.waiting(1) == 0
    assert repr(state.mutex) == "Mutex(free)"
    for part in (loops.reading, loops.preparing, loops.training, loops.looking):
        assert part.replayed >= part.steps // 2 > 0
    middle = len(loops.memory) // 2
    grown = max(loops.memory[middle:]) - max(loops.memory[:middle] or loops.memory)
    assert grown < 20e6 + 1e3 * len(loops.memory)
    print(
        f"{loops.rows} rows, {steps} steps, {len(loops.memory)} checkpoints, "
        f"{sum(p.replayed for p in (loops.reading, loops.preparing, loops.training))} logs "
        f"replayed, grown by {grown / 1e6:.1f} MB"
    )
