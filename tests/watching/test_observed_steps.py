"""Observed steps: which come first where the budget is small, and what they cost."""

from __future__ import annotations

from time import perf_counter

import pytest

import eagerflow as ef
from eagerflow.runtime.observed_step import Observation
from eagerflow.watching.limits import OBSERVED_STEPS
from eagerflow.watching.node_costs import Duty
from tests.watching.test_watcher import quiet, small, tick


def test_observed_steps_count() -> None:
    f, watcher = small(), quiet()
    watcher.observer.duty = Duty(share=1.0)
    watcher.observer.draw = lambda below: 0  # the next step
    with watcher:
        for _ in range(5):
            f(ef.ones(2))
            tick(watcher)
        watcher.collect()
    ((number, times),) = watcher.log.executables.items()
    assert watcher.observed(number).count > 1
    assert times.count == 5


@pytest.mark.parametrize(("ops", "is_observed"), [(3, True), (100, False)])
def test_a_small_graph_is_observed_although_others_have_cost_too_much(ops, is_observed) -> None:
    def chain(x):
        for _ in range(ops):
            x = ef.exp(x)
        return x

    f, watcher = ef.trace(chain, compile="off"), quiet()
    watcher.observer.duty = Duty(share=0.0)
    watcher.observer.draw = lambda below: 0  # the next step
    watcher.observer.duty.looked(1.0)
    with watcher:
        for _ in range(3):
            f(ef.zeros(2))
            tick(watcher)
    (number,) = watcher.log.executables
    assert (watcher.observed(number).count > 0) is is_observed


class Income:
    """A duty that earns in each round what one observed step with times costs."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def worked(self, seconds: float) -> None:
        self.seconds += 1e-4

    def looked(self, seconds: float) -> None:
        pass

    def allows(self, seconds: float) -> bool:
        return self.seconds >= seconds


def test_a_check_for_nan_comes_although_observed_steps_take_the_whole_budget() -> None:
    f, watcher = ef.trace(lambda x: ef.sqrt(x) + 1, compile="off"), quiet()
    watcher.observer.duty = Duty(share=0.0)
    watcher.observer.duty.looked(1.0)
    watcher.observer.draw = lambda below: 0  # the next step
    kinds, income = list[str](), Income()
    x = ef.tensor([-1.0, 1.0])
    f(x)
    with watcher:
        f(x)
        tick(watcher)
        for _ in range(200):
            f(x)
            watcher.collect()
            watcher.observer.step(perf_counter())
            (known,) = watcher.observer.executables.values()
            if known.duty is not income:
                known.duty = income  # type: ignore[assignment] - a fake
            elif known.asked is not None:
                kinds.append("times" if known.checking is None else "check")
                income.seconds -= known.expected if known.checking is None else known.check[1]
            known.check, known.expected, known.next = (0.0, 1e-3), 1e-4, 0.0
    assert known.first_nan is not None
    first = kinds.index("check")
    assert OBSERVED_STEPS - 2 <= first <= OBSERVED_STEPS  # two came before the account was small
    assert kinds[first:].count("check") > 5
    later = "".join(kind[0] for kind in kinds[first:])
    assert {len(times) for times in later.split("c")[1:-1]} == {3}


def test_a_value_that_is_asked_for_waits_for_no_pause() -> None:
    f, watcher = small(), quiet()
    with watcher:
        f(ef.ones(2))
        tick(watcher)
        (observed,) = watcher.observer.executables.values()
        exp = [node.op for node in observed.index.nodes].index("exp")
        for _ in range(3):
            watcher.observer.look_at(observed.executable, exp)
            f(ef.ones(2))
            watcher.collect()
            observed.next = float("inf")
            watcher.observer.step(perf_counter())
    assert observed.values
    assert observed.next == float("inf")


def test_the_first_look_at_a_value_keeps_later_steps_from_nothing() -> None:
    """It writes code, which may take a second: the next one does not."""
    f, watcher = small(), quiet()
    with watcher:
        f(ef.ones(2))
        tick(watcher)
        (observed,) = watcher.observer.executables.values()
        observed.asked = Observation(observed.executable, lambda seen: None, {"x": print})
        watcher.observer._done.append((observed.asked, {}))
        observed.asked.end(0.0, 1.0)
        watcher.collect()
    assert observed.expected < 1e-3
