"""The choice between kernels and plain code, by times of runs of one size."""

from __future__ import annotations

import pytest

from eagerflow.runtime.native_or_plain import KernelTrial


def _decided(native: float, plain: float, size: int = 5) -> KernelTrial:
    trial = KernelTrial()
    for _ in range(40):
        if trial.faster is not None:
            return trial
        kernels = trial.pick()
        trial.took(kernels, native if kernels else plain, size)
    raise AssertionError("it is not decided")


@pytest.mark.parametrize(
    ("native", "plain", "faster"), [(1.0, 2.0, True), (2.0, 1.0, False), (1.04, 1.0, True)]
)
def test_the_faster_stays(native: float, plain: float, faster: bool) -> None:
    trial = _decided(native, plain)
    assert trial.faster is faster
    assert trial.best == (native, plain)


def test_the_first_run_of_each_does_not_count() -> None:
    trial = KernelTrial()
    for seconds in (9.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        trial.took(trial.pick(), seconds, 1)
    assert trial.best == (2.0, 2.0)


def test_a_busy_machine_does_not_throw_kernels_out() -> None:
    trial = KernelTrial()
    for run in range(40):
        if trial.faster is not None:
            break
        kernels = trial.pick()
        disturbed = kernels and run < 12
        trial.took(kernels, 100.0 if disturbed else 1.0, 1)
    assert trial.faster is True
    assert run > 12


def test_other_sizes_are_not_compared() -> None:
    trial = KernelTrial()
    trial.took(trial.pick(), 1.0, 5)
    for _ in range(63):
        trial.took(trial.pick(), 100.0, 6)
    assert trial.faster is None
    trial.took(trial.pick(), 100.0, 7)  # the size of the first run no longer comes
    assert trial.faster is True
    assert trial.best is None
