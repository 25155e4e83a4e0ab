"""`ef.spawn`: runners that hold no thread, their errors, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import deque
from itertools import pairwise
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.profiling.chrome_trace import to_chrome
from eagerflow.runtime import executable
from eagerflow.runtime.node_seconds import worker_count
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.threads.timers import timers
from tests.resources.queues.modes import drained, numbers, until
from tests.source_tree import ROOT


def servers() -> int:
    return sum(t.name.startswith("eagerflow-server") for t in threading.enumerate())


@pytest.fixture(params=["traced", "thread"])
def make(request: Any) -> Any:
    """Makes a function that runs as a graph, or in a thread of its own."""
    return ef.trace if request.param == "traced" else lambda f: f


def test_a_chain_of_runners(make: Any) -> None:
    """Each runner ends when the queue before it is closed and empty; all elements come in order."""
    first, second, third = (ef.Queue(room, ef.tensor(0)) for room in (2, 2, None))

    @make
    def double() -> None:
        second.enqueue(first.dequeue() * 2)

    @make
    def add(y: Any) -> None:
        third.enqueue(second.dequeue() + y)

    runners = [ef.spawn(double), ef.spawn(add, ef.tensor(1))]
    first.enqueue_many(ef.arange(10))
    assert numbers(third.dequeue_many(10)) == [2 * i + 1 for i in range(10)]
    first.close()
    assert runners[0].join()
    second.close()
    assert runners[1].join()
    assert [r.steps for r in runners] == [10, 10]
    assert not any(r.running for r in runners)


def test_stopping(make: Any) -> None:
    queue = ef.Queue(2, ef.tensor(0))

    @make
    def produce() -> None:
        queue.enqueue(1)

    runner = ef.spawn(produce, name="numbers")
    until(lambda: queue.resource.waiting(0) == 1)
    assert runner.running
    assert not runner.join(timeout=0)
    assert "<runner numbers: running, 2 runs>" in repr(runner)
    runner.stop()
    runner.stop()  # it has ended already
    assert (runner.running, runner.steps, runner.error) == (False, 2, None)
    assert list(drained(queue)) == [1, 1]
    assert queue.resource.waiting(0) == 0


def test_names_in_the_profile(make: Any) -> None:
    queue = ef.Queue(9, ef.tensor(0))
    queue.enqueue_many([1, 2, 3])
    queue.close()
    with ef.profile() as profile:
        ef.spawn(make(lambda: queue.dequeue()), name="reader").join()
    runs = [e for e in profile.events if e.kind == "run"]
    assert [e.name for e in runs] == ["reader"] * 4
    assert [e.error.partition(":")[0] for e in runs] == ["", "", "", "QueueClosedError"]
    assert len({e.thread for e in runs}) == 1
    assert all(a.stop <= b.start for a, b in pairwise(runs))
    rows = to_chrome(profile.events)["traceEvents"]
    assert "runner reader" in [row["args"]["name"] for row in rows if row["ph"] == "M"]


def test_ops_of_runners_are_in_the_profile(make: Any) -> None:
    """Ops of runners are recorded with the runner's name, those of other threads without one."""
    queue, w = ef.Queue(9, ef.tensor(0.0)), ef.ones((4, 4))
    work = ef.trace(lambda: queue.enqueue(ef.sum(w @ w)))
    work()
    with ef.profile() as profile:
        other = threading.Thread(target=work)
        other.start()
        other.join()
        with ef.spawn(work if make is ef.trace else lambda: work(), name="reader"):
            queue.dequeue_many(5)
    assert {"matmul", "sum", "queue_enqueue"} <= {row.name for row in profile.table()}
    nodes = [e for e in profile.events if e.kind == "node"]
    assert {e.runner for e in nodes} == {"reader", ""}
    assert {"runner reader", other.name} < {row.name for row in profile.threads()}
    assert all("w @ w" in e.source.text for e in nodes if e.name == "matmul" and e.source)


def test_stopping_one_that_never_waits(make: Any) -> None:
    count = ef.Variable(0)

    @make
    def work() -> None:
        count.assign_add(1)

    with ef.spawn(work) as runner:
        until(lambda: runner.steps > 5)
    assert numbers(count.value) - runner.steps in (0, 1)  # of the last run, broken off


