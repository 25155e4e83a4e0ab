"""Senders and receivers at random times over a bad network: everybody is answered once."""

from __future__ import annotations

import random
import threading
from typing import Any

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

from eagerflow.errors import CancelledError
from eagerflow.runtime.rendezvous.channel import rerun
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.exploring import examples
from tests.fakes.transport import CALM, WORST, Arrival, FakeNetwork, FakeTransport
from tests.runtime.rendezvous.ends import ALL_ROUTES, ENDS, end, pair
from tests.runtime.rendezvous.receivers import EDGE, Answer, Note, key

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
        self.forget_steps_that_never_began()
        end(self.network, *self.steps.values())

    def forget_steps_that_never_began(self) -> None:
        """End the session of the steps at the ends where they have not begun, as servers do.

        Values may be wanted there whose receivers were withdrawn.
        """
        for name in ENDS:
            for step in STEPS:
                if (step, name) not in self.steps:
                    self.network.station(name).forget_steps(range(step, step + 1))


def test_a_receiver_is_withdrawn_before_the_sending_end_has_begun() -> None:
    """Its key was announced, as there was no credit: the sending end expects to send the value."""
    ends = Ends()
    ends.begin_network(seed=0, credit=1)
    ends.network = FakeNetwork(0, CALM, credit=1)
    first, wanted = (Key(step, "x of cpu:0 -> cpu:1", (("while_loop", 0),)) for step in (1, 2))
    ends.send(first, dead=False, asks=True)
    ends.pass_time(20)  # the value lies there, and takes all the credit
    ends.receive(wanted)
    ends.pass_time(20)
    assert ends.network.station("cpu:0").held == 1 + 1  # a step, a wanted key
    ends.withdraws.pop(wanted)()
    del ends.answers[wanted]
    ends.teardown()


@pytest.mark.hypothesis
def test_ends_over_the_worst_network() -> None:
    run_state_machine_as_test(
        Ends, settings=settings(max_examples=examples(40), stateful_step_count=60)
    )


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
