"""Several ends over a bad network: every receiver is answered once, and nothing is left."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from eagerflow.errors import CancelledError, RendezvousError
from eagerflow.events import add_instrument, remove_instrument
from eagerflow.runtime.rendezvous import station
from eagerflow.runtime.rendezvous.channel import rerun
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.packets import Message, Packet
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.exploring import examples
from tests.fakes.transport import CALM, WORST, Arrival, FakeNetwork, FakeTransport, Weather
from tests.runtime.rendezvous.receivers import EDGE, ROUTES, Answer, Listener, Note, key

ENDS = ("cpu:0", "cpu:1", "cpu:2")
ALL_ROUTES = {
    f"{name} of {i} -> {j}": Route(i, j) for i in ENDS for j in ENDS for name in "xy"
}  # fmt: skip
STEPS = (1, 2, 3)
KEYS = [
    Key(step, edge, (("while_loop", i),)) for step in STEPS for edge in ALL_ROUTES for i in range(2)
]


class Ends(RuleBasedStateMachine):
    """Senders and receivers of some steps at three ends, which begin and fail at random times."""

    @initialize(seed=st.integers(0, 2**32), credit=st.integers(1, 3))
    def begin_network(self, seed: int, credit: int) -> None:
        self.network = FakeNetwork(seed, WORST, credit=credit)
        self.steps: dict[tuple[int, str], Rendezvous] = {}
        self.values: dict[Key, Any] = {}
        self.answers: dict[Key, list[Answer]] = {}
        self.withdraws: dict[Key, Any] = {}
        self.sent: dict[Key, list[Exception | None]] = {}
        self.errors: dict[int, list[Exception]] = {step: [] for step in STEPS}

    def at(self, step: int, end: str) -> Rendezvous:
        if (step, end) not in self.steps:
            station = self.network.station(end)
            self.steps[step, end] = Rendezvous(step, ALL_ROUTES, transport=station, credit=2)
        return self.steps[step, end]

    @rule(step=st.sampled_from(STEPS), end=st.sampled_from(ENDS))
    def begin(self, step: int, end: str) -> None:
        self.at(step, end)

    @rule(name=st.sampled_from(KEYS), dead=st.booleans(), asks=st.booleans())
    def send(self, name: Key, dead: bool, asks: bool) -> None:
        if name in self.values:
            return
        value = self.values[name] = None if dead else object()
        here = self.at(name.step, ALL_ROUTES[name.edge].source)
        if asks:
            note = self.sent[name] = Note()
            here.send(name, value, dead=dead, sent=note.sent)
        elif here.error is None:
            here.send(name, value, dead=dead)
        else:
            with pytest.raises(CancelledError) as caught:
                here.send(name, value, dead=dead)
            assert caught.value in self.errors[name.step]

    @rule(name=st.sampled_from(KEYS))
    def receive(self, name: Key) -> None:
        if name not in self.answers:
            note = self.answers[name] = Note()
            here = self.at(name.step, ALL_ROUTES[name.edge].destination)
            self.withdraws[name] = here.receive(name, note.done)

    @precondition(lambda self: self.withdraws)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.withdraws)))
        waited = not self.answers[name]
        assert self.withdraws.pop(name)() == waited
        if waited:
            del self.answers[name]  # the key can be received again

    @rule(step=st.sampled_from(STEPS), end=st.sampled_from(ENDS), rare=st.integers(0, 9))
    def abort(self, step: int, end: str, rare: int) -> None:
        if rare == 0:
            error = CancelledError(f"{end} has failed")
            self.errors[step].append(error)
            self.at(step, end).abort(error)

    @rule(count=st.integers(1, 20))
    def pass_time(self, count: int) -> None:
        for _ in range(count):
            self.network.step()

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        for answers in self.answers.values() if hasattr(self, "answers") else ():
            assert len(answers) <= 1

    def teardown(self) -> None:
        for name in self.values:
            self.receive(name)
        for name in self.answers:
            self.send(name, dead=False, asks=True)
        self.network.run()
        for name, answers in self.answers.items():
            (answer,) = answers
            value = self.values[name]
            if answer.error is None:
                assert answer == (value, value is None, None)
            else:
                assert answer.error in self.errors[name.step]
        for name, sent in self.sent.items():
            (error,) = sent
            assert error is None or error in self.errors[name.step]
        end(self.network, *self.steps.values())


@pytest.mark.hypothesis
def test_ends_over_the_worst_network() -> None:
    run_state_machine_as_test(
        Ends, settings=settings(max_examples=examples(40), stateful_step_count=60)
    )


# --- failure modes -------------------------------------------------------------------------------


def pair(network: FakeNetwork) -> tuple[Rendezvous, Rendezvous]:
    """The two ends of a step."""
    here, there = network.station("cpu:0"), network.station("cpu:1")
    return Rendezvous(12, ROUTES, transport=here), Rendezvous(12, ROUTES, transport=there)


def end(network: FakeNetwork, *steps: Rendezvous) -> None:
    """End a step, and check that nothing is left and no credit is lost."""
    for step in steps:
        assert step.end() == []
    network.run()
    assert network.held == 0
    for source, one in tuple(network.stations.items()):
        for destination in tuple(one.channels):
            assert credit_of(network, source, destination) == network.credit


def credit_of(network: FakeNetwork, source: str, destination: str) -> int:
    """Number of values that can be sent without a receiver."""
    number = 1000 + len(network.fates)  # a step number not used before
    routes, note = {EDGE: Route(source, destination)}, Note()
    ends = [
        Rendezvous(number, routes, transport=network.station(name))
        for name in (source, destination)
    ]
    for i in range(network.credit + 2):
        ends[0].send(Key(number, EDGE, (("while_loop", i),)), i, sent=note.sent)
    for _ in range(200):
        network.step()
    gone = len(note)
    ends[0].abort(CancelledError("enough"))
    network.run()
    for one in ends:
        one.end()
    network.run()
    assert network.held == 0
    return gone


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


# --- replays -------------------------------------------------------------------------------------


def play(network: FakeNetwork, seed: int) -> list[tuple[int, Any]]:
    """Run a step with some traffic; gives the values in the order of receipt."""
    source, received = random.Random(seed), []
    here, there = pair(network)
    order = list(range(40))
    source.shuffle(order)
    for i in range(40):
        here.send(key(i), float(i))
        there.receive(
            key(order[i]), lambda value, dead, error, i=i: received.append((order[i], value))
        )
        for _ in range(source.randint(0, 3)):
            network.step()
    network.run()
    end(network, here, there)
    return received


def seen(arrival: Arrival) -> tuple[Any, ...]:
    """The comparable parts of an arrival: errors are equal to themselves alone."""
    message = arrival.packet.message
    return (*arrival[:3], arrival.packet._replace(message=None), message and message[:2])


@given(st.integers(0, 2**32))
def test_the_record_of_a_network_repeats_it(seed: int) -> None:
    first = FakeNetwork(seed, WORST, log=True)
    received = play(first, seed)
    again = FakeNetwork(seed + 1, WORST, fates=first.fates)
    assert play(again, seed) == received
    assert list(map(seen, again.arrivals)) == list(map(seen, first.arrivals))
    for one in first.stations.values():
        for channel in one.channels.values():
            assert channel.log is not None
            assert rerun(channel.log, credit=4).log == channel.log
    assert len(received) == 40


# --- threads, and one rendezvous for all devices -------------------------------------------------


def test_threads_hammer_ends_over_the_worst_network() -> None:
    network = FakeNetwork(5, WORST, credit=3)
    loops, count = 60, 3
    sent = {(i, j): Note() for i in range(count) for j in range(loops)}
    answers = {name: Note() for name in sent}
    with network.running():
        here, there = pair(network)

        def send(thread: int) -> None:
            for i in range(loops):
                name = Key(12, EDGE, (("threads", thread), ("while_loop", i)))
                here.send(name, (thread, i), sent=sent[thread, i].sent)

        def receive(thread: int) -> None:
            for i in range(loops):
                name = Key(12, EDGE, (("threads", thread), ("while_loop", i)))
                there.receive(name, answers[thread, i].done)

        threads = [
            threading.Thread(target=f, args=(i,)) for f in (send, receive) for i in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {name: [Answer(name, False, None)] for name in answers}
    assert all(note == [None] for note in sent.values())
    end(network, here, there)


@pytest.mark.parametrize("aborts", [False, True])
def test_one_rendezvous_for_all_devices(aborts: bool) -> None:
    network = FakeNetwork(1, WORST, credit=2)
    meeting = Rendezvous(1, ALL_ROUTES, transport=FakeTransport(network))
    keys = [k for k in KEYS if k.step == 1]
    values, answers = {k: object() for k in keys}, {k: Note() for k in keys}
    for k in keys:
        meeting.send(k, values[k])
    for k in reversed(keys):
        meeting.receive(k, answers[k].done)
        network.step()
    error = CancelledError("it has failed")
    if aborts:
        meeting.abort(error)
    network.run()
    for k in keys:
        right = Answer(values[k], False, None)
        assert answers[k] == [right] or (aborts and answers[k] == [Answer(None, False, error)])
    end(network, meeting)


# --- events --------------------------------------------------------------------------------------


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
