"""Waits that end without a result name the runners that failed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.events import failed_runners
from eagerflow.runners.runner import Runner
from eagerflow.runtime.threads.timers import timers
from tests.ctrl_c import ctrl_c_raises
from tests.resources.queues.modes import Call, call, until  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def _none_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_runners, "_failed", {})


def failed(text: str = "disk", **options: Any) -> Runner:
    """A runner of ``produce`` that has failed, and whose error was seen."""

    def produce() -> None:
        raise OSError(text)

    runner = ef.spawn(produce, **options)
    with pytest.raises(OSError, match=text):
        runner.join()
    return runner


def notes(error: BaseException) -> list[str]:
    return [n for n in getattr(error, "__notes__", ()) if "runner" in n]


def test_a_timeout_names_the_failed_runner(call: Call) -> None:  # noqa: F811
    queue = ef.Queue(2, ef.tensor(0))
    runner = failed()
    with pytest.raises(errors.WaitTimeoutError) as caught:
        call(lambda: queue.dequeue(timeout=0.01))
    (note,) = notes(caught.value)
    assert note.startswith(f"  the runner {runner.name} failed: OSError: disk; ")
    assert "closes=queue" in note


def test_a_deadline_names_it_too() -> None:
    queue = ef.Queue(2, ef.tensor(0))
    failed(closes=ef.Queue(2, ef.tensor(0)), name="source")
    with pytest.raises(errors.DeadlineError) as caught, ef.deadline(0.01):
        queue.dequeue()
    assert notes(caught.value) == ["  the runner source failed: OSError: disk"]


def test_ctrl_c_names_it_too() -> None:
    queue = ef.Queue(2, ef.tensor(0))
    state: Any = queue.resource
    failed()
    main = threading.get_ident()

    def interrupt() -> None:
        until(lambda: state.waiting(1) == 1)
        signal.pthread_kill(main, signal.SIGINT)

    with ctrl_c_raises(), pytest.raises(KeyboardInterrupt) as caught, ef.spawn(interrupt, runs=1):
        queue.dequeue()
    assert len(notes(caught.value)) == 1


def test_no_note_without_a_failure(call: Call) -> None:  # noqa: F811
    queue = ef.Queue(2, ef.tensor(0))
    with ef.spawn(lambda: queue.enqueue(1), runs=1) as runner:
        runner.join()
    queue.dequeue()
    with pytest.raises(errors.WaitTimeoutError) as caught:
        call(lambda: queue.dequeue(timeout=0.01))
    assert not notes(caught.value)


def test_a_function_that_is_spawned_again_is_forgiven() -> None:
    queue = ef.Queue(2, ef.tensor(0))

    def produce(fails: bool) -> None:
        if fails:
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        ef.spawn(produce, True).join()
    ef.spawn(produce, False, runs=1).join()
    with pytest.raises(errors.WaitTimeoutError) as caught:
        queue.dequeue(timeout=0)
    assert not notes(caught.value)


def test_the_last_three_are_named() -> None:
    for i in range(5):
        failed(f"disk {i}", name=f"source {i}")
    with pytest.raises(errors.WaitTimeoutError) as caught:
        ef.Queue(2, ef.tensor(0)).dequeue(timeout=0)
    assert [note[13:21] for note in notes(caught.value)] == ["source 2", "source 3", "source 4"]


@pytest.mark.parametrize("closes", [False, True])
def test_the_printed_error_says_how_readers_end(
    closes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = ef.Queue(2, ef.tensor(0))

    def produce() -> None:
        raise OSError("disk")

    runner = ef.spawn(produce, closes=queue if closes else ())
    until(lambda: not runner.running)
    timers.join()
    told = capsys.readouterr().err
    assert "in its first run" in told
    assert ("closes=queue" in told) is not closes


def test_the_run_that_failed_is_counted() -> None:
    left = iter([1, 2])
    fails: Callable[[], Any] = lambda: next(left) / 0 if len(runs) == 1 else runs.append(next(left))
    runs: list[int] = []
    with pytest.raises(ZeroDivisionError) as caught:
        ef.spawn(fails).join()
    assert [n.partition(", ")[2] for n in caught.value.__notes__] == ["after 1 run"]
