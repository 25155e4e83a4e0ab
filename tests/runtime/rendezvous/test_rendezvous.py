"""The rendezvous of one step, with the transport within a process."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerflow.errors import CancelledError, RendezvousError
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.rendezvous import Left, Rendezvous
from tests.ctrl_c import ctrl_c_raises, interrupted
from tests.messages import says
from tests.runtime.rendezvous.receivers import BACK, EDGE, ROUTES, Answer, Note, key

FAILED = CancelledError("another partition has failed")


@pytest.fixture
def meeting() -> Rendezvous:
    return Rendezvous(12, ROUTES)


# --- values --------------------------------------------------------------------------------------


def test_who_comes_first_waits(meeting: Rendezvous) -> None:
    value, early, late = np.ones(3), Note(), Note()
    meeting.receive(key(0), early.done)
    assert early == []
    meeting.send(key(0), value)
    meeting.send(key(1), value)
    meeting.receive(key(1), late.done)
    for note in (early, late):
        (answer,) = note
        assert answer.value is value
        assert answer[1:] == (False, None)
    assert meeting.end() == []


def test_a_dead_token_has_no_value(meeting: Rendezvous) -> None:
    note = Note()
    meeting.receive(key(0), note.done)
    meeting.send(key(0), dead=True)
    assert note == [Answer(None, True, None)]


def test_keys_are_told_apart_by_edge_and_iteration(meeting: Rendezvous) -> None:
    keys = [key(), key(0), key(1), key(0, BACK), Key(12, EDGE, (("a", 0), ("b", 1)))]
    notes = [Note() for _ in keys]
    for one, note in zip(keys, notes, strict=True):
        meeting.receive(one, note.done)
    for i, one in reversed(list(enumerate(keys))):
        meeting.send(one, i)
    assert notes == [[Answer(i, False, None)] for i in range(len(keys))]


def test_a_receiver_that_is_withdrawn_is_not_called(meeting: Rendezvous) -> None:
    first, second = Note(), Note()
    withdraw = meeting.receive(key(0), first.done)
    assert withdraw()
    assert not withdraw()
    again = meeting.receive(key(0), second.done)
    assert not withdraw()  # the second receiver is another one, though its key is the same
    meeting.send(key(0), 1.0)
    assert (first, second) == ([], [Answer(1.0, False, None)])
    assert not again()
    assert meeting.end() == []


def test_what_is_there_cannot_be_withdrawn(meeting: Rendezvous) -> None:
    note = Note()
    meeting.send(key(0), 1.0)
    assert not meeting.receive(key(0), note.done)()
    assert note == [Answer(1.0, False, None)]


# --- misuse --------------------------------------------------------------------------------------


@pytest.mark.parametrize("received", [False, True])
def test_sent_twice(meeting: Rendezvous, received: bool) -> None:
    meeting.send(key(3), 1.0)
    if received:
        meeting.receive(key(3), Note().done)
    with pytest.raises(RendezvousError) as caught:
        meeting.send(key(3), 2.0)
    assert str(caught.value).splitlines()[:3] == [
        "a value is sent twice",
        '  got: step 12, edge "y -> cpu:1", while_loop[3]',
        "  expected: each key to be sent once",
    ]


@pytest.mark.parametrize("sent", [False, True])
def test_received_twice(meeting: Rendezvous, sent: bool) -> None:
    note = Note()
    meeting.receive(key(3), note.done)
    if sent:
        meeting.send(key(3), 1.0)
    with pytest.raises(RendezvousError, match="a value is received twice"):
        meeting.receive(key(3), note.done)
    assert len(note) == sent


@pytest.mark.parametrize("wrong", [key(edge="w -> cpu:1"), key(step=13)])
def test_what_the_step_does_not_have(meeting: Rendezvous, wrong: Key) -> None:
    note = Note()
    for call in (lambda: meeting.send(wrong, 1.0), lambda: meeting.receive(wrong, note.done)):
        with pytest.raises(RendezvousError) as caught:
            call()
        assert str(caught.value).splitlines()[:3] == [
            "a value of another step, or along an edge that the step does not have",
            f"  got: {wrong}",
            f"  expected: step 12 and one of the edges {[EDGE, BACK]}",
        ]
    assert note == []


# --- the end -------------------------------------------------------------------------------------


def test_abort_calls_all_who_wait_and_who_come_later() -> None:
    meeting = Rendezvous(12, ROUTES, credit=1)
    waits, later, gone, held = Note(), Note(), Note(), Note()
    meeting.receive(key(0), waits.done)
    meeting.send(key(1), 1.0, sent=gone.sent)
    meeting.send(key(2), 2.0, sent=held.sent)
    meeting.abort(FAILED)
    meeting.abort(CancelledError("comes too late"))
    meeting.receive(key(1), later.done)
    meeting.receive(key(3), later.done)
    assert waits == [Answer(None, False, FAILED)]
    assert later == [Answer(None, False, FAILED)] * 2
    assert (gone, held) == ([None], [FAILED])
    meeting.send(key(4), 4.0, sent=held.sent)
    assert held == [FAILED, FAILED]
    with pytest.raises(CancelledError, match="another partition"):
        meeting.send(key(4), 4.0)
    assert meeting.end() == []


def test_the_end_tells_what_was_left(meeting: Rendezvous) -> None:
    note = Note()
    meeting.send(key(0), 1.0)
    meeting.receive(key(1), note.done)
    assert meeting.end() == [Left(key(0), "value"), Left(key(1), "receiver")]
    assert meeting.end() == []
    ((_, _, error),) = note
    assert type(error) is RendezvousError
    assert error.wrong == "step 12 is over: nothing can be sent or received any more"
    meeting.receive(key(0), note.done)
    assert type(note[1].error) is RendezvousError
    with pytest.raises(RendezvousError, check=says("step 12 is over")):
        meeting.send(key(2), 1.0)
    meeting.abort(FAILED)  # too late to matter
    with pytest.raises(RendezvousError, check=says("step 12 is over")):
        meeting.send(key(2), 1.0)


@pytest.mark.parametrize("end", [lambda m: m.abort(FAILED), lambda m: m.end()])
def test_no_buffer_is_held_after_the_end(
    meeting: Rendezvous, end: Callable[[Rendezvous], object]
) -> None:
    value = np.ones(3)
    buffer = weakref.ref(value)
    meeting.send(key(0), value)
    del value
    assert buffer() is not None
    end(meeting)
    assert buffer() is None


def test_a_received_buffer_is_held_by_its_receiver_alone(meeting: Rendezvous) -> None:
    value = np.ones(3)
    buffer = weakref.ref(value)
    meeting.receive(key(0), lambda *answer: None)
    meeting.send(key(0), value)
    meeting.send(key(1), value)
    meeting.receive(key(1), lambda *answer: None)
    del value
    assert buffer() is None


def test_a_step_is_freed_without_the_collector() -> None:
    meeting = Rendezvous(12, ROUTES)
    marker = np.ones(1)
    dead = weakref.ref(marker)
    withdraw = meeting.receive(key(0), lambda *answer, marker=marker: None)
    meeting.send(key(0), 1.0)
    gc.disable()
    try:
        meeting.end()
        del marker, withdraw, meeting
        assert dead() is None
    finally:
        gc.enable()


def test_errors_of_callbacks_reach_who_called_after_all_were_called(meeting: Rendezvous) -> None:
    def broken(*answer: Any) -> None:
        raise ValueError("broken")

    notes = [Note(), Note()]
    meeting.receive(key(0), notes[0].done)
    meeting.receive(key(1), broken)
    meeting.receive(key(2), notes[1].done)
    with pytest.raises(ValueError, check=says("broken")):
        meeting.abort(FAILED)
    assert notes == [[Answer(None, False, FAILED)]] * 2


def test_a_receiver_that_raises_does_not_keep_the_sender() -> None:
    def broken(*answer: Any) -> None:
        raise ValueError("broken")

    meeting, note = Rendezvous(12, ROUTES, credit=0), Note()
    meeting.send(key(0), 1.0, sent=note.sent)
    with pytest.raises(ValueError, check=says("broken")):
        meeting.receive(key(0), broken)
    meeting.receive(key(1), broken)
    with pytest.raises(ValueError, check=says("broken")):
        meeting.send(key(1), 1.0, sent=note.sent)
    assert note == [None, None]


def test_callbacks_may_use_the_rendezvous(meeting: Rendezvous) -> None:
    """A chain of 30 values: each receiver sends the next one."""
    note = Note()

    def receiver(i: int) -> Callable[..., None]:
        def done(value: Any, dead: bool, error: Exception | None) -> None:
            meeting.send(key(i + 1), value + 1) if i < 29 else note.done(value, dead, error)

        return done

    for i in range(30):
        meeting.receive(key(i), receiver(i))
    meeting.send(key(0), 0)
    assert note == [Answer(29, False, None)]


# --- credit --------------------------------------------------------------------------------------


def test_a_sender_without_credit_goes_on_when_a_value_is_taken() -> None:
    meeting = Rendezvous(12, ROUTES, credit=2)
    notes = [Note() for _ in range(4)]
    for i, note in enumerate(notes):
        meeting.send(key(i), i, sent=note.sent)
    assert notes == [[None], [None], [], []]
    meeting.receive(key(0), Note().done)
    assert notes == [[None], [None], [None], []]
    meeting.receive(key(1), Note().done)
    assert notes == [[None]] * 4


def test_a_sender_whose_value_is_received_goes_on_before_others() -> None:
    meeting = Rendezvous(12, ROUTES, credit=1)
    notes = [Note() for _ in range(4)]
    for i, note in enumerate(notes):
        meeting.send(key(i), i, sent=note.sent)
    answer = Note()
    meeting.receive(key(3), answer.done)  # a receiver needs no credit
    assert answer == [Answer(3, False, None)]
    assert notes == [[None], [], [], [None]]


def test_a_value_that_is_waited_for_takes_no_credit() -> None:
    meeting, note = Rendezvous(12, ROUTES, credit=0), Note()
    meeting.receive(key(0), Note().done)
    meeting.send(key(0), 0, sent=note.sent)
    assert note == [None]
    meeting.send(key(1), 0, sent=note.sent)
    assert note == [None]


def test_senders_wait_for_bytes() -> None:
    """A value passes while the values that lie there have fewer bytes, whatever its own size."""
    meeting = Rendezvous(12, ROUTES, credit=9, credit_bytes=10)
    notes = [Note() for _ in range(6)]
    for i, nbytes in enumerate([6, 6, 1, 100, 1, 1]):
        meeting.send(key(i), np.zeros(nbytes, np.int8), sent=notes[i].sent)
    assert [*map(len, notes)] == [1, 1, 0, 0, 0, 0]
    meeting.receive(key(0), Note().done)
    assert [*map(len, notes)] == [1, 1, 1, 1, 0, 0]  # after 6 + 1 the large one goes, too
    meeting.receive(key(1), Note().done)
    meeting.receive(key(4), Note().done)  # its own sender before all others
    assert [*map(len, notes)] == [1, 1, 1, 1, 1, 0]
    meeting.receive(key(3), Note().done)
    assert notes == [[None]] * 6


def test_what_has_no_bytes_waits_for_none() -> None:
    meeting, note = Rendezvous(12, ROUTES, credit=9, credit_bytes=1), Note()
    for i in range(5):
        meeting.send(key(i), i, sent=note.sent)
    assert note == [None] * 5


def test_routes_have_credits_of_their_own() -> None:
    meeting, there, back = Rendezvous(12, ROUTES, credit=1), Note(), Note()
    for i in range(2):
        meeting.send(key(i), i, sent=there.sent)
    meeting.send(key(0, BACK), 0, sent=back.sent)
    assert (there, back) == ([None], [None])


def test_senders_without_a_callback_take_credit() -> None:
    meeting, note = Rendezvous(12, ROUTES, credit=1), Note()
    meeting.send(key(0), 0)
    meeting.send(key(1), 1, sent=note.sent)
    assert note == []
    meeting.receive(key(0), Note().done)
    assert note == [None]


@given(st.integers(0, 3), st.permutations(range(8)), st.randoms(use_true_random=False))
def test_every_sender_goes_on_once_all_values_are_received(
    credit: int, order: list[int], source: Any
) -> None:
    meeting = Rendezvous(12, ROUTES, credit=credit)
    notes, answers = [Note() for _ in order], [Note() for _ in order]
    received = sent = 0
    while received < len(order):
        if sent < len(order) and source.random() < 0.5:
            meeting.send(key(sent), sent, sent=notes[sent].sent)
            sent += 1
        else:
            meeting.receive(key(order[received]), answers[order[received]].done)
            received += 1
        lying = sent - sum(map(len, answers))
        assert sum(map(len, notes)) >= sent - max(lying - credit, 0)
        for note, answer in zip(notes, answers, strict=True):
            assert len(note) >= len(answer)
    for i in range(sent, len(order)):
        meeting.send(key(i), i, sent=notes[i].sent)
    assert notes == [[None]] * len(order)
    assert answers == [[Answer(i, False, None)] for i in range(len(order))]
    assert meeting.end() == []


# --- threads and interrupts ----------------------------------------------------------------------


@pytest.mark.parametrize("aborts", [False, True])
def test_many_threads(aborts: bool) -> None:
    count, loops = 6, 500
    meeting = Rendezvous(12, ROUTES, credit=3)
    answers = [[Note() for _ in range(loops)] for _ in range(count)]
    sent = [[Note() for _ in range(loops)] for _ in range(count)]
    ready = threading.Barrier(2 * count + aborts)

    def name(thread: int, i: int) -> Key:
        return Key(12, EDGE, (("threads", thread), ("while_loop", i)))

    def send(thread: int) -> None:
        ready.wait()
        for i in range(loops):
            meeting.send(name(thread, i), (thread, i), sent=sent[thread][i].sent)

    def receive(thread: int) -> None:
        ready.wait()
        for i in range(loops):
            meeting.receive(name(thread, i), answers[thread][i].done)

    def abort() -> None:
        ready.wait()
        while not any(answers[0]):
            pass
        meeting.abort(FAILED)

    work = [(f, i) for f in (send, receive) for i in range(count)]
    threads = [threading.Thread(target=f, args=(i,)) for f, i in work]
    threads += [threading.Thread(target=abort)] * aborts
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(count):
        for j in range(loops):
            (answer,), (went,) = answers[i][j], sent[i][j]
            value = Answer((i, j), False, None)
            assert answer == value or (aborts and answer == Answer(None, False, FAILED))
            assert went is None or (aborts and went is FAILED)
    assert meeting.end() == []


@pytest.mark.parametrize("first", ["value", "receiver"])
def test_ctrl_c_at_any_instant_loses_no_callback(first: str) -> None:
    """After an abort, each callback of the rendezvous has been called, and nothing is held."""
    answers: list[bool] = []
    with ctrl_c_raises():
        while not answers or not answers[-1]:
            meeting = Rendezvous(12, ROUTES, credit=0)
            answer, sent, value = Note(), Note(), np.ones(3)
            buffer = weakref.ref(value)
            send = partial(meeting.send, key(0), value, sent=sent.sent)
            receive = partial(meeting.receive, key(0), answer.done)
            before, call = (send, receive) if first == "value" else (receive, send)
            before()
            try:
                interrupted(call, after=len(answers) + 1)
                answers.append(True)
            except KeyboardInterrupt:
                answers.append(False)
            meeting.abort(FAILED)
            assert answer or first == "value"  # otherwise the caller knows of the interrupt
            assert sent or first == "receiver"
            answer.clear()
            del value, send, receive, before, call
            assert buffer() is None
            assert meeting.end() == []
    assert len(answers) > 5


@pytest.mark.parametrize("call", [lambda m: m.abort(FAILED), lambda m: m.end()])
def test_ctrl_c_while_a_step_ends(call: Callable[[Rendezvous], object]) -> None:
    """A second call of `end` has called all callbacks."""
    ended: list[bool] = []
    with ctrl_c_raises():
        while not ended or not ended[-1]:
            meeting = Rendezvous(12, ROUTES, credit=0)
            notes = [Note() for _ in range(4)]
            meeting.receive(key(0), notes[0].done)
            meeting.receive(key(1), notes[1].done)
            meeting.send(key(2), 2, sent=notes[2].sent)
            meeting.send(key(3), 3, sent=notes[3].sent)
            try:
                interrupted(partial(call, meeting), after=len(ended) + 1)
                ended.append(True)
            except KeyboardInterrupt:
                ended.append(False)
            call(meeting)
            assert all(notes)
            assert meeting.end() == []
    assert len(ended) > 5
