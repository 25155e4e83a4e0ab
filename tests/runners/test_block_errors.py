"""The error that leaves nested ``with`` blocks of runners: that of the runner that failed first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import permutations
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.runners import runner
from eagerflow.runners.runner import Runner, _blocks
from eagerflow.runtime.threads.timers import timers
from tests.resources.queues.modes import until

_STAGES = ("producer", "batcher", "trainer")
_Make = Callable[[Callable[[], object]], Callable[[], object]]


@pytest.fixture(params=["traced", "thread"])
def make(request: Any) -> _Make:
    """Makes a function that runs as a graph, or in a thread of its own."""
    return ef.trace if request.param == "traced" else lambda f: f


class _Pipeline:
    """A producer that fails in its third run, two stages behind it, and a reader of the last queue.

    Args:
        make: makes the functions of the stages.
    """

    def __init__(self, make: _Make) -> None:
        self.queues = [ef.Queue(9, "i64[]") for _ in _STAGES]
        runs = iter(range(2))

        def produce() -> None:
            number = next(runs, None)
            if number is None:
                raise ValueError("record 2 is corrupt")
            self.queues[0].enqueue(number)

        def stage(i: int) -> Callable[[], object]:
            return make(lambda: self.queues[i].enqueue(self.queues[i - 1].dequeue() + 1))

        self._functions = {"producer": produce, "batcher": stage(1), "trainer": stage(2)}

    def spawn(self, name: str) -> Runner:
        closes = self.queues[_STAGES.index(name)]
        return ef.spawn(self._functions[name], closes=closes, name=name)

    def run(self, order: Sequence[str], body: Callable[[list[Runner]], object]) -> None:
        """Spawn the runners, each in a block of its own, and run ``body`` in the innermost one."""
        with ExitStack() as blocks:
            body([blocks.enter_context(self.spawn(name)) for name in order])


def _until_all_have_ended(runners: list[Runner]) -> None:
    until(lambda: not any(one.running for one in runners))


@pytest.mark.parametrize("order", [*permutations(_STAGES)], ids=" ".join)
def test_the_first_failure_leaves_a_block_in_every_order(
    make: _Make, order: Sequence[str], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "_UNSEEN", 600.0)  # the block ends before that
    with pytest.raises(ValueError, match="record 2 is corrupt") as caught:
        _Pipeline(make).run(order, _until_all_have_ended)
    assert caught.value.__notes__ == ["  in the runner producer, after 2 runs"]
    assert "produce" in [entry.name for entry in caught.traceback]
    timers.join()
    assert "has ended with an error" not in capsys.readouterr().err
    assert not _blocks.runners


@pytest.mark.parametrize("order", [*permutations(_STAGES)], ids=" ".join)
def test_an_error_of_the_block_stays(make: _Make, order: Sequence[str]) -> None:
    pipeline = _Pipeline(make)
    with pytest.raises(errors.RunnerFailedError, match="the runner producer ended") as caught:
        pipeline.run(order, lambda _: list(pipeline.queues[-1]))
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("order", [*permutations(_STAGES)], ids=" ".join)
def test_what_join_raises_in_a_block_stays(make: _Make, order: Sequence[str]) -> None:
    runners = list[Runner]()

    def join(all_: list[Runner]) -> None:
        runners.extend(all_)
        all_[order.index("trainer")].join()

    with pytest.raises(errors.RunnerFailedError) as caught:
        _Pipeline(make).run(order, join)
    assert caught.value is runners[order.index("trainer")].error


@pytest.mark.parametrize("order", [*permutations(("consumer", "producer"))], ids=" ".join)
def test_a_consumer_may_be_the_first(make: _Make, order: Sequence[str]) -> None:
    """Its failure travels back to the producer, through the queue between them."""
    queue = ef.Queue(1, "i64[]")
    spawn = {
        "consumer": lambda: ef.spawn(lambda: 1 / int(queue.dequeue()), closes=queue),
        "producer": lambda: ef.spawn(make(lambda: queue.enqueue(0))),
    }
    with pytest.raises(ZeroDivisionError), ExitStack() as blocks:
        _until_all_have_ended([blocks.enter_context(spawn[name]()) for name in order])


def test_an_inner_block_in_a_function_ends_with_the_first_failure(make: _Make) -> None:
    """What follows it in the outer block does not run."""
    pipeline, after = _Pipeline(make), list[str]()

    def run() -> None:
        with pipeline.spawn("producer") as producer:
            with pipeline.spawn("batcher") as batcher:
                _until_all_have_ended([producer, batcher])
            after.append("run")

    with pytest.raises(ValueError, match="record 2"):
        run()
    assert not after


def test_of_a_runner_without_a_block_the_cause_is_told(make: _Make) -> None:
    pipeline = _Pipeline(make)
    producer = pipeline.spawn("producer")
    with pytest.raises(errors.RunnerFailedError) as caught, pipeline.spawn("batcher") as batcher:
        _until_all_have_ended([producer, batcher])
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="record 2"):
        producer.join()


def test_a_failure_of_its_own_is_raised_by_the_inner_block(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runners that failed by themselves: one error is raised, and the other printed."""
    monkeypatch.setattr(runner, "_UNSEEN", 600.0)

    def outer() -> None:
        raise KeyError("outer")

    with pytest.raises(ZeroDivisionError), ef.spawn(outer) as one, ef.spawn(lambda: 1 / 0) as two:
        _until_all_have_ended([one, two])
    assert "KeyError: 'outer'" in capsys.readouterr().err
