"""Ctrl-C wherever a derivative, a batch or a block begins and ends: nothing stays installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import interpreter
from eagerflow.core.interpreter import stack
from eagerflow.hardware.device_scopes import all_open, latest
from tests import ctrl_c
from tests.each import check_each

# Python reports exceptions in callbacks of weak references, and does not raise them
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def _square(x: Any) -> Any:
    return (x * x).sum()


def _tape() -> Any:
    x = ef.ones(2)
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = _square(x)
    return tape.gradient(y, x)


def _device() -> Any:
    with ef.device("cpu:1"):
        return ef.ones(2) + ef.zeros(2, device="cpu:0")


def _device_in_gradient() -> Any:
    with ef.device("cpu:1"):
        return ef.grad(_square)(ef.ones(2, device="cpu:0"))


#: functions of the framework that install something, and remove it whatever happens
CALLS: dict[str, Callable[[], Any]] = {
    "grad": lambda: ef.grad(_square)(ef.ones(2)),
    "grad of grad": lambda: ef.grad(lambda x: ef.grad(_square)(x).sum())(ef.ones(2)),
    "jvp": lambda: ef.jvp(_square, (ef.ones(2),), (ef.ones(2),)),
    "linearize": lambda: ef.linearize(_square, ef.ones(2)),
    "jacobian": lambda: ef.jacobian(lambda x: x * x)(ef.ones(2)),
    "vmap": lambda: ef.vmap(_square)(ef.ones((2, 2))),
}
#: blocks of the user, whose exits Python calls: Ctrl-C as an exit begins leaves a block open
BLOCKS: dict[str, Callable[[], Any]] = {
    "tape": _tape,
    "device": _device,
    "device around a gradient": _device_in_gradient,
}


def _state() -> tuple[Any, ...]:
    return stack.total, stack.engaged, interpreter.current(), latest(), all_open.home


def _holes(call: Callable[[], Any], most: int) -> list[int]:
    """The places, of at most ``most``, at which Ctrl-C leaves something installed."""
    before, holes = _state(), []
    with ctrl_c.ctrl_c_raises():
        count = ctrl_c.places(call)
        for after in range(1, count + 1, 1 + count // most):
            with suppress(KeyboardInterrupt):
                ctrl_c.interrupted(call, after)
            if _state() != before:
                holes.append(after)
                _clear(before)
    return holes


def _clear(before: tuple[Any, ...]) -> None:
    """Remove the interpreters and device scopes that Ctrl-C has left."""
    for one in [*stack.transforms]:
        interpreter.installed(one).__exit__()
    while (one := latest()) is not None:
        one.end()
    assert _state() == before


@pytest.fixture(autouse=True)
def _two_devices():
    with ef.config(cpu_devices=2):
        yield


def _leaves_nothing(name: str) -> None:
    CALLS[name]()  # loads what it needs
    assert _holes(CALLS[name], 90) == []


def test_calls_that_ctrl_c_ends_leave_nothing_installed() -> None:
    check_each(CALLS, _leaves_nothing)


def _leaves_one(name: str) -> None:
    BLOCKS[name]()
    assert len(_holes(BLOCKS[name], 500)) <= 1


def test_blocks_that_ctrl_c_ends_are_left_but_for_one_place() -> None:
    check_each(BLOCKS, _leaves_one)
