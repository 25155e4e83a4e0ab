from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest

from eagerflow.watching import step_times
from eagerflow.watching.step_times import StepLog


def test_what_steps_came_to() -> None:
    log = StepLog()
    for i in range(10):
        log.note_step((3, 10.0 + i, 10.1 + i, 77, 1))
        log.note_step((4, 10.0 + i, 10.5 + i, 78, 1))
    assert log.collect() == 20
    assert log.collect() == 0
    three, four = log.executables[3], log.executables[4]
    assert (three.count, four.count) == (10, 10)
    assert three.median == pytest.approx(0.1)
    assert four.seconds == pytest.approx(5.0)
    assert (three.first, three.last) == (10.0, pytest.approx(19.1))
    assert three.rate(20.0) == pytest.approx(1.0)
    assert log.busiest(20.0) is four


def test_a_step_may_stand_for_several() -> None:
    log = StepLog()
    log.note_step((3, 10.0, 10.5, 77, 8))
    log.note_step((3, 10.6, 10.7, 77, 1))
    log.collect()
    times = log.executables[3]
    assert times.count == 9
    assert times.lately == 2
    assert times.seconds == pytest.approx(8 * 0.5 + 0.1)
    (bucket,) = times.series.buckets(1.0)
    assert (bucket.count, bucket.mean) == (9, pytest.approx(4.1 / 9))
    log.collect()
    assert times.lately == 0


def test_what_takes_the_time_now() -> None:
    log = StepLog()
    for i in range(10):
        log.note_step((1, 10.0 + i, 10.9 + i, 77, 1))
    for i in range(3):
        log.note_step((2, 30.0 + i, 30.2 + i, 77, 1))
        log.note_step((3, 30.5 + i, 30.6 + i, 77, 1))
    log.collect()
    assert log.busiest(25.0) is log.executables[1]
    assert log.busiest(33.0) is log.executables[2]
    assert log.busiest(90.0) is log.executables[1]


def test_a_median_follows_what_comes() -> None:
    log = StepLog()
    log.note_step((1, 0.0, 1.0, 0, 1))
    log.collect()
    assert log.executables[1].median == 1.0
    for i in range(5):
        log.note_step((1, 10.0 + i, 13.0 + i, 0, 1))
    log.collect()
    assert log.executables[1].median == 3.0


def test_the_timeline_is_of_the_last_steps() -> None:
    log = StepLog()
    for i in range(5000):
        log.note_step((1, float(i), i + 0.5, 9, 1))
    log.collect()
    assert log.told == 5000
    assert log.timeline(4998, 50) == [(1, 4998.0, 4998.5, 9, 1), (1, 4999.0, 4999.5, 9, 1)]
    assert len(log.timeline(0, 50)) == 50
    assert log.timeline(5000, 50) == []


def test_regions_have_times_of_their_own() -> None:
    log = StepLog()
    log.note_region((1, 2, 0.0, 0.25, 0))
    log.note_region((1, 5, 0.0, 0.5, 0))
    log.note_region((1, 5, 1.0, 1.5, 0))
    log.collect()
    assert {n: r.percentiles(50) for n, r in log.executables[1].regions.items()} == {
        2: (0.25,), 5: (0.5,)
    }  # fmt: skip


def test_none_is_lost_that_threads_note_meanwhile() -> None:
    """Each instruction of a look may be followed by one of a thread that runs steps."""
    log, noted = StepLog(), 0

    def note() -> None:
        nonlocal noted
        noted += 1
        log.note_step((1, noted * 1e-6, noted * 1e-6 + 5e-7, 0, 1))
        log.note_region((1, 0, 0.0, 1e-6, 0))

    note()
    looks = 3
    count = sum([_between_instructions(log.collect, note) for _ in range(looks)])
    assert noted > 10 * looks
    assert count < noted  # the last look has left some
    count += log.collect()
    assert count == noted == log.told == log.regions_told == log.executables[1].count


def _between_instructions(call: Callable[[], int], meanwhile: Callable[[], None]) -> int:
    """The result of a call, with ``meanwhile`` before each instruction of its module, once."""
    seen = set[tuple[CodeType, int]]()

    def look(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != step_times.__file__:
            return None
        frame.f_trace_opcodes = True
        place = frame.f_code, frame.f_lasti
        if event == "opcode" and place not in seen:
            seen.add(place)
            meanwhile()
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        return call()
    finally:
        sys.settrace(before)


def test_executables_are_bounded() -> None:
    log = StepLog()
    for i in range(2000):
        log.note_step((i, float(i), i + 1.0, 0, 1))
        log.collect()
    assert len(log.executables) == 512
    assert min(log.executables) == 2000 - 512
