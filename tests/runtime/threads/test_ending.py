"""The end of the program's threads."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import suppress
from typing import Any

import pytest

from eagerflow.runtime.threads.ending import Ending


class Service:
    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Ending:
    monkeypatch.setattr("atexit.register", lambda call: None)
    return Ending(grace=30, last=30)


def test_threads_are_asked_to_stop_and_waited_for(ending: Ending) -> None:
    service = Service()
    thread = threading.Thread(target=service.stopped.wait, daemon=True)
    ending.before(service, Service.stop)
    ending.start(thread)
    ending.end()
    assert not thread.is_alive()


def test_what_was_made_later_is_stopped_first(ending: Ending) -> None:
    order: list[Service] = []
    services = [Service() for _ in range(3)]
    for service in services:
        ending.before(service, order.append)
    ending.end()
    assert order == services[::-1]


def test_what_computes_for_ever_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atexit.register", lambda call: None)
    ended: list[Any] = []

    def compute() -> None:
        try:
            while True:
                sum(range(100))
        except SystemExit as error:
            ended.append(type(error))

    thread = threading.Thread(target=compute, daemon=True)
    ending = Ending(grace=0.001, last=30)
    ending.start(thread)
    ending.end()
    assert not thread.is_alive()
    assert ended == [SystemExit]


def test_what_sleeps_for_ever_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atexit.register", lambda call: None)
    gate = threading.Event()

    def sleep() -> None:
        with suppress(SystemExit):  # raised when the thread wakes
            gate.wait()

    thread = threading.Thread(target=sleep, daemon=True)
    ending = Ending(grace=0.001, last=0.001)
    ending.start(thread)
    ending.end()
    assert thread.is_alive()
    gate.set()
    thread.join()


def test_nothing_is_kept_alive(ending: Ending) -> None:
    service, thread = Service(), threading.Thread(target=lambda: None, daemon=True)
    ending.before(service, Service.stop)
    ending.start(thread)
    thread.join()
    references = weakref.ref(service), weakref.ref(thread)
    del service, thread
    gc.collect()
    assert [x() for x in references] == [None, None]
    ending.end()


def test_the_handler_comes_with_the_first_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers run in reverse: so it runs before those of modules, whose objects it may use."""
    registered: list[Any] = []
    monkeypatch.setattr("atexit.register", registered.append)
    ending = Ending()
    assert registered == []
    for _ in range(2):
        ending.start(threading.Thread(target=lambda: None, daemon=True))
    assert registered == [ending.end]
    ending.forget()  # in the child of a fork, which inherits the handler
    ending.end()
