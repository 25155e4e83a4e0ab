"""The bus: who listens gets everything, who raises is removed, nobody costs nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.core import interpreter, monitors


def event(name: str = "thing") -> events.Event:
    return events.Event("test", name, "cpu:0", 1.0, 3.5, threading.get_ident())


class Log:
    """An instrument that keeps what it gets."""

    def __init__(self) -> None:
        self.seen: list[events.Event] = []

    def event(self, event: events.Event) -> None:
        self.seen.append(event)


class Broken:
    """An instrument that raises."""

    def event(self, event: events.Event) -> None:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        return "Broken()"


@pytest.fixture(autouse=True)
def _nobody_stays() -> Iterator[None]:
    yield
    assert not events.listening()


def test_an_event_knows_how_long_it_took() -> None:
    assert event().seconds == 2.5
    with pytest.raises(AttributeError):
        event().name = "other"


def test_every_instrument_gets_every_event_of_all_threads() -> None:
    one, two = Log(), Log()
    events.add_instrument(one)
    events.add_instrument(two)
    events.add_instrument(two)
    assert isinstance(one, events.Instrument)
    try:
        events.emit(event("here"))
        thread = threading.Thread(target=lambda: events.emit(event("there")))
        thread.start()
        thread.join()
    finally:
        events.remove_instrument(one)
        events.remove_instrument(two)
        events.remove_instrument(two)
    events.emit(event("too late"))
    assert [e.name for e in one.seen] == [e.name for e in two.seen] == ["here", "there"]


def test_an_instrument_that_raises_is_removed_with_a_warning() -> None:
    log = Log()
    events.add_instrument(Broken())
    events.add_instrument(log)
    try:
        with pytest.warns(RuntimeWarning, match=r"Broken\(\) raised ZeroDivisionError"):
            events.emit(event())
        events.emit(event())
    finally:
        events.remove_instrument(log)
    assert len(log.seen) == 2


def test_nobody_listens_no_event_is_made(monkeypatch) -> None:
    monkeypatch.setattr(events, "Event", None)
    monkeypatch.setattr(events, "emit", None)
    with monitors.timed():
        ef.ones(2) + 1.0


@pytest.fixture
def listener() -> Iterator[Log]:
    log = Log()
    events.add_instrument(log)
    yield log
    events.remove_instrument(log)


def test_plain_ops_emit_nothing_and_keep_nothing(listener: Log) -> None:
    """Not even to an instrument that listens: only a monitor makes events of ops."""
    x, v = ef.ones((4, 4)), ef.Variable(ef.zeros((4, 4)))

    def run(times: int) -> None:
        for _ in range(times):
            v.assign_add(ef.exp(x @ x) * 1e-3)
            ef.random.uniform((4, 4))

    run(20)
    assert not interpreter.stack.installed
    before = sys.getallocatedblocks()
    run(200)
    assert sys.getallocatedblocks() - before < 100
    assert listener.seen == []


def test_plain_ops_call_no_monitor_and_capture_no_line(monkeypatch) -> None:
    def called(*args: object, **kwargs: object) -> None:
        raise AssertionError("nobody looks on")

    for name in ("capture", "infer_specs", "describe"):
        monkeypatch.setattr(monitors, name, called)
    for name in ("Timing", "CheckNan", "Verify"):
        monkeypatch.setattr(getattr(monitors, name), "bind", called)
    x = ef.ones((3, 3))
    assert (ef.exp(x) @ x + 1.0).shape == (3, 3)
    assert ef.grad(lambda y: (y * y).sum())(x).shape == (3, 3)
