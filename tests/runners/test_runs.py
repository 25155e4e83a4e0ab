"""Numbers of runs, and functions that cannot be repeated."""

from __future__ import annotations

import functools
import traceback
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runners.runner import Runner


@pytest.fixture(params=["traced", "thread"])
def make(request: Any) -> Any:
    """Makes a function that runs as a graph, or in a thread of its own."""
    return ef.trace if request.param == "traced" else lambda f: f


@pytest.fixture
def queue() -> ef.Queue:
    return ef.Queue(None, ef.tensor(0))


# --- numbers of runs --------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [1, 3])
def test_so_many_runs(make: Any, runs: int, queue: ef.Queue) -> None:
    runner = ef.spawn(make(lambda: queue.enqueue(7)), closes=queue, runs=runs)
    assert [int(x) for x in queue] == [7] * runs
    assert runner.join()
    assert (runner.steps, runner.error) == (runs, None)


@pytest.mark.parametrize("count", ["steps", "count", "iterations"])
def test_wrong_arguments_are_refused_at_once(make: Any, count: str, queue: ef.Queue) -> None:
    function = make(lambda: queue.enqueue(7))
    with pytest.raises(TypeError, match=r"spawn: <lambda>\(\) got an unexpected keyword") as caught:
        ef.spawn(function, **{count: 3})
    assert "runs=100" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="too many positional arguments"):
        ef.spawn(function, 3)
    assert queue.size().item() == 0


@pytest.mark.parametrize("word", ["threads", "num_threads", "workers"])
def test_a_number_of_threads_is_a_number_of_spawns(word: str) -> None:
    with pytest.raises(TypeError, match="got an unexpected keyword") as caught:
        ef.spawn(lambda: None, **{word: 2})
    assert "each spawn starts one runner" in caught.value.__notes__[0]
    assert [each.name for each in traceback.extract_tb(caught.value.__traceback__)] == [
        "test_a_number_of_threads_is_a_number_of_spawns"
    ]


@pytest.mark.parametrize("word", ["close", "queue", "outputs"])
def test_the_queues_to_close_have_a_name_of_their_own(word: str, queue: ef.Queue) -> None:
    with pytest.raises(TypeError, match="got an unexpected keyword") as caught:
        ef.spawn(lambda: None, **{word: queue})
    assert "closes=queue names what the runner closes" in caught.value.__notes__[0]


def test_all_unknown_arguments_are_told_at_once(make: Any) -> None:
    with pytest.raises(TypeError) as caught:
        ef.spawn(make(lambda x: None), 1, threads=2, x=3, times=5)
    assert str(caught.value) == (
        "spawn: <lambda>() got unexpected keyword arguments 'threads', 'times'"
    )
    hints = "".join(caught.value.__notes__)
    assert "runs=100" in hints
    assert "each spawn starts one runner" in hints


def test_a_loop_that_runs_once(queue: ef.Queue) -> None:
    def produce(n: int) -> None:
        for i in range(n):
            queue.enqueue(i)

    ef.spawn(produce, 3, closes=queue, runs=1)
    assert [int(x) for x in queue] == [0, 1, 2]


@pytest.mark.parametrize("runs", [0, -1, 1.5, "1", True])
def test_numbers_that_are_refused(runs: Any) -> None:
    with pytest.raises(errors.TraceError, match="an int of at least 1"):
        ef.spawn(lambda: None, runs=runs)


# --- a warning of loops that are repeated -----------------------------------------------------


def warned(runner: Runner) -> str:
    """The error of a runner whose warning is one, as all are in tests."""
    with pytest.raises(RuntimeWarning) as caught:
        runner.join()
    return str(caught.value)


def test_a_finished_loop_is_told_of(queue: ef.Queue) -> None:
    def count() -> None:
        for i in range(3):
            queue.enqueue(i)

    def count_while() -> None:
        i = 0
        while i < 3:
            queue.enqueue(i)
            i += 1

    class Counter:
        def count(self) -> None:
            count()
            for i in range(3):
                queue.enqueue_many([i])

    for function in (count, count_while, functools.partial(count), Counter().count):
        told = warned(ef.spawn(function))
        assert "is called again" in told
        assert "runs=1" in told


def test_a_loop_over_a_queue_that_has_ended_is_told_of(queue: ef.Queue) -> None:
    def consume() -> None:
        for x in queue:
            seen.append(int(x))

    seen: list[int] = []
    queue.enqueue_many([1, 2])
    queue.close()
    assert "consume has returned" in warned(ef.spawn(consume))
    assert seen == [1, 2]
    assert ef.spawn(consume, runs=1).join()


def test_it_names_the_line_once(queue: ef.Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def produce() -> None:
        for i in range(3):
            queue.enqueue(i)
        if int(queue.size()) >= 9:
            raise StopIteration

    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(warnings, "warn_explicit", lambda *args: told.append(args))
    assert ef.spawn(produce).join()  # the line
    ((_, category, file, line),) = told
    assert (category, file) == (RuntimeWarning, __file__)
    with open(__file__, encoding="utf-8") as text:
        assert "# the line" in text.readlines()[line - 1]


def test_what_can_be_repeated_is_not_told_of(queue: ef.Queue) -> None:
    """Loops of each step, elements made by comprehensions, and repetition that is asked for."""
    source = ef.Queue(None, ef.tensor(0))
    left = iter(range(4))

    def pairs() -> None:
        for _ in range(2):
            queue.enqueue(source.dequeue())

    def several() -> None:
        for _ in range(2):
            queue.enqueue(next(left))

    def made() -> None:
        queue.enqueue_many([i for i in range(2)])  # noqa: C416
        if int(queue.size()) > 13:
            raise StopIteration

    def epochs() -> None:
        for i in range(2):
            queue.enqueue(i)
        if int(queue.size()) > 19:
            raise StopIteration

    source.enqueue_many([1, 2, 3, 4])
    source.close()
    for function, options in ((pairs, {}), (several, {}), (made, {}), (epochs, {"runs": ef.inf})):
        runner = ef.spawn(function, **options)
        assert runner.join()
        assert runner.steps > 1


# --- functions whose calls do not run their code ----------------------------------------------


def generate() -> Iterator[int]:
    yield 1


async def wait() -> None: ...


async def generate_later() -> AsyncIterator[int]:
    yield 1


class Callable:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (generate, r"items = generate\(\); ef.spawn\(lambda: queue.enqueue\(next\(items\)\)"),
        (functools.partial(generate), "a generator function"),
        (Callable(), "a generator function"),
        (wait, r"asyncio.run\(wait\(\)\)"),
        (generate_later, "an asynchronous generator function"),
    ],
)
def test_they_are_refused_at_the_call(function: Any, told: str, queue: ef.Queue) -> None:
    with pytest.raises(errors.TraceError, match=told):
        ef.spawn(function, closes=queue)
    assert not queue.closed


def test_the_rewrite_runs(queue: ef.Queue) -> None:
    items = generate()
    ef.spawn(lambda: queue.enqueue(next(items)), closes=queue)
    assert [int(x) for x in queue] == [1]


@pytest.mark.parametrize("function", [generate, wait])
def test_a_call_that_only_makes_one_fails(function: Any, queue: ef.Queue) -> None:
    runner = ef.spawn(lambda: function(), closes=queue)
    with pytest.raises(errors.TraceError, match="a call runs none of its code"):
        runner.join()
    assert queue.closed
