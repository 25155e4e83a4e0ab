"""The comm of a notebook, played by the base class of Jupyter's own, which sends nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

import eagerflow as ef
from eagerflow.watching import Watcher
from eagerflow.watching.tables import decode
from eagerflow_widgets import connecting


class Line(BaseComm):
    """A comm that keeps what it would publish."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.published: list[tuple[str, Any, Any]] = []
        self._reply_subshell_for = "the shell that sent last"
        super().__init__(*given, **named)

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys) -> None:
        self.published.append((msg_type, data, buffers))


@pytest.fixture
def lines(monkeypatch) -> list[Line]:
    made: list[Line] = []

    def create(**named: Any) -> Line:
        made.append(Line(**named))
        return made[-1]

    monkeypatch.setattr(connecting, "create_comm", create)
    return made


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    """A watcher whose thread the test plays."""
    made = Watcher()
    made._run = lambda: None
    yield made
    while made.is_open:
        made.close()


def test_what_is_sent_and_heard(lines, watcher) -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1, name="f")
    f(ef.ones(2))
    connection = connecting.connect(watcher)
    (line,) = lines
    assert line._reply_subshell_for is None
    f(ef.ones(2))
    watcher.collect()
    watcher.tell(1.0)
    opened, (kind, data, buffers) = line.published[0], line.published[-1]
    assert (opened[0], opened[1]) == ("comm_open", {"version": 1})
    assert (kind, data) == ("comm_msg", {"sequence": 1})
    assert decode(buffers[0]).tables["steps"][0][1] == 1
    line.handle_msg({"content": {"data": {"resync": True}}})
    watcher.tell(2.0)
    assert decode(line.published[-1][2][0]).whole
    connecting.disconnect(connection, watcher)
    assert line.published[-1][0] == "comm_close"
    assert not watcher.is_open


def test_a_front_end_that_goes_away_ends_it(lines, watcher) -> None:
    connection = connecting.connect(watcher)
    lines[0].handle_close({})
    assert not watcher.is_open
    assert connection.broken == "closed"
    connecting.disconnect(connection, watcher)
    assert not watcher.is_open


def test_the_base_class_is_that_of_jupyter() -> None:
    assert issubclass(Line, comm.base_comm.BaseComm)
