"""Counts and timeouts known only at run time: tensors, and numbers that change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core import tree
from eagerflow.runtime import executable
from tests.resources.queues.modes import numbers

Taker = Callable[[Any, Any], Any]


@pytest.fixture(params=["program", "executor"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "executor":
        monkeypatch.setattr(executable, "has_free_waits", lambda graph: True)


def a_queue(method: str, kind: Any = "fifo") -> Taker:
    queue = ef.Queue(100, {"x": ef.tensor(0)}, kind=kind)
    queue.enqueue_many({"x": list(range(20))}, priority=0 if kind == "priority" else None)
    return lambda n, seconds: getattr(queue, method)(n, timeout=seconds)["x"]


def a_barrier(small: bool) -> Taker:
    barrier = ef.Barrier(("i64[]", "f32[2]"))
    keys = list(range(20))
    barrier.insert_many(0, keys, [10 * k for k in keys])
    barrier.insert_many(1, keys, [[k, 0.5] for k in keys])
    return lambda n, seconds: barrier.take_many(n, allow_small_batch=small, timeout=seconds)


def a_reader(folder: Path) -> Taker:
    path, files = folder / "lines.txt", ef.Queue(1, "bytes[]")
    path.write_text("".join(f"{i}\n" for i in range(20)))
    files.enqueue(str(path).encode())
    reader = ef.io.TextLineReader(files)
    return lambda n, seconds: reader.read_up_to(n, timeout=seconds)


def an_accumulator() -> Taker:
    def take(n: Any, seconds: Any) -> Any:
        for x in ([1.0, 2.0], [3.0, 4.0], [8.0, 9.0]):
            sums.add(x, step=100)
        return sums.take(n, timeout=seconds)

    sums = ef.Accumulator("f32[2]")
    return take


@pytest.fixture(
    params=["dequeue_many", "dequeue_up_to", "priority", "take", "take_many", "small", "read"]
)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Taker]:
    makers: dict[str, Callable[[], Taker]] = {
        "dequeue_many": lambda: a_queue("dequeue_many"),
        "dequeue_up_to": lambda: a_queue("dequeue_up_to"),
        "priority": lambda: a_queue("dequeue_many", "priority"),
        "take": an_accumulator,
        "take_many": lambda: a_barrier(False),
        "small": lambda: a_barrier(True),
        "read": lambda: a_reader(tmp_path),
    }
    return makers[request.param]


def values(structure: Any) -> Any:
    return [numbers(x) for x in tree.flatten(structure)[0]]


@pytest.mark.usefixtures("tier")
def test_a_tensor_counts_as_in_eager_code(make: Callable[[], Taker]) -> None:
    eager, taken = make(), make()
    traced = ef.trace(taken)
    for n, seconds in [(2, 1.0), (1, 30.0), (3, 5.5)]:
        expected = values(eager(ef.tensor(n), seconds))
        assert values(traced(ef.tensor(n), seconds)) == expected
    assert len(traced.traces) == 1


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize(
    ("n", "seconds"),
    [
        (-1, 1.0), (1000, 0.001), (1, -2.0), (1, float("nan")), (2.5, 1.0), ([2], 1.0), (True, 1.0),
        (1, [1.0]), (1, True), (1, 2j),
    ],
)  # fmt: skip
def test_errors_are_those_of_eager_code(make: Callable[[], Taker], n: Any, seconds: Any) -> None:
    eager, taken = make(), make()
    count, timeout = ef.tensor(n), ef.tensor(seconds)
    with pytest.raises(ef.errors.EagerflowError) as expected:
        eager(count, timeout)
    with pytest.raises(type(expected.value)) as caught:
        ef.trace(taken)(count, timeout)
    assert caught.value.wrong == expected.value.wrong


def test_the_leading_size_is_known_when_the_graph_runs() -> None:
    queue = ef.Queue(10, "f32[3]")
    queue.enqueue_many(ef.ones((10, 3)))

    @ef.trace
    def means(n: Any) -> Any:
        x = queue.dequeue_many(n)
        return x.shape[0], x.sum() / x.shape[0], ef.zeros(x.shape[:1])

    for n in (2, 3):
        size, mean, zeros = means(ef.tensor(n))
        assert (int(size), float(mean), zeros.shape) == (n, 3.0, (n,))
    assert len(means.traces) == 1


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_any_integer_dtype_and_variables(dtype: str) -> None:
    queue, n = queue_of(6), ef.Variable(ef.tensor(1, dtype=dtype))
    take = ef.trace(lambda: queue.dequeue_many(n))
    assert numbers(take()) == [0]
    n.assign(ef.tensor(2, dtype=dtype))
    assert numbers(take()) == [1, 2]
    assert numbers(queue.dequeue_many(n, timeout=n)) == [3, 4]


def test_a_count_that_differs_from_iteration_to_iteration() -> None:
    queue = queue_of(10)

    @ef.trace
    def totals(iterations: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            return i + 1, total + queue.dequeue_many(i).sum() * i

        return ef.while_loop(lambda i, total: i < iterations, body, (ef.tensor(0), ef.tensor(0)))

    assert int(totals(ef.tensor(5))[1]) == 0 * 1 + (1 + 2) * 2 + (3 + 4 + 5) * 3 + 30 * 4


@pytest.mark.usefixtures("tier")
def test_timeouts_are_dynamic_numbers() -> None:
    full, empty, mutex = queue_of(3, 3), queue_of(0), ef.Mutex("door")
    inner = ef.Queue(1, "bytes[]")
    reader = ef.io.WholeFileReader(inner)

    def hold(seconds: Any) -> None:
        mutex.acquire(timeout=seconds)
        mutex.release()

    waits = {
        "enqueue": lambda s: full.enqueue(1, timeout=s),
        "enqueue_many": lambda s: full.enqueue_many([1, 2], timeout=s),
        "dequeue": lambda s: empty.dequeue(timeout=s),
        "acquire": hold,
        "read": lambda s: reader.read(timeout=s),
    }
    mutex.resource.acquire().begin()  # held by no thread
    for what, wait in waits.items():
        traced = ef.trace(wait)
        for seconds in (0.001, 0.002, 0):
            with pytest.raises(errors.WaitTimeoutError, match=f"{what}: .* {seconds} seconds"):
                traced(seconds)
        assert len(traced.traces) == 2  # one for floats, one for ints
    assert int(full.size()) == 3


def test_priorities_and_a_timeout() -> None:
    queue = ef.Queue(3, ef.tensor(0), kind="priority")

    @ef.trace
    def put(x: Any, priority: Any, seconds: Any) -> None:
        queue.enqueue(x, priority=priority, timeout=seconds)

    for x in (2, 1, 0):
        put(ef.tensor(x), ef.tensor(x), 10.0 + x)
    assert numbers(queue.dequeue_many(3)) == [0, 1, 2]
    close = ef.trace(lambda seconds: queue.close(timeout=seconds))
    close(3.0)
    assert queue.closed


def test_what_is_no_number_of_seconds_is_refused() -> None:
    with pytest.raises(errors.DTypeError, match="dequeue: timeout is not a number of seconds"):
        queue_of(1).dequeue(timeout="3")


def queue_of(count: int, capacity: int = 100) -> ef.Queue:
    queue = ef.Queue(capacity, ef.tensor(0))
    queue.enqueue_many(list(range(count)))
    return queue
