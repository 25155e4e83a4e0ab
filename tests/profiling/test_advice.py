"""Advice below the tables of a profile."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.profiling import OpStatistics, advice

SMALL = ef.ones((32, 64)), ef.ones((64, 64))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "_cores", lambda: 2)
    monkeypatch.setattr(advice, "_load", lambda: 5.0)
    monkeypatch.setattr(advice, "_SMALL", 1e3)  # other tests may keep the machine busy
    monkeypatch.setattr(advice, "_MORE", 1.0)


def _products(traced: bool = False) -> Any:
    f = ef.trace(lambda x, y: x @ y)
    step = f if traced else f.fn
    step(*SMALL)
    with ef.profile() as profile:
        for _ in range(3):
            step(*SMALL)
    return profile


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.usefixtures("busy")
def test_small_products_on_a_busy_machine(traced: bool) -> None:
    profile = _products(traced)
    assert "(load 5 on 2 processors)" in str(profile)
    assert str(profile).endswith("try ef.config(threads=1)")
    assert "ef.config(threads=1)" in profile._repr_html_()


@pytest.mark.usefixtures("busy")
def test_with_a_number_of_threads_of_the_user_there_is_none() -> None:
    with ef.config(threads=1):
        assert "hint" not in str(_products())


@pytest.mark.parametrize(("what", "value"), [("_load", 1.5), ("_cores", 1)])
@pytest.mark.usefixtures("busy")
def test_without_a_reason_there_is_none(
    what: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice, what, lambda: value)
    assert "hint" not in str(_products())


@pytest.mark.usefixtures("busy")
def test_large_products_and_other_ops_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with ef.profile() as profile:
        ef.exp(SMALL[0])
    assert "hint" not in str(profile)
    monkeypatch.setattr(advice, "_SMALL", 0.0)
    assert "hint" not in str(_products())


def _row(name: str, calls: int, total: float, median: float) -> OpStatistics:
    return OpStatistics(name, "cpu:0", calls, total, total / calls, median, 0.5, 0, 0)


def test_totals_that_other_programs_may_have_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "_cores", lambda: 2)
    monkeypatch.setattr(advice, "_load", lambda: 5.0)
    interrupted = [_row("sin", 10, 10.0, 0.1), _row("cos", 10, 5.0, 0.5)]
    (hint,) = advice.advice(interrupted)
    assert "(load 5 on 2 processors), and totals include the time in which other programs" in hint
    even = [_row("sin", 10, 1.1, 0.1), _row("cos", 2, 9.0, 0.1), _row("queue_dequeue", 9, 9.0, 0.1)]
    assert advice.advice(even) == []
    monkeypatch.setattr(advice, "_load", lambda: 1.0)
    assert advice.advice(interrupted) == []
