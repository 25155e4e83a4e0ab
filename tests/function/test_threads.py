"""Traced functions called from many threads at once, and other threads during a trace."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import interpreter
from eagerflow.core.interpreter import BASE
from eagerflow.errors import TraceWarning
from tests.messages import says

# mypy: disable-error-code="no-untyped-def"

THREADS = 8
RATE = 0.5
COUNT = 3


class Config:
    """Read by traced functions."""

    def __init__(self) -> None:
        self.rate = 0.5
        self.table = {"rate": 0.25, "rates": [1.0, 2.0]}


CONFIG = Config()


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    """Threads take turns often, so that races show; what tests rebind is put back."""
    global RATE, COUNT, CONFIG
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
    RATE, COUNT, CONFIG = 0.5, 3, Config()


def together(*functions: Callable[[], Any]) -> list[Any]:
    """What functions give that start at the same time, each in a thread of its own."""
    barrier = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            barrier.wait()
            results[i] = functions[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    if errors:
        raise errors[0]
    assert interpreter.current() is BASE
    return results


class Meeting:
    """A property that waits for another thread, to be read in the middle of a trace."""

    def __init__(self) -> None:
        self._arrived, self._done = threading.Event(), threading.Event()

    @property
    def now(self) -> int:
        self._arrived.set()
        assert self._done.wait(60), "deadlock"
        return 0

    def call(self, f: Any, *args: Any, meanwhile: Callable[[], Any]) -> tuple[Any, Any]:
        """What a call gives, and what ``meanwhile`` gives in another thread when both meet."""

        def other() -> Any:
            assert self._arrived.wait(60)
            try:
                return meanwhile()
            finally:
                self._done.set()

        first, second = together(lambda: f(*args), other)
        return first, second


# --- calls ------------------------------------------------------------------------------------


def test_the_same_first_call_from_many_threads_traces_once() -> None:
    @ef.trace
    def f(x, k):
        return x * k + RATE

    results = together(*[lambda i=i: f(ef.ones(3), float(i)).tolist() for i in range(THREADS)])
    assert results == [[i + 0.5] * 3 for i in range(THREADS)]
    assert len(f.traces) == 1


def test_differing_sizes_numbers_and_kinds() -> None:
    @ef.trace
    def f(x, k, n):
        for _ in range(n):
            x = x * k
        return x + COUNT

    def calls(i: int) -> Callable[[], None]:
        def run() -> None:
            for j in range(20):
                size, k, n = 1 + (i + j) % 5, 1.5 * i, j % 3
                dtype = (ef.float32, ef.float64)[j % 2]
                want = (ef.ones(size, dtype=dtype) * k**n + 3).tolist()
                assert f(ef.ones(size, dtype=dtype), k, n).tolist() == want

        return run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # so many traces
        together(*[calls(i) for i in range(THREADS)])
    # per dtype and n: one for the first size, at most one with a symbol
    assert len(f.traces) <= 2 * 3 * 2
    signatures = [(t.signature, tuple(t.static)) for t in f.traces]
    assert len(set(signatures)) == len(signatures), "a trace was made twice"


def test_a_number_that_another_thread_rebinds_has_one_of_its_values() -> None:
    global RATE

    @ef.trace
    def f(x):
        return x * RATE, RATE

    @ef.trace
    def grown(x):
        return x + RATE

    def call() -> None:
        for size in range(1, 40):
            y, rate = f(ef.ones(size))
            assert rate in allowed
            assert all(v in allowed for v in y.tolist())
            assert grown(ef.ones(1)).item() - 1 in allowed

    def rebind() -> None:
        global RATE
        for i in range(2_000):
            RATE = 0.25 * (i % 8)

    def trace_others() -> None:
        for i in range(20):
            g = ef.trace(lambda x, i=i: x * i + RATE)
            assert g(ef.ones(1)).item() - i in allowed

    allowed = {0.25 * i for i in range(8)}
    together(call, call, call, rebind, trace_others)
    RATE = 1.75
    assert f(ef.ones(2))[0].tolist() == [1.75, 1.75]
    assert len(f.traces) == 2
    assert type(RATE) is float


def test_threads_that_compute_with_a_captured_number_see_the_number() -> None:
    results = []

    def look() -> None:
        for _ in range(300):
            results.append(repr((
                RATE * 2, RATE + COUNT, (ef.ones(2) * RATE).tolist(), f"{RATE}", RATE > 0.25,
                [10, 20, 30, 40][COUNT], CONFIG.rate / 2, CONFIG.table["rates"][1] ** COUNT,
            )))  # fmt: skip

    def trace_much() -> None:
        for i in range(30):
            g = ef.trace(lambda x, i=i: x * RATE + COUNT * i + CONFIG.rate + CONFIG.table["rate"])
            assert g(ef.ones(1)).item() == 0.5 + 3 * i + 0.75

    together(look, look, look, trace_much, trace_much)
    assert set(results) == {repr((1.0, 3.5, [0.5, 0.5], "0.5", True, 40, 0.25, 8.0))}
    assert (type(RATE), type(CONFIG.rate), type(CONFIG.table["rate"])) == (float,) * 3


def test_nested_traced_functions_do_not_block_each_other() -> None:
    @ef.trace
    def inner(x):
        return x * 2

    @ef.trace
    def outer(x):
        return inner(x) + inner(x + 1)

    def both(first: Any, second: Any) -> Callable[[], None]:
        def run() -> None:
            for size in range(1, 8):
                assert first(ef.ones(size)).shape == (size,)
                assert second(ef.ones(size)).shape == (size,)

        return run

    together(*[both(inner, outer), both(outer, inner)] * 4)
    assert len(inner.traces) == 2
    assert len(outer.traces) == 2


def test_errors_in_one_thread_do_not_disturb_the_others() -> None:
    @ef.trace
    def f(x, fail):
        if fail:
            raise KeyError("no")
        return x * RATE

    def good() -> None:
        for size in range(1, 20):
            assert f(ef.ones(size), False).tolist() == [0.5] * size

    def bad() -> None:
        for _ in range(20):
            with pytest.raises(KeyError, check=says("no")):
                f(ef.ones(2), True)

    together(good, bad, good, bad)
    assert type(RATE) is float


# --- in the middle of a trace -----------------------------------------------------------------


def test_what_another_thread_reads_in_the_middle_of_a_trace() -> None:
    @ef.trace
    def known(x, k):
        return x * k

    known(ef.ones(2), 1.0)

    meeting = Meeting()

    @ef.trace
    def f(x):
        y = x * RATE + CONFIG.rate + CONFIG.table["rates"][0]
        meeting.now
        return y

    def look() -> tuple[Any, ...]:
        return (
            RATE + 1, -CONFIG.rate, CONFIG.table["rates"][0] < 2, (ef.ones(1) * RATE).tolist(),
            known(ef.ones(2), RATE).tolist(), isinstance(RATE, float), float(CONFIG.rate),
        )  # fmt: skip

    y, seen = meeting.call(f, ef.ones(1), meanwhile=look)
    assert y.tolist() == [2.0]
    assert seen == (1.5, -0.5, True, [0.5], [0.5, 0.5], True, 0.5)
    assert len(known.traces) == 1
    assert f.traces[0].static == []


def test_a_method_that_another_thread_is_about_to_call_is_no_place_for_a_number() -> None:
    meeting, looked, ended = Meeting(), threading.Event(), threading.Event()

    @ef.trace
    def f(x):
        y = x * RATE
        meeting.now
        return y

    sums = []

    def look() -> None:
        method = RATE.__add__
        looked.set()
        assert ended.wait(60), "deadlock"
        sums.append(method(1))

    thread = threading.Thread(target=look)

    def meanwhile() -> None:
        thread.start()
        assert looked.wait(60), "deadlock"

    try:
        y, _ = meeting.call(f, ef.ones(1), meanwhile=meanwhile)
    finally:
        ended.set()
        thread.join()
    assert (y.tolist(), sums, type(RATE)) == ([0.5], [1.5], float)


def test_what_another_thread_is_about_to_use_when_a_trace_ends() -> None:
    reading, holding, ended = (threading.Event() for _ in range(3))

    class Property:
        @property
        def now(self) -> int:
            reading.set()
            assert holding.wait(60), "deadlock"
            return 0

    meeting = Property()

    @ef.trace
    def f(x):
        y = x * RATE
        meeting.now
        return y

    def call() -> Any:
        try:
            return f(ef.ones(1)).item()
        finally:
            ended.set()

    def look() -> Any:
        assert reading.wait(60)
        numbers, more = iter((RATE, RATE)), (rate for rate in [RATE])
        holding.set()
        assert ended.wait(60)
        return [rate * 2 for rate in numbers], next(more) * 2

    assert together(call, look) == [0.5, ([1.0, 1.0], 1.0)]


def test_what_another_thread_sets_in_the_middle_of_a_trace_stays() -> None:
    global RATE

    meeting = Meeting()

    @ef.trace
    def f(x):
        y = x * RATE + CONFIG.rate + CONFIG.table["rate"] + CONFIG.table["rates"][0]
        meeting.now
        return y

    def change() -> None:
        global RATE
        RATE, CONFIG.rate = 2.0, 3.0
        CONFIG.table["rate"] = 4.0
        CONFIG.table["rates"][0] = 5.0

    meeting.call(f, ef.ones(1), meanwhile=change)
    assert (RATE, CONFIG.rate, CONFIG.table) == (2.0, 3.0, {"rate": 4.0, "rates": [5.0, 2.0]})
    assert f(ef.ones(1)).item() == 14.0
    RATE, CONFIG.rate, CONFIG.table = 1.0, 1.0, {"rate": 1.0, "rates": [1.0]}
    assert f(ef.ones(1)).item() == 4.0
    assert (RATE, CONFIG.rate, CONFIG.table) == (1.0, 1.0, {"rate": 1.0, "rates": [1.0]})


def test_what_another_thread_assigns_to_a_variable_in_the_middle_of_a_trace() -> None:
    v, meeting = ef.Variable(1.0), Meeting()

    @ef.trace
    def f(x):
        y = v.assign_add(x)
        meeting.now
        return y

    y, _ = meeting.call(f, ef.tensor(1.0), meanwhile=lambda: v.assign(10.0))
    assert y.item() == 11.0
    assert v.numpy() == 11.0


# --- state ------------------------------------------------------------------------------------


def test_no_update_of_a_variable_is_lost() -> None:
    v, counts = ef.Variable(0.0), ef.Variable(ef.zeros(3, dtype=ef.int64))

    @ef.trace
    def step(x):
        counts.assign_add([1, 2, 3])
        return v.assign_add(x)

    def run() -> None:
        for _ in range(200):
            step(ef.tensor(1.0))

    together(*[run] * THREADS)
    total = THREADS * 200
    assert v.numpy() == total
    assert counts.numpy().tolist() == [total, 2 * total, 3 * total]
    assert len(step.traces) == 1


def test_draws_of_concurrent_steps_are_disjoint() -> None:
    generator = ef.random.Generator(7)

    @ef.trace
    def step(x):
        return x + generator.uniform((4,), dtype=ef.float64)

    def run() -> list[tuple[float, ...]]:
        return [tuple(step(ef.zeros(4, dtype=ef.float64)).tolist()) for _ in range(50)]

    draws = [draw for run_draws in together(*[run] * THREADS) for draw in run_draws]
    again = ef.random.Generator(7)
    want = [tuple(again.uniform((4,), dtype=ef.float64).tolist()) for _ in range(50 * THREADS)]
    assert sorted(draws) == sorted(want)


def test_gradients_in_many_threads() -> None:
    w = ef.Variable(ef.ones(3))

    @ef.trace
    def loss(x, k):
        return (w * x * k * RATE).sum()

    def run(i: int) -> Callable[[], None]:
        def call() -> None:
            for j in range(10):
                with ef.GradientTape() as tape:
                    y = loss(ef.ones(3), float(i + j))
                assert tape.gradient(y, w).tolist() == [(i + j) * 0.5] * 3

        return call

    together(*[run(i) for i in range(THREADS)])
    assert len(loss.traces) == 1


def test_functions_are_made_cleared_and_dropped_meanwhile() -> None:
    @ef.trace
    def f(x):
        return x * RATE

    def call() -> None:
        for size in range(1, 30):
            assert f(ef.ones(size)).tolist() == [0.5] * size

    def clear() -> None:
        for _ in range(30):
            f.clear()

    def make() -> None:
        for _ in range(10):
            assert ef.trace(f.fn)(ef.ones(2)).tolist() == [0.5, 0.5]

    together(call, call, clear, make)


# --- threads that the function starts ---------------------------------------------------------


def test_threads_that_the_function_starts_are_reported() -> None:
    @ef.trace
    def starts(x):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        return x * 2

    @ef.trace
    def pools(x):
        with ThreadPoolExecutor(1) as pool:
            return x * pool.submit(lambda: RATE * 2).result()

    with ThreadPoolExecutor(1) as outside:

        @ef.trace
        def submits(x):
            return x * outside.submit(lambda: 2).result()

        for f, name in ((starts, "threading.Thread"), (pools, "ThreadPoolExecutor"),
                        (submits, "outside.submit")):  # fmt: skip
            with pytest.warns(TraceWarning, match=f"{name} runs only while tracing"):
                f(ef.ones(2))
