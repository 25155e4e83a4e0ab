"""Ctrl-C, as a signal to a process that does nothing else, and deadlines."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.dims import resolving
from eagerflow.dims.size_questions import resolver
from eagerflow.events import step_of
from eagerflow.graph import Graph
from eagerflow.graph.verify import verify
from eagerflow.runtime.executable import Executable
from tests import ctrl_c
from tests.runtime import interrupted


@pytest.mark.parametrize("how", ["script", "ipython"])
def test_endless_loops_end_and_nothing_is_broken(how: str) -> None:
    run = [sys.executable, "-m", "tests.runtime.interrupted", how]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 7, done.stdout
    for line in lines:
        assert line["error"] == "KeyboardInterrupt"
        assert line["before"] > 0
        assert line["same"]
        if not line["name"].endswith("00"):  # in the main thread alone
            assert line["after"] <= 1000  # of some 100,000 in a second
    assert lines[3]["variable"] > 0
    assert lines[-1]["variable"] == lines[-2]["variable"]


# --- deadlines --------------------------------------------------------------------------------

LARGE = np.linspace(-1, 1, interrupted.SIZE, dtype=np.float32)


@pytest.mark.parametrize(
    ("f", "size"),
    [
        (interrupted.structured, 2),
        (interrupted.converted, 2),
        (interrupted.effects, 2),
        (interrupted.effects, interrupted.SIZE),
        (interrupted.at_once, interrupted.SIZE),
    ],
)
def test_deadlines(f: Callable[..., Any], size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    x = ef.tensor(LARGE[:size])
    want = f(x, 3).numpy()
    for _ in range(2):  # as one function, and by scheduled nodes
        with (
            pytest.raises(errors.DeadlineError, match="its deadline has passed") as caught,
            ef.deadline(0.05),
        ):
            f(x, interrupted.ENDLESS)
        assert isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value, errors.CancelledError)
        if f is interrupted.effects:
            assert any("already written: variable" in n for n in caught.value.__notes__)
        with ef.deadline(1000):
            assert f(x, 3).numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("places", range(3, 20))
def test_wherever_it_is_stopped_it_says_what_it_wrote(
    places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    v = ef.Variable(0.0)

    @ef.trace
    def f(x: Any, n: Any) -> Any:
        for _ in range(n[0]):
            for _ in range(n[1]):
                v.assign_add(1.0)
            x = ef.sin(x)
        return x

    x, n = ef.ones(2), ef.tensor([5, 2])
    f(x, n)
    v.assign(0.0)
    left = places

    def stopped() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    monkeypatch.setattr(step_of, "stopped", stopped)
    with pytest.raises(errors.CancelledError) as caught, ef.deadline(1000):
        f(x, n)
    monkeypatch.undo()
    assert left == 0
    said = any("written: variable" in n for n in caught.value.__notes__)  # or may have been
    assert said == (v.numpy() > 0)


def test_a_call_after_the_deadline_does_nothing() -> None:
    v = ef.Variable(0.0)
    f = ef.trace(lambda: v.assign_add(1.0))
    f()
    with ef.deadline(1e-9):
        for _ in range(2):
            with pytest.raises(errors.DeadlineError):
                f()
    assert v.numpy() == 1.0
    f()
    assert v.numpy() == 2.0


def test_the_first_deadline_counts() -> None:
    f = ef.trace(lambda x: ef.exp(x))
    f(ef.zeros(2))
    with ef.deadline(1e-9), ef.deadline(1000), pytest.raises(errors.DeadlineError):
        f(ef.zeros(2))
    with ef.deadline(1000), ef.deadline(1e-9), pytest.raises(errors.DeadlineError):
        f(ef.zeros(2))
    f(ef.zeros(2))


def test_deadlines_of_other_threads() -> None:
    f = ef.trace(lambda x: ef.exp(x))
    results: list[Any] = []
    with ef.deadline(1e-9):
        thread = threading.Thread(target=lambda: results.append(f(ef.zeros(2))))
        thread.start()
        thread.join()
    assert results[0].tolist() == [1.0, 1.0]


def test_a_step_within_a_step_has_the_same_deadline() -> None:
    inner = ef.trace(lambda x: interrupted.eager(x, 10**9))

    @ef.trace
    def outer(x: Any) -> Any:
        return ef.py_call(inner, "f32[2]", x)

    with pytest.raises(errors.DeadlineError), ef.deadline(0.2):
        outer(ef.ones(2))


def test_a_block_may_be_entered_again() -> None:
    block = ef.deadline(1000)
    with block, block:
        ef.trace(ef.exp)(ef.zeros(2))
    for wrong in (0, -1.0, "3", True, float("nan")):
        with pytest.raises(errors.TensorValueError):
            ef.deadline(wrong)


@pytest.mark.parametrize("work", [verify, lambda graph: Executable(graph).text])
def test_sizes_are_asked_as_before(work: Callable[[Graph], Any]) -> None:
    graph = ef.trace(lambda x: x * 2).graph(ef.ones(3))
    work(graph)  # fills caches
    count = ctrl_c.places(lambda: work(graph))
    with ctrl_c.ctrl_c_raises(), resolving(lambda dim, why: 3):
        before = resolver.get()
        for i in {*range(1, count, 1 + count // 40), *range(count - 30, count)}:
            with pytest.raises(KeyboardInterrupt):
                ctrl_c.interrupted(lambda: work(graph), i)
            assert resolver.get() is before
