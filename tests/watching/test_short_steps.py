from __future__ import annotations

import threading

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.events import StepEvent
from eagerflow.runtime import Executable
from eagerflow.runtime.observed_step import Observation
from eagerflow.watching import Watcher
from eagerflow.watching.step_times import StepLog, thin_out
from tests.recorded import recorded

TEXT = "graph f(%x: f32[2]) { %y = exp(%x) : f32[2] return %y }"


@pytest.fixture
def executable() -> Executable:
    """An executable whose code is called without preparation."""
    made = Executable(ef.Graph.parse(TEXT))
    for _ in range(3):
        made(np.zeros(2, "f4"))
    return made


def log_of(executable: Executable, seconds: float, count: int, every: int = 1) -> StepLog:
    log = StepLog()
    for i in range(count):
        log.note_step((executable.number, i * 1e-6, i * 1e-6 + seconds, 1, every))
    log.collect()
    return log


def test_one_step_stands_for_several_where_there_are_many(executable: Executable) -> None:
    thin_out(log_of(executable, 9.9e-6, 1_749))
    assert executable.told_every == 34
    thin_out(log_of(executable, 9.9e-6, 51, 34))
    assert executable.told_every == 34
    thin_out(log_of(executable, 1e-7, 100_000))
    assert executable.told_every == 512
    thin_out(log_of(executable, 1e-7, 1, 512))
    assert executable.told_every == 10


def test_where_there_are_few_each_is_told(executable: Executable) -> None:
    executable.told_every = 8
    thin_out(log_of(executable, 9.9e-6, 10, 8))
    assert executable.told_every == 1


@pytest.mark.parametrize("every", [1, 3, 8])
def test_no_step_is_lost(executable: Executable, every: int) -> None:
    """A report covers the next steps, too, and those that have not run yet are not counted."""
    watcher, x = Watcher(), np.zeros(2, "f4")
    watcher._run = lambda: None  # type: ignore[method-assign]
    with watcher:
        executable.told_every = every
        for count in range(1, 20):
            executable(x)
            watcher.log.collect()
            assert watcher.log.executables[executable.number].count == count


def test_steps_of_runners_stand_for_several_too(executable: Executable) -> None:
    watcher, x = Watcher(), np.zeros(2, "f4")
    watcher._run = lambda: None  # type: ignore[method-assign]
    with watcher:
        executable.told_every = 4
        for _ in range(8):
            ended = threading.Event()
            executable.detached(lambda result, ended=ended: ended.set()).begin([x])
            assert ended.wait(10)
        watcher.collect()
    times = watcher.log.executables[executable.number]
    assert (watcher.log.told, times.count) == (2, 8)


def test_an_instrument_that_comes_later_hears_of_the_next_step(executable: Executable) -> None:
    watcher, x = Watcher(), np.zeros(2, "f4")
    watcher._run = lambda: None  # type: ignore[method-assign]
    with watcher:
        executable.told_every = 8
        executable(x)
        with recorded(StepEvent) as log:
            executable(x)
    assert len(log.of("step")) == 1


def test_a_value_that_is_asked_for_is_of_the_next_step(executable: Executable) -> None:
    watcher, x, seen = Watcher(), np.zeros(2, "f4"), list[Observation]()
    watcher._run = lambda: None  # type: ignore[method-assign]
    with watcher:
        executable.told_every = 8
        executable(x)
        executable.observe(Observation(executable.number, seen.append))
        executable(x)
    assert len(seen) == 1
