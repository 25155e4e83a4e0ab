"""Modes of calling queue methods, calls that block in a thread, and the rows of the tables."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

import eagerflow as ef
from eagerflow.resources.barrier import BarrierState
from eagerflow.runtime import executable
from eagerflow.runtime.scheduled import detached
from eagerflow.runtime.threads import workers
from eagerflow.runtime.threads.timers import timers
from tests.source_tree import ROOT

TABLE = ROOT / "docs" / "queues.md"
MODES = ("eager", "traced", "executor")

#: tests by the row of the tables that they cover
SHOWN: dict[str, list[str]] = {}
_F = TypeVar("_F", bound=Callable[..., None])
Call = Callable[[Callable[[], Any]], Any]


def rows() -> list[str]:
    """The row names in the tables of ``docs/queues.md``."""
    return re.findall(r"^\| `([a-z-]+)` \|", TABLE.read_text(), flags=re.MULTILINE)


def row(*names: str) -> Callable[[_F], _F]:
    """Mark a test as covering rows of the tables."""

    def mark(test: _F) -> _F:
        for name in names:
            SHOWN.setdefault(name, []).append(test.__name__)
        return test

    return mark


def caller(mode: str, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls a function of no arguments: eagerly, traced, or traced and run by the executor."""
    if mode == "eager":
        return lambda f: f()
    if mode == "executor":
        monkeypatch.setattr(executable, "has_free_waits", lambda graph: True)
    return lambda f: ef.trace(f)()


@pytest.fixture(params=MODES)
def call(request: Any, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls functions in one mode; the test runs in all modes."""
    return caller(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def no_threads() -> Iterator[None]:
    """Ends the threads that were started for waits, after the test."""
    yield
    detached.serving.close()
    workers.shared.close()
    timers.join()


class Waiting:
    """A blocking call in a thread of its own.

    Args:
        call: the call.
        on: the resource on which it waits.
        line: its wait queue: 0 for producers, 1 for consumers; 0 for other resources.
    """

    def __init__(self, call: Callable[[], Any], on: Any, line: int = 1) -> None:
        state = on.resource
        meeting = state.ready if isinstance(state, BarrierState) else state
        before = meeting.waiting(line)
        self._call = call
        self._found: list[Any] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        until(lambda: meeting.waiting(line) > before or not self._thread.is_alive())

    def _run(self) -> None:
        try:
            self._found.append(self._call())
        except BaseException as error:
            self._error.append(error)

    @property
    def waits(self) -> bool:
        return not self._found and not self._error

    def result(self) -> Any:
        """The result of the call, or its error raised here."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "it waits for ever"
        if self._error:
            raise self._error[0]
        return self._found[0]


def until(holds: Callable[[], bool]) -> None:
    """Let other threads run until a condition holds."""
    while not holds():
        os.sched_yield()


def numbers(tensor: Any) -> Any:
    return tensor.numpy().tolist()


def drained(queue: Any) -> Iterator[Any]:
    """The elements left in a queue."""
    while int(queue.size()):
        yield numbers(queue.dequeue())
