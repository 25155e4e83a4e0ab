"""Failures of two ends and of the network between them: every receiver is answered once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eagerflow.errors import CancelledError, RendezvousError
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.packets import TIMING, Message, Packet
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.rendezvous.station import Station
from tests.fakes.transport import CALM, WORST, FakeNetwork, Weather
from tests.runtime.rendezvous.ends import end, pair
from tests.runtime.rendezvous.receivers import ROUTES, Answer, Note, key


@pytest.mark.parametrize("weather", [CALM, WORST])
def test_the_one_value_that_is_wanted_comes_past_all_others(weather: Weather) -> None:
    """There is credit for two values, and the first value received is the last one sent."""
    network = FakeNetwork(3, weather, credit=2)
    here, there = pair(network)
    notes, answers = [Note() for _ in range(30)], [Note() for _ in range(30)]
    for i, note in enumerate(notes):
        here.send(key(i), i, sent=note.sent)
    for _ in range(300):  # the sender asks for credit, in vain
        network.step()
    assert sum(map(len, notes)) == 2
    for i in reversed(range(30)):
        there.receive(key(i), answers[i].done)
        for _ in range(2000):
            network.step()
            if answers[i]:
                break
        assert answers[i] == [Answer(i, False, None)]
        assert notes[i] == [None]
        assert sum(map(len, notes)) <= 30 - i + 2  # the others have still to wait
    network.run()
    assert [station.held for station in network.stations.values()] == [1, 1]  # the open step
    end(network, here, there)


@pytest.mark.parametrize("waits", [False, True])
def test_a_sender_far_ahead_waits(waits: bool) -> None:
    """With and without a receiver that waits for another value, which does not come."""
    network = FakeNetwork(weather=CALM, credit=5)
    here, there = pair(network)
    late = Note()
    if waits:
        there.receive(key(99), late.done)
    notes = [Note() for _ in range(20)]
    for i, note in enumerate(notes):
        here.send(key(i), i, sent=note.sent)
    for _ in range(500):  # the sender asks for ever, so the network does not come to rest
        network.step()
    assert sum(map(len, notes)) == 5
    for i in range(7):
        there.receive(key(i), Note().done)
    for _ in range(500):
        network.step()
    assert sum(map(len, notes)) == 12
    if waits:
        here.send(key(99), 99)
        for _ in range(100):
            network.step()
        assert late == [Answer(99, False, None)]
    there.abort(CancelledError("over"))
    network.run()
    assert sum(map(len, notes)) == 20
    end(network, here, there)


@pytest.mark.parametrize("weather", [CALM, WORST])
def test_a_sender_of_many_bytes_waits(weather: Weather) -> None:
    """The values at the destination have as many bytes as allowed; a wanted value passes them."""
    network = FakeNetwork(7, weather, credit=50, credit_bytes=100)
    here, there = pair(network)
    notes, answers = [Note() for _ in range(12)], [Note() for _ in range(12)]
    for i, note in enumerate(notes):
        here.send(key(i), np.full(1000 if i == 5 else 40, i, np.int8), sent=note.sent)
    for _ in range(500):
        network.step()
    assert sum(map(len, notes)) == 3  # the last of them began at 80 bytes
    there.receive(key(11), answers[11].done)
    for _ in range(2000):
        network.step()
    assert (sum(map(len, notes)), len(answers[11])) == (4, 1)
    for i in range(11):
        there.receive(key(i), answers[i].done)
    network.run()
    assert notes == [[None]] * 12
    assert [answer[0].value[0] for answer in answers] == [*range(12)]
    end(network, here, there)


def test_an_abort_overtakes_values_without_credit() -> None:
    network = FakeNetwork(weather=Weather(slowest=0.1), credit=1)
    here, there = pair(network)
    note, sent = Note(), [Note() for _ in range(5)]
    there.receive(key(9), note.done)
    for i in range(5):
        here.send(key(i), np.ones(3), sent=sent[i].sent)
    error = CancelledError("here it has failed")
    here.abort(error)
    network.run()
    assert note == [Answer(None, False, error)]
    assert all(one in ([None], [error]) for one in sent)
    assert [error] in sent
    later = Note()
    there.receive(key(0), later.done)
    assert later == [Answer(None, False, error)]
    end(network, here, there)


@pytest.mark.parametrize("values", [0, 3])
def test_what_comes_before_its_step_waits(values: int) -> None:
    network = FakeNetwork(weather=CALM)
    here = Rendezvous(12, ROUTES, transport=network.station("cpu:0"))
    error = CancelledError("it has failed")
    for i in range(values):
        here.send(key(i), i)
    if not values:
        here.abort(error)
    network.run()
    there = Rendezvous(12, ROUTES, transport=network.station("cpu:1"))
    notes = [Note() for _ in range(3)]
    for i, note in enumerate(notes):
        there.receive(key(i), note.done)
    network.run()
    if values:
        assert notes == [[Answer(i, False, None)] for i in range(3)]
    else:
        assert notes == [[Answer(None, False, error)]] * 3
    end(network, here, there)


def test_what_comes_after_its_step_is_dropped() -> None:
    network = FakeNetwork(weather=CALM, credit=2)
    here, there = pair(network)
    there.abort(CancelledError("it has failed"))
    there.end()
    for i in range(10):
        here.send(key(i), np.ones(2))  # the sender has not heard of the failure yet
    network.run()
    assert here.error is not None
    end(network, here)
    assert not network.station("cpu:1").channels["cpu:0"].exhausted  # as before


@pytest.mark.parametrize("seed", range(8))
def test_a_step_that_never_begins_at_an_end_leaves_nothing_there(seed: int) -> None:
    """The values may come before the error or after it."""
    network = FakeNetwork(seed, Weather(slowest=1.0), credit=3)
    here = Rendezvous(12, ROUTES, transport=network.station("cpu:0"))
    for i in range(5):
        here.send(key(i), np.ones(2))
    for _ in range(1 + seed % 4):
        network.step()
    here.abort(CancelledError("it has failed"))
    end(network, here)


def test_who_has_heard_of_an_abort_does_not_pass_it_on() -> None:
    network = FakeNetwork(weather=CALM)
    here, there = pair(network)
    here.abort(CancelledError("it has failed"))
    network.run()
    there.abort(CancelledError("so has this"))
    network.run()
    assert [a.source for a in network.arrivals if a.packet.kind == "urgent"] == ["cpu:0"]
    end(network, here, there)


def test_a_value_sent_twice_aborts_its_step() -> None:
    network = FakeNetwork(weather=CALM)
    here, there = pair(network)
    note, sent = Note(), Note()
    there.receive(key(1), note.done)
    here.send(key(0), 1.0)
    here.send(key(0), 2.0, sent=sent.sent)
    network.run()
    ((_, _, error),) = note
    assert isinstance(error, RendezvousError)
    assert error.wrong == "a value is sent twice"
    assert sent == [error]
    end(network, here, there)


def test_a_value_sent_again_after_it_was_received_aborts_its_step() -> None:
    network = FakeNetwork(weather=CALM)
    here, there = pair(network)
    first, note = Note(), Note()
    there.receive(key(0), first.done)
    there.receive(key(1), note.done)
    for value in (1.0, 2.0):
        here.send(key(0), value)
        network.run()
    assert first == [Answer(1.0, False, None)]
    assert isinstance(note[0].error, RendezvousError)
    assert here.error is note[0].error
    end(network, here, there)


def test_a_receiver_that_raises_aborts_its_step() -> None:
    network = FakeNetwork(weather=CALM)
    here, there = pair(network)

    def broken(*answer: Any) -> None:
        raise ValueError("broken")

    note = Note()
    there.receive(key(0), broken)
    here.receive(Key(12, "z -> cpu:0"), note.done)
    here.send(key(0), 1.0)
    network.run()
    assert isinstance(note[0].error, ValueError)
    end(network, here, there)


@pytest.mark.parametrize("begins", [False, True])
def test_what_is_wanted_of_a_step_that_is_over_is_not_remembered(begins: bool) -> None:
    network = FakeNetwork(weather=CALM)
    station = network.station("cpu:0")
    error = Message("error", 12, None, CancelledError("it has failed"))
    if begins:
        Rendezvous(12, ROUTES, transport=station).end()
        station.work(0.0)
    else:
        station.work(0.0, [("cpu:2", Packet("urgent", 1, error))])
    wanted = Message("wanted", 0, None, (key(0), key(0, step=13)))
    station.work(0.0, [("cpu:1", Packet("urgent", 1, wanted))])
    assert station.held == 1  # that of the other step, which may still begin
    later = Rendezvous(13, ROUTES, transport=station)
    later.end()
    network.run()
    assert network.held == 0


@pytest.mark.parametrize("late", [False, True])
def test_what_is_wanted_of_a_step_that_never_begins_is_forgotten_with_its_session(
    late: bool,
) -> None:
    network = FakeNetwork(weather=CALM)
    station = network.station("cpu:0")
    wanted = Message("wanted", 0, None, (key(0), key(1), key(0, step=20)))
    packet = "cpu:1", Packet("urgent", 1, wanted)
    if late:
        station.forget_steps(range(10, 20))
    station.work(0.0, [packet])
    if not late:
        assert station.held == 3
        station.forget_steps(range(10, 20))
    assert station.held == 1  # that of the next session
    station.forget_steps(range(20, 30))
    assert station.held == 0


def test_what_comes_for_a_session_that_is_over_is_dropped() -> None:
    """Values give back their credit; errors are not kept for steps that never begin."""
    station = Station("cpu:1", str, lambda *what: None, lambda: None, credit=1)
    station.forget_steps(range(10, 20))
    for i in (1, 2, 3):
        value = Message("value", 12, key(i), 1.0, False, 0)
        station.work(0.0, [("cpu:0", Packet("value", i, value))])
    station.work(0.0, [("cpu:0", Packet("urgent", 1, Message("error", 12, None, ValueError())))])
    assert (station.refused, station.held, len(station._failed)) == (0, 0, 0)


def test_an_answer_that_went_along_with_a_value_wakes_nobody() -> None:
    network = FakeNetwork(weather=CALM)
    station = network.station("cpu:0")
    step = Rendezvous(12, ROUTES, transport=station)
    arrived = Message("value", 12, Key(12, "z -> cpu:0"), 1.0, False, 0)
    packet = Packet("value", 1, arrived)
    assert station.work(0.0, [("cpu:1", packet)]) == TIMING.answer
    step.send(key(0), 2.0)
    assert station.work(0.0) == TIMING.resend  # the next thing to do, if nothing comes


def test_packets_that_cannot_have_come_are_counted() -> None:
    network = FakeNetwork(weather=CALM)
    here, there = pair(network)
    here.send(key(0), 1.0)
    network.run()
    station = network.station("cpu:1")
    (packet,) = [a.packet for a in network.arrivals if a.packet.kind == "value"]
    station.work(network.now, [("cpu:0", packet._replace(upto=7))])
    station.work(network.now, [("cpu:0", packet._replace(number=9))])
    assert station.refused == 2
    there.receive(key(0), Note().done)
    end(network, here, there)
