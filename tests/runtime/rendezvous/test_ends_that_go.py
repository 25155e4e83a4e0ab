"""An end that is gone: nothing is kept for it, and nothing of it reaches the next process there."""

from __future__ import annotations

import numpy as np
import pytest

from eagerflow.errors import CancelledError, EagerflowError
from eagerflow.events import TransferEvent
from eagerflow.runtime.rendezvous.credits import CREDIT
from eagerflow.runtime.rendezvous.packets import Message, Packet
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.rendezvous.station import Station
from tests.runtime.rendezvous.receivers import ROUTES, Listener, Note, key


@pytest.fixture
def wire() -> list[tuple[str, Packet]]:
    return []


@pytest.fixture
def station(wire: list[tuple[str, Packet]]) -> Station:
    """The end of cpu:0; what it sends is never answered."""
    return Station("cpu:0", str, lambda end, packet: wire.append((end, packet)), lambda: None)


def value(number: int, step: int, nbytes: int = 0) -> tuple[str, Packet]:
    message = Message("value", step, key(number, step=step), float(number), False, nbytes)
    return "cpu:1", Packet("value", number, message, nbytes)


def sent(station: Station, number: int, note: Note, step: int = 12) -> Rendezvous:
    """A step that has sent some values, and has ended here."""
    rendezvous = Rendezvous(step, ROUTES, transport=station)
    for i in range(number):
        rendezvous.send(key(i, step=step), np.ones(3), sent=note.sent)
    station.work(0.0)
    rendezvous.end()
    station.work(0.0)
    return rendezvous


def test_what_is_on_its_way_to_an_end_that_is_gone_is_let_go(station: Station) -> None:
    """Its step is over here, so nobody aborts it; some values wait for credit as well."""
    note = Note()
    sent(station, CREDIT + 3, note)
    assert (note, station.held) == ([None] * CREDIT, 2 * (CREDIT + 3))
    station.forget("cpu:1")
    assert [type(one) for one in note[CREDIT:]] == [CancelledError] * 3
    assert station.held == 0


def test_a_transfer_to_an_end_that_is_gone_ends_with_an_error(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    monkeypatch.setattr(TransferEvent, "listeners", (listener,))
    sent(station, 1, Note())
    assert (len(listener.begun), listener.ended) == (1, [])
    station.forget("cpu:1")
    (event,) = listener.ended
    assert "cpu:1 is gone" in event.error


def test_what_an_open_step_has_sent_is_settled_by_its_abort(station: Station) -> None:
    rendezvous, note = Rendezvous(12, ROUTES, transport=station), Note()
    for i in range(CREDIT + 1):
        rendezvous.send(key(i), 1.0, sent=note.sent)
    station.work(0.0)
    station.forget("cpu:1")
    assert note == [None] * CREDIT  # one sender waits
    error = EagerflowError("cpu:1 is lost")
    rendezvous.abort(error)
    rendezvous.end()
    station.work(0.0)
    assert note[CREDIT:] == [error]
    station.forget("cpu:1")  # with the error that was sent there
    assert station.held == 0


@pytest.mark.parametrize("end", ["step", "session"])
def test_what_a_step_that_is_over_has_sent_can_be_dropped(station: Station, end: str) -> None:
    """Its receiver is gone, but nobody has said so: a task that dies is not announced to others."""
    note = Note()
    sent(station, CREDIT + 1, note)
    sent(station, 1, note, step=500)
    before = station.held
    if end == "step":
        station.fail(12, EagerflowError("cpu:1 is lost"))
    else:
        station.forget_steps(range(10, 20))
    station.work(0.0)
    assert (before, station.held) == (2 * (CREDIT + 2), 2)
    assert [type(one) for one in note[:CREDIT]] == [type(None)] * CREDIT
    assert sum(one is not None for one in note) == 1


def test_values_of_the_last_process_give_the_next_one_no_credit(station: Station) -> None:
    rendezvous = Rendezvous(12, ROUTES, transport=station)
    station.work(0.0, [value(i, 12, nbytes=1_000_000) for i in range(1, 6)])
    note = Note()
    station.forget("cpu:1")
    for i in range(1, 6):
        rendezvous.receive(key(i), note.done)
    station.work(0.0, [value(1, 13)])  # of the next process
    assert [one.value for one in note] == [1.0, 2.0, 3.0, 4.0, 5.0]
    packet = station.channels["cpu:1"]._incoming.tells(Packet("ack"))
    fresh = Station("cpu:0", str, lambda *what: None, lambda: None)
    fresh.work(0.0, [value(1, 13)])
    assert packet == fresh.channels["cpu:1"]._incoming.tells(Packet("ack"))
