"""Errors travel through pipelines of runners, from the runner that failed to each reader."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.events import failed_runners
from eagerflow.runners import runner
from eagerflow.runners.runner import Runner
from eagerflow.runtime.threads.timers import timers
from tests.resources.queues.modes import until

_STAGES = 3
Make = Callable[[Callable[[], object]], Callable[[], object]]


@pytest.fixture(params=["traced", "thread"])
def make(request: Any) -> Make:
    """Makes a function that runs as a graph, or in a thread of its own."""
    return ef.trace if request.param == "traced" else lambda f: f


def pipeline(make: Make, fails: bool = True) -> tuple[list[Runner], list[ef.Queue]]:
    """A runner that reads five numbers, perhaps fails then, and stages that each add one."""
    queues = [ef.Queue(9, "i64[]") for _ in range(_STAGES + 1)]
    left = iter(range(5))

    def read() -> None:
        number = next(left, None)
        if number is None:
            if fails:
                raise OSError("the disk is gone")  # the line
            raise StopIteration
        queues[0].enqueue(number)

    def stage(i: int) -> Callable[[], object]:
        return make(lambda: queues[i + 1].enqueue(queues[i].dequeue() + 1))

    runners = [ef.spawn(read, closes=queues[0], name="head")]
    runners += [ef.spawn(stage(i), closes=queues[i + 1], name=f"stage {i}") for i in range(_STAGES)]
    return runners, queues


def test_a_loop_over_the_last_queue_names_the_first_runner(make: Make) -> None:
    (head, *stages), queues = pipeline(make)
    got = list[Any]()
    with pytest.raises(errors.RunnerFailedError) as caught:
        got.extend(queues[-1])
    assert [int(x) for x in got] == [3, 4, 5, 6, 7]
    with pytest.raises(errors.RunnerFailedError) as again:
        queues[-1].dequeue()
    for error in (caught.value, again.value):
        text = str(error)
        assert text.count("the runner head ended with OSError: the disk is gone") == 1
        assert text.count("# the line") == 1
        cause = error.__cause__
        assert (type(cause), cause and cause.__traceback__) == (OSError, None)
    with pytest.raises(OSError, check=lambda error: error is head.error):
        head.join()
    for one in stages:
        with pytest.raises(errors.RunnerFailedError) as late:
            one.join()
        assert "the runner head ended" in str(late.value)
        assert late.value.__notes__[-1:] == [f"  in the runner {one.name}, after 5 runs"]


def test_a_pipeline_that_is_complete_ends_well(make: Make) -> None:
    runners, queues = pipeline(make, fails=False)
    assert [int(x) for x in queues[-1]] == [3, 4, 5, 6, 7]
    assert all(one.join() for one in runners)


def test_a_loop_of_a_stage_passes_the_failure_on() -> None:
    source, out = ef.Queue(9, "i64[]"), ef.Queue(9, "i64[]")

    def copy() -> None:
        for x in source:
            out.enqueue(x)

    ef.spawn(lambda: 1 / 0, closes=source, name="head")
    ef.spawn(copy, closes=out, runs=1)
    with pytest.raises(errors.RunnerFailedError, match="the runner head ended"):
        list(out)


def test_a_failure_also_travels_to_the_producers(make: Make) -> None:
    """A consumer that closes its input when it fails ends them, and who shares their output."""
    middle, other = ef.Queue(1, "i64[]"), ef.Queue(None, "i64[]")
    consumer = ef.spawn(lambda: 1 / int(middle.dequeue()), closes=middle, name="tail")
    producer = ef.spawn(make(lambda: middle.enqueue(0)), closes=other)
    with pytest.raises(errors.RunnerFailedError, match="the runner tail ended"):
        list(other)
    with pytest.raises(errors.RunnerFailedError, match="the runner tail ended"):
        producer.join()
    with pytest.raises(ZeroDivisionError):
        consumer.join()


def test_a_reader_of_files_tells_of_the_failure_behind_its_names(
    make: Make, tmp_path: Path
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("1\n2\n")
    names, out = ef.Queue(9, "bytes[]"), ef.Queue(9, "bytes[]")
    reader = ef.io.TextLineReader(names)
    left = iter([str(path)])
    ef.spawn(lambda: names.enqueue(left.__next__() if not reader.resource.count else 1 / 0),
             closes=names, name="head")  # fmt: skip
    ef.spawn(make(lambda: out.enqueue(reader.read()[1])), closes=out)
    with pytest.raises(errors.RunnerFailedError, match="the runner head ended"):
        list(out)


def test_a_failure_is_printed_by_the_runner_that_failed(
    make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_runners, "_failed", {})
    runners, _ = pipeline(make)
    until(lambda: not any(one.running for one in runners))
    timers.join()
    told = capsys.readouterr().err
    assert told.count("has ended with an error") == 1
    assert "The runner head has ended with an error" in told
    with pytest.raises(errors.WaitTimeoutError) as caught:
        ef.Queue(1, "i64[]").dequeue(timeout=0)
    (note,) = caught.value.__notes__
    assert "the runner head failed" in note


def test_a_block_reports_a_failure_once(
    make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error that leaves the block has that of the runner, with its frames, as its cause."""
    monkeypatch.setattr(runner, "_UNSEEN", 600.0)  # the block ends before that
    runners, queues = pipeline(make)

    def read_in_blocks() -> None:
        with ExitStack() as blocks:
            for one in runners:
                blocks.enter_context(one)
            list(queues[-1])

    with pytest.raises(errors.RunnerFailedError) as caught:
        read_in_blocks()
    timers.join()
    assert "has ended with an error" not in capsys.readouterr().err
    assert caught.value.__cause__ is runners[0].error
    shown = io.StringIO()
    traceback.print_exception(caught.value, file=shown)
    assert ", in read\n" in shown.getvalue()


def test_a_block_reports_another_error_beside_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    queue = ef.Queue(1, "i64[]")
    head = ef.spawn(lambda: 1 / 0, closes=queue, name="head")
    until(lambda: not head.running)
    with pytest.raises(KeyError), head:
        raise KeyError
    assert "The runner head has ended with an error" in capsys.readouterr().err
