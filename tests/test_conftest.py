"""The leak guards of conftest.py: each kind of leak is found."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest
from threadpoolctl import threadpool_info

import eagerflow as ef
from eagerflow import settings as ef_settings
from eagerflow.core import interpreter
from eagerflow.tracing.tracer import Tracer
from tests import conftest
from tests.messages import says
from tests.source_tree import ROOT


class Looker(interpreter.AbstractInterpreter):
    """An interpreter that hands every op on."""

    def bind(self, op, inputs, attrs):
        return self.below.bind(op, inputs, attrs)


@pytest.fixture
def guard():
    """One run of the guard, which the test ends itself."""
    return conftest._no_leak.__wrapped__(SimpleNamespace(fixturenames=[]))


def _end(guard) -> None:
    with pytest.raises(StopIteration):
        next(guard)


def test_a_clean_test_passes(guard) -> None:
    next(guard)
    _end(guard)


def test_a_thread_is_seen(guard, monkeypatch) -> None:
    monkeypatch.setattr(conftest, "_GRACE", 0.05)
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="left behind")
    next(guard)
    thread.start()
    try:
        with pytest.raises(AssertionError, check=says("left behind")):
            next(guard)
    finally:
        done.set()
        thread.join()


def test_a_symbol_of_an_ended_trace_is_told_once(pytestconfig: pytest.Config) -> None:
    held_of_traces = pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py")).held_of_traces
    with Tracer("ended") as tracer:
        x = tracer.add_input(ef.zeros(2).type, "x")
    held = held_of_traces()
    assert [one.tracer for one in held] == [tracer]
    assert x._data is held[0]
    assert held_of_traces() == []


def test_a_socket_is_seen(guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "_GRACE", 0.1)
    next(guard)
    with socket.socket(), pytest.raises(AssertionError, match="sockets leaked"):
        next(guard)


def test_an_interpreter_is_seen(guard) -> None:
    next(guard)
    with interpreter.installed(Looker()), pytest.raises(AssertionError, match="still installed"):
        next(guard)


def test_a_setting_is_seen(guard) -> None:
    next(guard)
    with ef.config(cpu_devices=3), pytest.raises(AssertionError, match="settings were changed"):
        next(guard)
    assert ef_settings.current().cpu_devices == 1


def test_linear_algebra_has_one_thread() -> None:
    pools = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
    assert pools
    assert set(pools) == {1}
