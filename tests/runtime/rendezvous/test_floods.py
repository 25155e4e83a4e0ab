"""A peer that sends what it may not, or more than it may: it is dropped, and memory is bounded."""

from __future__ import annotations

import pytest

from eagerflow.errors import CancelledError
from eagerflow.runtime.rendezvous import station as stations
from eagerflow.runtime.rendezvous.channel import Channel
from eagerflow.runtime.rendezvous.packets import Message, Packet
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.rendezvous.station import Station
from tests.runtime.rendezvous.receivers import ROUTES, Answer, Note, key

CREDIT = 8


def message(number: int, step: int = 12, nbytes: int = 0) -> Message:
    return Message("value", step, key(number, step=step), float(number), False, nbytes)


def value(number: int, step: int = 12, nbytes: int = 0) -> Packet:
    return Packet("value", number, message(number, step, nbytes), nbytes)


def urgent(number: int, carried: Message) -> Packet:
    return Packet("urgent", number, carried, carried.nbytes)


@pytest.fixture
def station() -> Station:
    return Station(
        "cpu:1", str, lambda *what: None, lambda: None, credit=CREDIT, credit_bytes=1_000
    )


def flood(station: Station, *packets: Packet) -> None:
    station.work(0.0, [("cpu:0", packet) for packet in packets])


@pytest.mark.parametrize("opened", [False, True])
def test_values_beyond_the_credit_are_refused(station: Station, opened: bool) -> None:
    if opened:
        rendezvous = Rendezvous(12, ROUTES, transport=station)
    flood(station, *map(value, range(1, 1_000)))
    assert station.refused == 999 - CREDIT
    if opened:
        notes = [Note() for _ in range(CREDIT)]
        for i, note in enumerate(notes, 1):
            rendezvous.receive(key(i), note.done)
        assert notes == [[Answer(float(i), False, None)] for i in range(1, CREDIT + 1)]
        flood(station)
        flood(station, *map(value, range(1, 1_000)))  # there is credit for as many more
        assert station.refused == 999 - CREDIT + 999 - 2 * CREDIT


@pytest.mark.parametrize("backwards", [False, True])
def test_bytes_beyond_the_credit_are_refused(backwards: bool) -> None:
    """The last value of an honest sender begins below the limit; in any order of arrival."""
    station = Station("cpu:1", str, lambda *what: None, lambda: None, credit_bytes=1_000)
    packets = [value(i, nbytes=400) for i in range(1, 6)]
    flood(station, *(packets[2::-1] if backwards else packets[:3]))
    assert (station.refused, station.held) == (0, 3)
    flood(station, *packets[3:])
    assert (station.refused, station.held) == (2, 3)
    flood(station, packets[0])  # a duplicate is none too many
    assert station.refused == 2


@pytest.mark.parametrize("end", ["peer", "session"])
def test_values_of_unknown_steps_are_as_many_as_there_is_credit(station: Station, end: str) -> None:
    flood(station, *[value(i, step=100 + i) for i in range(1, 1_000)])
    assert station.held == CREDIT
    assert station.channels["cpu:0"].exhausted
    if end == "peer":
        station.forget("cpu:0")
    else:
        station.forget_steps(range(100, 2_000))
        flood(station)
        assert not station.channels["cpu:0"].exhausted
    assert station.held == 0


def test_a_value_that_nobody_wants_needs_credit(station: Station) -> None:
    """Only a receiver of an open step asks for a value beyond the credit."""
    flood(station, *[urgent(i, message(i, step=100 + i)) for i in range(1, 1_000)])
    assert station.held == 0
    rendezvous, note = Rendezvous(101, ROUTES, transport=station), Note()
    rendezvous.receive(key(1, step=101), note.done)
    flood(station)
    flood(station, urgent(1_000, message(1, step=101)))
    assert note == [Answer(1.0, False, None)]


def test_errors_of_unknown_steps_are_limited(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stations, "_REMEMBERED", 10)
    error = CancelledError("it has failed")
    flood(station, *[urgent(i, Message("error", i, None, error)) for i in range(1, 1_000)])
    assert len(station._failed) == 10
    station.forget_steps(range(2_000))
    assert not station._failed


@pytest.mark.parametrize("number", [0, 5, 2**62])
def test_acknowledgements_of_what_was_not_sent_are_refused(station: Station, number: int) -> None:
    flood(station, Packet("ack", upto=number), Packet("ack", early=(number,)))
    assert station.refused == (0 if not number else 2)
    assert station.held == 0


def test_a_refused_packet_changes_nothing() -> None:
    station = Station(
        "cpu:1", str, lambda *what: None, lambda: None, credit=CREDIT, credit_bytes=1_000, log=True
    )
    flood(station, value(1, nbytes=1_000))
    channel: Channel = station.channels["cpu:0"]
    assert channel.log is not None
    before = len(channel.log)
    flood(station, value(2, nbytes=4), value(CREDIT + 1), Packet("value", 3, None, 5))
    assert (station.refused, len(channel.log)) == (3, before)
