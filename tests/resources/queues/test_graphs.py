"""Queues in graphs: captures, the order of effects, text form, subgraphs, branches and loops."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from eagerflow.runtime.scheduled.scheduler import rerun
from eagerflow.runtime.scheduled.threadless_waits import has_free_waits
from tests.resources.queues.modes import Waiting, drained, numbers, until
from tests.runtime.graphs import by_scheduler, scheduled


def queue_of(*values: int, capacity: int | None = None) -> ef.Queue:
    queue = ef.Queue(capacity, ef.tensor(0))
    queue.enqueue_many(ef.tensor(values, dtype="int64"))
    return queue


def test_another_queue_under_the_name_is_seen() -> None:
    holder = {"queue": queue_of(1, 2)}

    @ef.trace
    def take() -> Any:
        return holder["queue"].dequeue()

    assert numbers(take()) == 1
    holder["queue"] = queue_of(10)
    assert numbers(take()) == 10
    assert len(take.traces) == 2


def test_a_queue_as_an_argument() -> None:
    @ef.trace
    def move(source: ef.Queue, target: ef.Queue) -> None:
        target.enqueue(source.dequeue())

    a, b = queue_of(1, 2, 3), queue_of()
    move(a, b)
    move(a, b)
    move(b, a)
    assert (list(drained(a)), list(drained(b))) == ([3, 1], [2])
    assert len(move.traces) == 2


def test_tracing_takes_nothing() -> None:
    queue = queue_of(1)

    @ef.trace
    def take() -> Any:
        queue.enqueue(5)
        return queue.dequeue_many(2)

    take.graph()
    assert list(drained(queue)) == [1]


def test_others_use_the_queue_while_it_is_traced() -> None:
    """The rollback of a trace's effects leaves operations of other threads alone."""
    queue, stop = queue_of(), threading.Event()

    def fill() -> None:
        while not stop.is_set():
            queue.enqueue(1)
            put.append(1)

    put: list[int] = []
    thread = threading.Thread(target=fill)
    thread.start()
    until(lambda: bool(put))
    try:
        taken = [numbers(ef.trace(lambda: queue.dequeue())()) for _ in range(20)]
    finally:
        stop.set()
        thread.join()
    assert taken == [1] * 20
    assert numbers(queue.size()) == len(put) - 20


def test_operations_are_fences() -> None:
    queue, v = queue_of(), ef.Variable(1)

    @ef.trace
    def f(x: Any) -> Any:
        v.assign_add(x)
        queue.enqueue(x)
        v.assign_add(x)
        with ef.unordered():
            queue.enqueue(x)
        return queue.size()

    edges = {n.name: [c.name for c in n.control_inputs] for n in f.graph(ef.tensor(1)).nodes}
    assert edges["queue_enqueue"] == ["assign_add"]
    assert edges["assign_add_1"] == ["queue_enqueue"]
    assert edges["queue_enqueue_1"] == []
    assert edges["queue_size"] == ["assign_add_1"]


@pytest.mark.parametrize("free", [False, True])
def test_as_many_as_another_tensor_has(free: bool) -> None:
    """One trace serves all sizes, whether the run waits in its thread or in the executor."""
    queue, more = ef.Queue(None, ef.tensor(0)), ef.Queue(None, ef.tensor(0))

    @ef.trace
    def f(x: Any) -> Any:
        n = x.shape[0]
        if free:
            with ef.unordered():
                a, b = queue.dequeue_many(n), more.dequeue_up_to(2 * n)
        else:
            a, b = queue.dequeue_many(n), more.dequeue_up_to(2 * n)
        return a + x, b

    for size in (1, 2, 3, 4, 5):
        queue.enqueue_many(ef.arange(size))
        more.enqueue_many(ef.arange(2 * size))
        a, b = f(ef.ones(size, dtype="int64"))
        assert numbers(a) == [i + 1 for i in range(size)]
        assert numbers(b) == list(range(2 * size))
    assert len(f.traces) == 2
    assert numbers(queue.size()) == numbers(more.size()) == 0


def test_sizes_as_numbers_of_elements_elsewhere() -> None:
    barrier, means = ef.Barrier(("i64[]",)), ef.Accumulator(ef.zeros(2))
    queue, other = queue_of(), queue_of()
    taken = ef.trace(lambda x: (barrier.take_many(x.shape[0])[0], means.take(x.shape[0])))

    @ef.trace
    def loop(x: Any) -> Any:
        total = x
        for _ in ef.arange(3):
            with ef.unordered():
                total = total + queue.dequeue_many(x.shape[0]) + other.dequeue_many(x.shape[0])
        return total

    for size in (2, 3, 4):
        barrier.insert_many(0, ef.arange(size), ef.arange(size))
        for i in range(size):
            means.add([i, 1.0], 9)
        keys, mean = taken(ef.zeros(size))
        assert numbers(keys) == list(range(size))
        assert numbers(mean) == [(size - 1) / 2, 1.0]
        queue.enqueue_many(ef.arange(3 * size))
        other.enqueue_many(-ef.arange(3 * size))
        assert numbers(loop(ef.ones(size, dtype="int64"))) == [1] * size
    assert len(taken.traces) == len(loop.traces) == 2
    few = ef.trace(lambda x: queue.dequeue_many(x.shape[0] - 3))
    queue.enqueue_many([1, 2, 3])
    assert [numbers(few(ef.zeros(n))) for n in (4, 5)] == [[1], [2, 3]]
    with pytest.raises(errors.TensorValueError, match="dequeue_many: -1 elements"):
        few(ef.zeros(2))


