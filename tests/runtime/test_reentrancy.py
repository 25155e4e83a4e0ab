"""Nested steps with one worker thread; and state shared by threads: the pool, lists."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runtime import Executable, generated_or_scheduled
from eagerflow.runtime.threads import workers
from eagerflow_kernels.lists import ListData
from tests.runtime.graphs import straight

SIZE = 40_000  # exp of so many elements is estimated at 300 us


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores: the calling thread, and one of the pool; the scheduled tier counts as faster."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(generated_or_scheduled, "_GAIN", float("inf"))


def x() -> Any:
    return ef.tensor(np.linspace(-1, 1, SIZE, dtype=np.float32))


@ef.trace
def branches(x: Any) -> Any:
    return ef.exp(x) * 0.25 + ef.sin(x) * 0.25


def test_a_thousand_steps_within_a_step() -> None:
    graph = branches.graph(x())
    calls = threads = 0

    def call(y: Any) -> Any:
        nonlocal calls, threads
        calls += 1
        threads = max(threads, len(workers.shared))
        y = ef.tanh(y)  # eagerly
        y = branches(y)
        (y,) = graph.run(graph.outputs, {graph.inputs[0]: y})
        return ef.grad(lambda y: branches(y).sum())(y) if calls % 100 == 0 else y

    def by_hand(y: Any) -> Any:
        for _ in range(1000):
            y = call(y)
        return y

    @ef.trace
    def outer(x: Any, n: Any) -> Any:
        def body(y: Any, i: Any) -> Any:
            return ef.py_call(call, f"f32[{SIZE}]", y), i + 1

        # a thread may be busy with this meanwhile
        beside = ef.while_loop(lambda z, i: i < n, lambda z, i: (ef.cos(z), i + 1), (x, 0))[0]
        return ef.while_loop(lambda y, i: i < n, body, (x, 0))[0], beside

    want = by_hand(x())
    calls = 0
    result, _ = outer(x(), 1000)
    assert calls == 1000
    assert threads == 1
    assert result.numpy().tobytes() == want.numpy().tobytes()


def test_steps_in_steps_in_steps() -> None:
    """The depth is limited by Python's stack alone."""

    def call(y: Any, depth: Any) -> Any:
        y = branches(y)
        return nested(y, int(depth) - 1) if depth > 0 else y

    @ef.trace
    def nested(y: Any, depth: Any) -> Any:
        beside = ef.cos(y)
        return ef.py_call(call, f"f32[{SIZE}]", y, depth) * 0.5 + beside + ef.exp(beside)

    def by_hand(y: Any, depth: int) -> Any:
        beside = ef.cos(y)
        y = branches(y)
        inner = by_hand(y, depth - 1) if depth > 0 else y
        return inner * 0.5 + beside + ef.exp(beside)

    assert nested(x(), 20).numpy().tobytes() == by_hand(x(), 20).numpy().tobytes()


def test_an_error_goes_through_all_steps() -> None:
    def call(y: Any, depth: Any) -> Any:
        if depth == 0:
            raise ValueError("as planned")
        return nested(y, int(depth) - 1)

    @ef.trace
    def nested(y: Any, depth: Any) -> Any:
        return ef.py_call(call, f"f32[{SIZE}]", y, depth) + branches(y)

    for _ in range(2):
        with pytest.raises(ValueError, match="as planned"):
            nested(x(), 5)
    with pytest.raises(errors.DeadlineError), ef.deadline(1e-9):
        nested(x(), 5)


def test_many_callers_and_one_pool() -> None:
    """The pool does not grow with the number of steps."""
    want = branches(x()).numpy().tobytes()
    wrong: list[Any] = []

    def work() -> None:
        data = x()
        for _ in range(30):
            if branches(data).numpy().tobytes() != want or len(workers.shared) > 1:
                wrong.append(len(workers.shared))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- lists ------------------------------------------------------------------------------------


def grown(array: Any, x: Any, n: Any) -> Any:
    """Writes alternate with reads, so that versions take the list from each other."""

    def body(array: Any, y: Any, i: Any) -> Any:
        y = ef.sin(y) + array.read(i % 4)[0]
        return array.write(i, y[:2]), y, i + 1

    array, y, _ = ef.while_loop(lambda array, y, i: i < n, body, (array, x, 0))
    return ef.concat([array.stack(), y[:2][None]])


def test_two_parts_of_a_graph_change_one_list() -> None:
    """Each part sees its own versions, whichever thread is faster."""

    @ef.trace
    def f(x: Any, n: Any) -> Any:
        array = ef.TensorArray(4, ef.zeros(2), dynamic=True)
        for i in range(4):
            array = array.write(i, x[i : i + 2])
        return grown(array, ef.exp(x), n), grown(array, ef.cos(x), n), array.stack()

    data = x()
    graph = f.graph(data, 30)
    want = straight(graph)
    program = Executable(graph)
    inputs = [data.numpy() if v.type.shape else 30 for v in graph.inputs]
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            for a, b in zip(program(*inputs), want(*inputs), strict=True):
                assert a.tobytes() == b.tobytes()
    finally:
        sys.setswitchinterval(switching)
    assert program.tier.name == "scheduled"


def test_threads_change_one_list() -> None:
    first = ListData().changed(range(3), [np.asarray(i) for i in range(3)], 3)
    start = threading.Barrier(4, timeout=60)
    wrong: list[Any] = []

    def work(me: int) -> None:
        start.wait()
        values = first
        for i in range(300):
            values = values.changed([i % 3, values.size], [np.asarray(me), np.asarray(-me)],
                                    values.size + 1)  # fmt: skip
            if [int(first.get(j)) for j in range(3)] != [0, 1, 2]:
                wrong.append(i)
        if dict(values.items()).keys() != set(range(303)) or int(values.get(302)) != -me:
            wrong.append(values)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(1, 5)]
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert not wrong