def test_an_error_ends_it_and_is_told(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    queue = ef.Queue(9, ef.tensor([0, 0]))
    queue.enqueue_many([[0, 0], [0, 1], [0, 2]])

    @make
    def look() -> Any:
        x = queue.dequeue()
        return ef.tensor([1.0, 2.0])[x[1]]  # the line

    runner = ef.spawn(look, name="looker")
    with pytest.raises(errors.TensorIndexError) as caught:
        runner.join()
    assert "# the line" in str(caught.value)
    assert "  in the runner looker, after 2 runs" in caught.value.__notes__
    assert runner.error is caught.value
    assert "ended with TensorIndexError" in repr(runner)
    frames = len(caught.traceback)
    with pytest.raises(errors.TensorIndexError) as again:
        runner.stop()
    assert len(again.traceback) == frames
    timers.join()
    assert capsys.readouterr().err == ""  # once is enough


def test_an_error_that_nobody_asks_for_is_printed(
    make: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    @make
    def look() -> Any:
        return ef.tensor([1.0, 2.0])[queue.dequeue()]  # the line

    queue = ef.Queue(9, ef.tensor(0))
    runner = ef.spawn(look, name="looker")
    queue.enqueue(7)
    until(lambda: not runner.running)
    timers.join()
    told = capsys.readouterr().err
    assert told.count("The runner looker has ended with an error:") == 1
    assert "# the line" in told
    with pytest.raises(errors.TensorIndexError):
        runner.join()


def test_an_error_at_the_end_of_the_program_is_printed() -> None:
    program = """
        import eagerflow as ef
        def fail():
            raise ValueError("at the end")
        runner = ef.spawn(fail)
        while runner.running:
            pass
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, text=True, timeout=60,
        capture_output=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stderr.count("ValueError: at the end") == 1


def test_a_timeout_is_an_error(make: Any) -> None:
    """The producer never comes."""
    queue = ef.Queue(9, ef.tensor(0))
    runner = ef.spawn(make(lambda: queue.dequeue(timeout=0.01)))
    with pytest.raises(errors.WaitTimeoutError):
        runner.join()
    assert queue.resource.waiting(1) == 0


def test_ctrl_c_ends_the_block_and_its_runner() -> None:
    queue = ef.Queue(9, ef.tensor(0))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    runners: list[Any] = []

    def block() -> None:
        with ef.spawn(ef.trace(queue.dequeue)) as runner:
            runners.append(runner)
            until(lambda: queue.resource.waiting(1) == 1)
            signal.raise_signal(signal.SIGINT)
            runner.join()

    try:
        with pytest.raises(KeyboardInterrupt):
            block()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not runners[0].running
    assert queue.resource.waiting(1) == 0


def test_an_error_in_the_block_counts_for_more(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("of the runner")

    def block() -> None:
        with ef.spawn(fail) as runner:
            until(lambda: not runner.running)
            raise KeyError("of the block")

    with pytest.raises(KeyError):
        block()
    assert "of the runner" in capsys.readouterr().err


def test_a_first_trace_that_fails_is_an_error_of_spawn() -> None:
    with pytest.raises(errors.ShapeError):
        ef.spawn(ef.trace(lambda x: x + ef.zeros(3)), ef.zeros(2))
    with pytest.raises(errors.TraceError, match="within a traced function"):
        ef.trace(lambda: ef.spawn(ef.trace(lambda: None)))()


def test_methods_keywords_and_what_is_stored() -> None:
    class Counter:
        def __init__(self) -> None:
            self.last: Any = None
            self.queue = ef.Queue(5, ef.tensor(0.0))

        @ef.trace
        def step(self, x: Any, *, scale: float) -> None:
            self.last = self.queue.dequeue() * scale + x

    counter = Counter()
    counter.queue.enqueue_many([1.0, 2.0, 3.0])
    counter.queue.close()
    runner = ef.spawn(counter.step, ef.tensor(0.5), scale=10.0)
    assert runner.join()
    assert numbers(counter.last) == 30.5
    assert runner.steps == 3
    assert runner.name.startswith("step-")


def test_the_device_of_the_caller(make: Any) -> None:
    with ef.config(cpu_devices=2):
        queue = ef.Queue(5, "f32[]", device="cpu:1")
        with ef.device("cpu:1"), ef.spawn(make(lambda: queue.enqueue(ef.ones(())))):
            assert str(queue.dequeue().device) == "cpu:1"


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_python_code_that_waits_for_another_runner(in_a_loop: bool) -> None:
    """Waiting Python code may hold a thread, which is none of those that serve other runners."""
    queues = [ef.Queue(1, ef.tensor(0)) for _ in range(3 * worker_count())]

    def fill(queue: Any) -> None:
        rounds = ef.tensor(1 if in_a_loop else 0)
        if not in_a_loop:
            ef.py_call(lambda: queue.enqueue(1), None)
        while rounds > 0:
            ef.py_call(lambda: queue.enqueue(1), None)
            rounds = rounds - 1

    runners = [ef.spawn(ef.trace(lambda q=q: fill(q))) for q in queues]
    until(lambda: all(q.resource.waiting(0) for q in queues))
    with ef.spawn(ef.trace(lambda: [q.dequeue() for q in queues])) as all_of_them:
        until(lambda: all_of_them.steps > 3)
    for queue, runner in zip(queues, runners, strict=True):
        queue.close(cancel_pending=True)
        assert runner.join()


def test_only_loops_in_which_something_waits_are_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, seen = ef.Queue(None, ef.tensor(0)), ef.Variable(0)
    made: list[ScheduledTier] = []

    def make(*args: Any) -> ScheduledTier:
        made.append(ScheduledTier(*args))
        return made[-1]

    @ef.trace
    def count() -> None:
        n = queue.dequeue()
        while n > 0:
            seen.assign_add(1)
            n = n - 1

    @ef.trace
    def skip() -> None:
        while queue.dequeue() > 0:
            seen.assign_add(1)

    monkeypatch.setattr(executable, "ScheduledTier", make)
    queue.enqueue_many([3, 4])
    for function in (count, skip):
        with ef.spawn(function) as runner:
            until(lambda runner=runner: runner.steps == 2)
        assert numbers(seen.value) == 7
        queue.enqueue_many([0, 0])
    whole, pieces = ([node.op for node in e.graph.nodes] for e in made)
    assert "while_loop" in whole
    assert "while_loop" not in pieces


def test_loops_and_branches_wait_without_a_thread() -> None:
    queue, out = ef.Queue(1, ef.tensor(0)), ef.Queue(None, ef.tensor(0))

    @ef.trace
    def add_up() -> None:
        total = ef.tensor(0)
        while total < 10:
            x = queue.dequeue()
            if x > 0:
                total = total + x
        out.enqueue(total)

    runners = [ef.spawn(add_up) for _ in range(4 * worker_count())]
    until(lambda: queue.resource.waiting(1) == len(runners))
    assert servers() <= worker_count()
    for x in [4, -1, 7] * len(runners):
        queue.enqueue(x)
    until(lambda: numbers(out.size()) > 0)
    queue.close()
    for runner in runners:
        assert runner.join()
    assert all(x >= 10 for x in drained(out))


@pytest.mark.parametrize("count", [400, pytest.param(100_000, marks=pytest.mark.slow)])
def test_four_loops_at_once(count: int) -> None:
    """Reading, preprocessing, training and observing, over the same queues and variables."""
    raw, batches = ef.Queue(8, ef.tensor(0)), ef.Queue(4, ef.zeros(4), kind="padding")
    weight, steps, mutex = ef.Variable(0.0, dtype="float64"), ef.Variable(0), ef.Mutex()
    source = iter(range(count))
    looks: deque[tuple[float, int]] = deque(maxlen=10_000)

    def read() -> None:
        x = next(source, None)
        if x is None:
            raw.close()
            raise errors.QueueClosedError("all is read")
        raw.enqueue(x)

    @ef.trace
    def preprocess() -> None:
        batches.enqueue(raw.dequeue_many(4).astype("float32"))

    @ef.trace
    def train() -> None:
        batch = batches.dequeue()
        with mutex:
            weight.assign_add(batch.sum().astype("float64"))
            steps.assign_add(1)

    def look() -> None:
        with mutex:
            looks.append((weight.numpy().item(), steps.numpy().item()))
        if looks[-1][1] == count // 4:
            raise errors.QueueClosedError("all is seen")

    runners = [ef.spawn(read), *[ef.spawn(preprocess) for _ in range(3)]]
    trainers = [ef.spawn(train) for _ in range(2)]
    looking = ef.spawn(look)
    for runner in runners:
        assert runner.join()
    batches.close()
    for runner in trainers:
        assert runner.join()
    assert looking.join()
    assert weight.numpy() == sum(range(count))
    assert looks[-1] == (sum(range(count)), count // 4)
    assert list(looks) == sorted(looks)