def test_a_run_sees_whether_a_queue_is_closed() -> None:
    """The run asks, not the trace; a loop may ask as well."""
    queue = queue_of(1, 2, 3)

    @ef.trace(strict=True)
    def f() -> Any:
        return 1.0 if queue.closed else 0.0

    @ef.trace
    def rest() -> Any:
        total = ef.tensor(0)
        while not queue.closed:
            total = total + queue.dequeue()
            if queue.size() == 0:
                queue.close()
        return total

    assert f() == 0.0
    assert numbers(rest()) == 6
    assert queue.closed is True
    assert f() == 1.0
    assert len(f.traces) == 1


def test_a_run_sees_what_a_reader_has_read(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\nbc\n")
    files = ef.Queue(2, "bytes[]")
    files.enqueue(str(tmp_path / "lines").encode())
    reader = ef.io.TextLineReader(files)
    f = ef.trace(lambda: (reader.read()[1], reader.count, reader.skipped))
    assert [[numbers(x) for x in f()] for _ in range(2)] == [[b"a", 1, 0], [b"bc", 2, 0]]
    assert (reader.count, reader.skipped) == (2, 0)


def test_the_text_of_a_graph_names_its_queues() -> None:
    queue = ef.Queue(4, ef.zeros(2), name="images")

    @ef.trace
    def f(x: Any) -> Any:
        queue.enqueue(x)
        return queue.dequeue_up_to(1, timeout=0.5)

    graph = f.graph(ef.zeros(2))
    text = str(graph)
    assert "resource=@images" in text
    again = ef.Graph.parse(text, resources={"images": queue.resource})
    assert str(again) == text
    (output,) = again.run([again.outputs[0]], {again.inputs[0]: ef.tensor([1.0, 2.0])})
    assert numbers(output) == [[1.0, 2.0]]


def test_only_what_is_needed_runs() -> None:
    queue = queue_of(1, 2, 3)

    @ef.trace
    def f() -> Any:
        with ef.unordered():
            a = queue.dequeue()
            b = queue.dequeue()
        return a * 2, b * 3

    graph = f.graph()
    (output,) = graph.run([graph.outputs[1]], {})
    assert numbers(output) == 3
    assert list(drained(queue)) == [2, 3]
    named = {v.name: v for v in graph.values()}
    assert numbers(graph.run([graph.outputs[0]], {named["queue_dequeue"]: ef.tensor(50)})[0]) == 100


def test_what_is_fed_is_not_taken() -> None:
    """Neither the order of effects nor a size dequeues a value that is fed: the queue is empty."""
    queue, v = queue_of(), ef.Variable(10)

    @ef.trace
    def f() -> Any:
        taken = queue.dequeue_up_to(3)
        return ef.reshape(taken, (taken.shape[0], 1)) * v

    graph = f.graph()
    (output,) = graph.run([graph.outputs[0]], {f.value("taken"): ef.tensor([1, 2])})
    assert numbers(output) == [[10], [20]]


def test_what_is_fed_in_part_runs_for_the_order_of_effects() -> None:
    queue, v = ef.Queue(None, (ef.tensor(0), ef.tensor(0))), ef.Variable(10)
    queue.enqueue((1, 2))

    @ef.trace
    def f() -> Any:
        a, b = queue.dequeue()
        return a * v, b

    graph = f.graph()
    (output,) = graph.run([graph.outputs[0]], {f.value("a"): ef.tensor(5)})
    assert numbers(output) == 50
    assert numbers(queue.size()) == 0


def test_which_graphs_need_the_executor() -> None:
    queue, other = queue_of(), queue_of()

    def graph_of(f: Any) -> ef.Graph:
        return ef.trace(f).graph(ef.tensor(1))

    def ordered(x: Any) -> Any:
        queue.enqueue(x)
        return ef.cond(x > 0, queue.dequeue, other.dequeue) + queue.dequeue()

    def free(x: Any) -> Any:
        with ef.unordered():
            return queue.dequeue() + other.dequeue()

    def free_inside(x: Any) -> Any:
        return ef.cond(x > 0, lambda: free(x), lambda: x)

    def in_a_row(x: Any) -> Any:
        with ef.unordered():
            queue.enqueue(x)
            other.enqueue(x)

    assert not has_free_waits(graph_of(ordered))
    for f in (free, free_inside, in_a_row):
        assert has_free_waits(graph_of(f))


def test_what_waits_for_what_comes_later() -> None:
    """Without an order the enqueue need not wait for the dequeue before it."""
    queue = queue_of()

    @ef.trace
    def f(x: Any) -> Any:
        with ef.unordered():
            y = queue.dequeue()
            queue.enqueue(x)
        return y

    assert numbers(f(ef.tensor(7))) == 7


def test_a_step_with_waits_can_be_repeated_from_its_log() -> None:
    queue = queue_of()

    @ef.trace
    def f(x: Any) -> Any:
        with ef.unordered():
            a, b = queue.dequeue(), queue.dequeue()
            queue.enqueue_many(ef.stack([x, x + 1]))
        return a + b

    runner = by_scheduler(f.graph(ef.tensor(1)))
    step = scheduled(runner).step(log=True)
    assert int(step.run([np.asarray(5)])[0]) == 11
    assert rerun(scheduled(runner).plan, step.log or []).outcome == "done"


def test_a_cancelled_step_takes_nothing() -> None:
    queue = queue_of()
    step = scheduled(by_scheduler(ef.trace(lambda: queue.dequeue_many(3)).graph())).step()
    waiting = Waiting(lambda: step.run([]), queue)
    queue.enqueue_many([1, 2])
    step.cancel()
    with pytest.raises(errors.CancelledError):
        waiting.result()
    assert list(drained(queue)) == [1, 2]


def test_errors_name_the_line_of_the_graph() -> None:
    queue = queue_of()

    @ef.trace
    def f(x: Any) -> Any:
        queue.enqueue(x * 2)  # before the other waits
        return queue.dequeue_many(2)  # the line

    waiting = Waiting(lambda: f(ef.tensor(1)), queue)
    queue.close()
    with pytest.raises(errors.QueueClosedError) as caught:
        waiting.result()
    assert "# the line" in str(caught.value)
    assert any("%queue_dequeue_many" in n for n in caught.value.__notes__)
    assert any("already written" in n and "queue" in n for n in caught.value.__notes__)


def test_a_device_without_data() -> None:
    queue = ef.Queue(4, "f32[2]", device="null:0")
    x = ef.zeros(2, device="null:0")
    queue.enqueue(x)
    for f in (queue.dequeue, ef.trace(queue.dequeue), ef.trace(lambda: queue.dequeue_many(3)[0])):
        assert f().type == x.type

    @ef.trace
    def free() -> Any:
        with ef.unordered():
            queue.enqueue(x)
            return queue.dequeue()

    assert free().type == x.type


PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put_many", "take", "take_many", "size", "branch", "loop"]),
        st.integers(1, 3),
    ),
    max_size=8,
)  # fmt: skip


