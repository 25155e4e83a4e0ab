"""Diagnoses of a watcher on real programs with a fault."""

from __future__ import annotations

from math import inf
from random import Random
from time import perf_counter, sleep

import pytest

import eagerflow as ef
from eagerflow.watching import Watcher
from eagerflow.watching.diagnosing.diagnosis import diagnoses, undecided
from eagerflow.watching.limits import TRACES
from eagerflow.watching.naming import name_of, share_text
from eagerflow.watching.node_costs import Duty


def quiet() -> Watcher:
    """A watcher without a thread: tests call its steps."""
    watcher = Watcher()
    watcher._run = lambda: None  # type: ignore[method-assign]  # the test looks
    watcher.observer.duty = Duty(share=1.0)
    watcher.observer.draw = lambda below: 0  # the next step
    return watcher


def observe(watcher: Watcher, nans: bool = True) -> None:
    """Have the next step observed, whatever came before; without ``nans`` for its times alone."""
    watcher.collect()
    for known in watcher.observer.executables.values():
        known.next, known.check = 0.0, (0.0 if nans else inf, 0.0)
    watcher.observer.step(perf_counter())


def test_a_nan_is_found_without_being_asked_for() -> None:
    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        with ef.name_scope("outer"):
            y = ef.sqrt(x - 2.0)
        return (y * 3.0).sum()

    x = ef.ones(4)
    f(x)
    with quiet() as watcher:
        for _ in range(12):
            f(x)
            observe(watcher)
        (diagnosis,) = [d for d in diagnoses(watcher, perf_counter()) if d.kind == "nan"]
        for _ in range(12):
            f(x * 3.0)
            observe(watcher)
        after = [d for d in diagnoses(watcher, perf_counter()) if d.kind == "nan"]
    assert diagnosis.text == (
        "NaN: sqrt in outer on cpu:0 makes NaN of finite values, and a result has them, too"
    )
    assert after == []


def test_a_nan_in_some_steps_is_found_whatever_their_period() -> None:
    """Requests come after each eighth step, and the next four steps are fine."""
    f = ef.trace(lambda x: ef.sqrt(x).sum())
    good, bad = ef.ones(4), -ef.ones(4)
    f(good)
    nodes = []
    with quiet() as watcher:
        watcher.observer.draw = Random(1).randrange
        for _ in range(80):
            for x in [good] * 4 + [bad] * 4:
                f(x)
            observe(watcher)
            nodes += [d.node for d in diagnoses(watcher, perf_counter()) if d.kind == "nan"]
    assert len(set(nodes)) == 1
    assert len(nodes) > 30  # and it stays, although half of the checked steps have none


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")  # on purpose
def test_a_function_that_is_traced_again_and_again() -> None:
    @ef.trace
    def scale(x: ef.Tensor, label: str) -> ef.Tensor:
        return x * len(label)

    with quiet() as watcher:
        for i in range(3):
            scale(ef.ones(2), f"step {i}")
        watcher.collect()
        assert diagnoses(watcher, perf_counter()) == []
        scale(ef.ones(2), "step 3")
        watcher.collect()
        (diagnosis,) = diagnoses(watcher, perf_counter())
        later = diagnoses(watcher, perf_counter() + 60)
    assert diagnosis.kind == "retraces"
    assert diagnosis.text.startswith("scale is retraced again and again, 4 times in 10 s, because")
    assert later == []


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")  # on purpose
def test_traces_are_counted_beyond_those_that_are_remembered() -> None:
    @ef.trace
    def scale(x: ef.Tensor, label: str) -> ef.Tensor:
        return x * len(label)

    many = TRACES + 16
    with quiet() as watcher:
        for i in range(many):
            scale(ef.ones(2), f"step {i}")
        watcher.collect()
        (diagnosis,) = diagnoses(watcher, perf_counter())
    assert f"{many} times in 10 s" in diagnosis.text
    assert diagnosis.path == ("scale",)
    assert name_of(diagnosis.executable) == "scale"
    assert diagnosis.executable == scale.latest().executable.number


def test_too_few_observed_steps_are_no_judgement() -> None:
    f = ef.trace(lambda x: ef.exp(x @ x).sum())
    x = ef.zeros((64, 64))
    f(x)
    said = []
    with quiet() as watcher:
        for _ in range(20):
            f(x)
            observe(watcher, nans=False)
            said.append(undecided(watcher, perf_counter()))
    assert said[0].endswith(": 0 of 9")
    assert any(text.endswith(": 2 of 9") for text in said)
    assert said[-1] == ""


def test_shares_that_are_told_are_those_of_the_table() -> None:
    def late(x: ef.Tensor) -> ef.Tensor:
        sleep(0.02)
        return x

    slow = ef.trace(lambda x: ef.py_call(late, "f32[64,64]", ef.exp(x @ x)).sum())
    x = ef.zeros((64, 64))
    slow(x)
    with quiet() as watcher:
        for _ in range(8):
            slow(x)
            observe(watcher)
        (diagnosis,) = diagnoses(watcher, perf_counter())
        (observed,) = [o for o in watcher.observer.executables.values() if o.costs.steps]
        cost = next(c for c in observed.costs.table() if c.number == diagnosis.node)
    assert f"{share_text(cost.share)} of a step" in diagnosis.text


def test_runs_as_they_should_be_have_none() -> None:
    f = ef.trace(lambda x: ef.exp(x @ x).sum())
    x = ef.zeros((64, 64))
    f(x)
    with quiet() as watcher:
        for _ in range(12):
            f(x)
            observe(watcher)
        assert diagnoses(watcher, perf_counter()) == []
