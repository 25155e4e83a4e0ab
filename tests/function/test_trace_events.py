"""Events of traces: the beginning, reason and duration of each trace of a function."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.events import StepEvent, TraceEvent
from tests.recorded import recorded, refuse_events


def test_each_trace_is_told_with_its_reason() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        return x + 1

    with recorded(TraceEvent) as log:
        f(ef.zeros(2))  # this call
        f(ef.zeros(2))
        f(ef.zeros(3))
        f(ef.zeros(4))
    assert {e.name for e in log.events} == {"f"}
    assert [e.reason for e in log.events] == [record.reason for record in f.traces]
    assert [e.reason for e in log.events] == [
        "the first call", "x: now f32[3]@cpu:0, before f32[2]@cpu:0",
    ]  # fmt: skip
    first = log.events[0]
    assert "# this call" in first.source.text
    assert first.thread == threading.get_ident()
    assert all(e.seconds >= r.seconds for e, r in zip(log.events, f.traces, strict=True))
    assert log.begun == log.events


def test_a_trace_has_begun_while_the_function_runs() -> None:
    seen: list[Any] = []

    with recorded(TraceEvent) as log:

        @ef.trace
        def f(x: Any) -> Any:
            seen.extend(e.stop for e in log.begun)
            return x

        f(ef.zeros(2))
    assert seen == [None]


def test_a_trace_that_fails() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        raise ZeroDivisionError("wrong")

    with recorded(TraceEvent) as log, pytest.raises(ZeroDivisionError):
        f(ef.zeros(2))
    (event,) = log.events
    assert event.error == "ZeroDivisionError: wrong"
    assert log.begun == [event]


def test_a_trace_before_its_step() -> None:
    f = ef.trace(lambda x: x + 1)
    with recorded(TraceEvent, StepEvent) as log:
        f(ef.zeros(2))
    assert [(how, e.kind) for how, e in log.told] == [
        ("begin", "trace"), ("end", "trace"), ("begin", "step"), ("end", "step"),
    ]  # fmt: skip


def test_who_does_not_want_traces_is_told_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_events(monkeypatch, TraceEvent)
    with recorded(StepEvent):
        ef.trace(lambda x: x + 1)(ef.zeros(2))