def program(steps: list[tuple[str, int]], queue: ef.Queue, x: Any) -> list[Any]:
    """Operations in sequence, with their results; the queue always has enough elements."""
    results = []
    for kind, n in steps:
        if kind == "put":
            queue.enqueue(x * n)
        elif kind == "put_many":
            queue.enqueue_many(ef.stack([x + i for i in range(n)]))
        elif kind == "take":
            results.append(queue.dequeue())
        elif kind == "take_many":
            results.append(queue.dequeue_many(n) + x)
        elif kind == "size":
            results.append(queue.size())
        elif kind == "branch":
            results.append(ef.cond(x > n, queue.dequeue, lambda: queue.dequeue() * 10))
        else:

            def body(i: Any, total: Any) -> Any:
                queue.enqueue(total)
                return i + 1, total + queue.dequeue()

            results += ef.while_loop(lambda i, total, n=n: i < n, body, (ef.tensor(0), x))
    return results


@given(PROGRAMS, st.integers(0, 4))
def test_eager_and_traced_alike(steps: list[tuple[str, int]], x: int) -> None:
    results = []
    for mode in ("eager", "traced", "executor", "replay"):
        queue = queue_of(*range(100, 124))
        given = ef.tensor(x)
        traced = ef.trace(lambda x, queue=queue: program(steps, queue, x))
        if mode == "eager":
            outputs = [numbers(y) for y in program(steps, queue, given)]
        elif mode == "traced":
            outputs = [numbers(y) for y in traced(given)]
        elif mode == "replay":
            tape = ef.GradientTape()
            with tape:
                outputs = [numbers(y) for y in traced(given)]
        else:
            graph = traced.graph(given)
            outputs = [
                y.tolist() for y in by_scheduler(graph)(*[given.numpy()] * len(graph.inputs))
            ]
        results.append((outputs, list(drained(queue))))
    assert all(r == results[0] for r in results)
