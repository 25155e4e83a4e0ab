"""Pauses of the compiler: after each slice for work in slices, none for other work."""

from __future__ import annotations

from time import perf_counter

from eagerflow_kernels.native.compiler_slices import breathe, in_slices


def test_slices() -> None:
    now = perf_counter()
    pauses: list[float] = []

    def clock() -> float:
        return now

    breathe(clock, pauses.append)
    assert pauses == []
    with in_slices():
        breathe(clock, pauses.append)
        assert pauses == []
        now += 1
        breathe(clock, pauses.append)
        breathe(clock, pauses.append)
        assert len(pauses) == 1
        now += 1
        breathe(clock, pauses.append)
        assert len(pauses) == 2
    now += 1
    breathe(clock, pauses.append)
    assert len(pauses) == 2
