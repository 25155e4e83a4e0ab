"""Interpreters: which of them bind or observe an op, and their notifications."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import eagerflow as ef
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.interpreter import (
    BASE,
    AbstractDifferentiator,
    AbstractInterpreter,
    applying_rules,
    current,
    installed,
    use,
)
from eagerflow.core.monitors import monitored

X = ef.tensor([1.0, 2.0])


class Binder(AbstractInterpreter):
    """An interpreter that records the ops that it binds."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        self.seen.append(op.name)
        return self.below.bind(op, inputs, attrs)


class Looker(AbstractDifferentiator):
    """An observer that records the ops that it is shown, and counts the runs of rules."""

    observes = True

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.rules = 0

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        self.observe(op, inputs, attrs, result)
        return result

    def observe(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any], result: Any) -> None:
        assert not attrs
        assert result._mark is None
        self.seen.append(op.name)

    def begin_rules(self) -> None:
        self.rules += 1

    def follows(self, x: Any) -> bool:
        return False

    def end_rules(self) -> None:
        self.rules -= 1


def work() -> None:
    X + X
    ef.exp(X)
    X < X  # noqa: B015 - that it is computed is the point


WORK = ["add", "exp", "less"]


def test_an_observer_sees_every_op_once() -> None:
    work()  # the operators know their kernels from here on
    for below in (None, Binder()):
        looker = Looker()
        if below is None:
            with installed(looker):
                assert looker.looks_on
                work()
        else:
            with installed(below), installed(looker):
                assert not looker.looks_on
                work()
            assert below.seen == WORK
        assert looker.seen == WORK


def test_monitors_see_what_an_observer_sees() -> None:
    looker, monitor = Looker(), Binder()
    with installed(looker), monitored(monitor):
        work()
    assert looker.seen == monitor.seen == WORK


def test_other_threads_are_not_seen() -> None:
    looker = Looker()
    with installed(looker):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert looker.seen == []


def test_after_its_block_an_interpreter_keeps_no_other() -> None:
    outer, inner = Looker(), Looker()
    with installed(outer):
        with installed(inner):
            assert inner.below is outer
            assert current() is inner
        assert inner.below is BASE
        assert current() is outer
    assert current() is BASE


def test_differentiators_are_told_of_rules() -> None:
    outer, inner = Looker(), Looker()
    with installed(outer), installed(Binder()), installed(inner):
        with applying_rules():
            assert (outer.rules, inner.rules) == (1, 1)
            with use(outer), applying_rules():
                assert (outer.rules, inner.rules) == (2, 1)
        assert (outer.rules, inner.rules) == (0, 0)


def test_who_does_not_differentiate_runs_the_body_of_a_composite() -> None:
    def forward(x: Any) -> Passed:
        raise AssertionError

    composite = Composite("double", lambda x: (x + x,), forward, own_rule=True)
    binder = Binder()
    with installed(binder):
        (result,) = current().call(composite, [X])
    assert binder.seen == ["add"]
    assert result.tolist() == [2.0, 4.0]
    assert current().call(composite, [X])[0].tolist() == [2.0, 4.0]
