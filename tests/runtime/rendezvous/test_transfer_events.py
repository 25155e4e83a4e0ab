"""The events of values on their way between two ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from eagerflow.errors import CancelledError
from eagerflow.events import add_instrument, remove_instrument
from eagerflow.runtime.rendezvous import station
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.fakes.transport import CALM, WORST, FakeNetwork, Weather
from tests.runtime.rendezvous.ends import ALL_ROUTES, end, pair
from tests.runtime.rendezvous.receivers import EDGE, Listener, Note, key


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    add_instrument(listener)
    yield listener
    remove_instrument(listener)


def test_a_transfer_ends_when_it_has_come(listener: Listener) -> None:
    network = FakeNetwork(weather=Weather(slowest=1.0))
    here, there = pair(network)
    here.send(key(3), np.ones(5))
    (event,) = listener.begun
    assert (event.name, event.step, event.frames) == (EDGE, 12, (("while_loop", 3),))
    assert (event.origin, event.device, event.nbytes) == ("cpu:0", "cpu:1", 40)
    assert listener.ended == []
    network.run()
    assert listener.ended == [event]
    assert not event.error
    there.receive(key(3), Note().done)
    end(network, here, there)


def test_a_number_has_no_bytes_and_a_dead_token_is_no_transfer(listener: Listener) -> None:
    network = FakeNetwork(weather=CALM)
    here, there = pair(network)
    here.send(key(0), dead=True)
    assert listener.begun == []
    here.send(key(1), 3)
    assert [event.nbytes for event in listener.begun] == [0]
    for i in range(2):
        there.receive(key(i), Note().done)
    network.run()
    end(network, here, there)


def test_without_a_listener_no_event_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(station, "transfer", lambda *args: made.append(args))
    network = FakeNetwork(weather=CALM)
    here, there = pair(network)
    here.send(key(0), 3)
    there.receive(key(0), Note().done)
    network.run()
    assert made == []
    end(network, here, there)


def test_a_transfer_ends_with_the_error_of_its_step(listener: Listener) -> None:
    network = FakeNetwork(weather=WORST, credit=1)
    here, there = pair(network)
    for i in range(5):
        here.send(key(i), np.ones(5))
    here.abort(CancelledError("it has failed"))
    network.run()
    assert listener.ended
    assert {id(e) for e in listener.ended} == {id(e) for e in listener.begun}
    assert {event.error for event in listener.ended} == {"CancelledError: it has failed"}
    end(network, here, there)


def test_who_hears_of_arrivals_may_stop_while_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may set it to None; an error in the thread of the sockets ends a session."""
    heard: list[Key] = []
    seen: list[Any] = [None, heard.append]
    arrived = property(lambda _: seen.pop() if seen else None, lambda _, value: None)
    monkeypatch.setattr(station.Station, "arrived", arrived, raising=False)
    network = FakeNetwork(0, CALM)
    here, there = (
        Rendezvous(1, ALL_ROUTES, transport=network.station(end)) for end in ("cpu:0", "cpu:1")
    )
    note, name = Note(), Key(1, "x of cpu:0 -> cpu:1", ())
    there.receive(name, note.done)
    here.send(name, object(), dead=False)
    for _ in range(20):
        network.step()
    assert heard == [name]
    assert len(note) == 1
