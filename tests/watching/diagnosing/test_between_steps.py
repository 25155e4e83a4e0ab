"""Time between steps: its share, the line it is spent at, and pauses that are none of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from time import perf_counter
from types import FrameType

import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.watching import Watcher
from eagerflow.watching.diagnosing.between_steps import BetweenSteps
from eagerflow.watching.diagnosing.diagnosis import diagnoses

Frames = Callable[[], dict[int, FrameType]]
_HERE = threading.get_ident()
_fit = ef.trace(lambda x: x + 1, name="fit")


def at_users_line() -> dict[int, FrameType]:
    """Frames of a thread in the user's code."""
    return {_HERE: sys._getframe()}


def idle() -> dict[int, FrameType]:
    """Frames of a thread that is in no Python code, as at the prompt of an interpreter."""
    return {}


def watched(
    step: float, gaps: list[float], frames: Frames = at_users_line, *,
    pause: float = 0.0, count: int = 1,
) -> tuple[Watcher, float]:  # fmt: skip
    """A watcher that saw steps with gaps before them, and the time after them and a pause."""
    _fit(ef.ones(2))
    number = _fit.latest().executable.number
    watcher = Watcher()
    watcher.between = BetweenSteps(frames)
    now = perf_counter()
    for gap in gaps:
        watcher.between.sample(now + gap / 2, watcher.log.newest)
        now += gap
        watcher.log.note_step((number, now, now + step, _HERE, count))
        watcher.log.collect()
        now += count * step
    return watcher, now + pause


def between(watcher: Watcher, now: float) -> list[str]:
    return [d.text for d in diagnoses(watcher, now) if d.kind == "between"]


def test_slow_code_between_steps_is_named_with_its_line() -> None:
    (text,) = between(*watched(0.0015, [0.03] * 40))
    assert text.startswith(
        "95 % of the time is between the steps of fit, in code outside of traced functions, "
        "mostly at test_between_steps.py:"
    )
    assert text.endswith(": return {_HERE: sys._getframe()}")


@pytest.mark.parametrize(
    ("step", "gaps"),
    [
        (0.03, [0.0005] * 40),  # steps take the time
        (0.00005, [0.0002] * 40),  # no more than calls of a traced function
        (0.01, [0.0005] * 20 + [3.0] + [0.0005] * 20),  # one long pause
        (0.01, [0.05] * 6),  # too few to be a rhythm
    ],
)
def test_what_is_no_slow_code(step: float, gaps: list[float]) -> None:
    assert between(*watched(step, gaps)) == []


def test_a_step_may_stand_for_several() -> None:
    assert between(*watched(0.00005, [32 * 0.0002] * 40, count=32)) == []
    (text,) = between(*watched(0.00005, [32 * 0.002] * 40, count=32))
    assert text.startswith("98 % of the time")


def test_long_gaps_count_if_the_thread_is_in_the_users_code() -> None:
    gaps = [0.9] * 10
    (text,) = between(*watched(0.01, gaps))
    assert text.startswith("99 % of the time is between the steps of fit")
    assert between(*watched(0.01, gaps, idle)) == []  # single cells, one after the other


def test_the_pause_after_the_last_step_is_not_slow() -> None:
    watcher, now = watched(0.01, [0.0005] * 40, pause=5.0)
    watcher.between.sample(now, watcher.log.newest)
    assert between(watcher, now) == []
    assert between(*watched(0.0015, [0.03] * 40, pause=60.0)) == []


def test_steps_of_other_functions_are_not_between() -> None:
    watcher, now = watched(0.01, [0.02] * 40)
    for i in range(40):
        start = now - i * 0.03 - 0.029  # within the gap before each step
        watcher.log.note_step((0, start, start + 0.018, _HERE, 1))
    watcher.log.collect()
    assert between(watcher, now) == []


def test_a_place_within_a_step_is_no_sample() -> None:
    seen: list[object] = []
    watcher = Watcher()

    def look(x: ef.Tensor) -> ef.Tensor:
        newest = (1, 0.0, perf_counter(), _HERE, 1)
        watcher.between.sample(perf_counter(), newest)
        seen.extend(watcher.between._samples)
        return x

    f = ef.trace(lambda x: ef.py_call(look, "f32[2]", x) + 1)
    f(ef.ones(2))
    assert seen == []


def test_traces_between_steps_are_named_as_such() -> None:
    watcher, now = watched(0.0015, [0.03] * 40)
    for i in range(5):
        event = events.TraceEvent(name="g", start=now - 0.1, reason=f"label: {i}")
        event.stop = now - 0.05
        watcher.end(event)
    watcher.collect()
    assert [d.kind for d in diagnoses(watcher, now)] == ["retraces"]
