"""The transport within a process, and what it tells of transfers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import pytest

from eagerflow.events import TransferEvent, add_instrument, remove_instrument
from eagerflow.runtime.rendezvous import transport
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.runtime.rendezvous.receivers import EDGE, ROUTES, Note, key


@final
class Listener:
    kinds = frozenset({TransferEvent})

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def begin(self, event: Any) -> None:
        self.told.append(("begin", event))

    def end(self, event: Any) -> None:
        self.told.append(("end", event))


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    add_instrument(listener)
    yield listener
    remove_instrument(listener)


def test_a_transfer_is_told(listener: Listener) -> None:
    meeting = Rendezvous(12, ROUTES)
    path = (("while_loop", 3), ("scan", 1))
    meeting.send(Key(12, EDGE, path), np.ones((2, 3), np.float32))
    (begun, event), (ended, same) = listener.told
    assert (begun, ended) == ("begin", "end")
    assert event is same
    assert (event.name, event.step, event.frames) == (EDGE, 12, path)
    assert (event.origin, event.device, event.nbytes) == ("cpu:0", "cpu:1", 24)
    assert event.stop is not None


def test_a_number_has_no_bytes_and_a_dead_token_is_no_transfer(listener: Listener) -> None:
    meeting = Rendezvous(12, ROUTES)
    meeting.send(key(0), dead=True)
    assert listener.told == []
    meeting.send(key(1), 3)
    assert listener.told[0][1].nbytes == 0


def test_without_a_listener_no_event_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(transport, "transfer", lambda *args: made.append(args))
    meeting, note = Rendezvous(12, ROUTES), Note()
    meeting.send(key(0), 3)
    meeting.receive(key(0), note.done)
    assert len(note) == 1
    assert made == []
