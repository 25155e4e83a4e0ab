"""The two ends of a channel, with a wire that the test controls."""

from __future__ import annotations

from math import inf
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from eagerflow.errors import RendezvousError
from eagerflow.runtime.rendezvous.channel import Channel, rerun
from eagerflow.runtime.rendezvous.credits import CREDIT_BYTES
from eagerflow.runtime.rendezvous.packets import ChannelTiming, Message, Packet
from tests.exploring import examples
from tests.runtime.rendezvous.receivers import key

TIMING: Final = ChannelTiming(resend=1.0, longest=4.0, answer=0.25)


def value(number: int, step: int = 12, nbytes: int = 0) -> Message:
    return Message("value", step, key(number, step=step), number, nbytes=nbytes)


def urgent(number: int) -> Message:
    return Message("error", 12, None, number)


class End:
    """A channel, with the instructions that it has given."""

    def __init__(self, credit: int = 2, credit_bytes: int = CREDIT_BYTES) -> None:
        self.credit = credit
        self.credit_bytes = credit_bytes
        self.channel = Channel(credit, TIMING, credit_bytes=credit_bytes, log=True)
        self.wire: list[Packet] = []
        self.delivered: list[Any] = []
        self.brought: list[Any] = []
        self.urgent: list[Any] = []
        self.sent: list[Any] = []
        self.gone: list[Any] = []
        self.wake = inf

    def tell(self, event: tuple[Any, ...], now: float) -> list[Packet]:
        """Handles an event; gives the packets that were put on the wire."""
        put: list[Packet] = []
        for kind, what in self.channel.handle(event, now):
            if kind == "put":
                put.append(what)
            elif kind == "wake":
                self.wake = what
            elif kind == "deliver":
                self.delivered.append(what.value)
            elif kind == "bring":
                (self.urgent if what.key is None else self.brought).append(what.value)
            else:
                (self.sent if kind == "sent" else self.gone).append(what.value)
        self.wire += put
        return put


def _message(entry: tuple[float, tuple[Any, ...], tuple[Any, ...]]) -> Message | None:
    """The message that came with an entry of a log."""
    event = entry[1]
    return event[1].message if event[0] == "arrived" else None


def _size(number: int) -> int:
    """Number of bytes of a value."""
    return number * 7 % 5


def _again(end: End) -> Channel:
    return rerun(end.channel.log or (), end.credit, TIMING, end.credit_bytes)


class Pair(RuleBasedStateMachine):
    """Packets from one end to the other are lost, doubled and reordered at random."""

    @initialize(credit=st.integers(1, 3), credit_bytes=st.sampled_from([1, 4, CREDIT_BYTES]))
    def begin(self, credit: int, credit_bytes: int) -> None:
        self.here, self.there = End(credit, credit_bytes), End(credit, credit_bytes)
        self.now = 0.0
        self.count = self.urgent = self.taken = 0

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            message = value(self.count, nbytes=_size(self.count))
            self.here.tell(("send", message), self.now)
            self.count += 1

    @rule()
    def urge(self) -> None:
        self.here.tell(("urge", urgent(self.urgent)), self.now)
        self.urgent += 1

    @rule(back=st.booleans(), keep=st.booleans(), data=st.data())
    def arrive(self, back: bool, keep: bool, data: st.DataObject) -> None:
        source, destination = (self.there, self.here) if back else (self.here, self.there)
        if source.wire:
            i = data.draw(st.integers(0, len(source.wire) - 1))
            packet = source.wire[i] if keep else source.wire.pop(i)
            destination.tell(("arrived", packet), self.now)

    @rule(data=st.data(), back=st.booleans())
    def lose(self, back: bool, data: st.DataObject) -> None:
        wire = (self.there if back else self.here).wire
        if wire:
            wire.pop(data.draw(st.integers(0, len(wire) - 1)))

    @precondition(lambda self: self.taken < len(self.there.delivered))
    @rule()
    def take(self) -> None:
        nbytes = _size(self.there.delivered[self.taken])
        self.taken += 1
        self.there.tell(("taken", nbytes), self.now)

    @rule(ahead=st.integers(-6, 3))
    def want(self, ahead: int) -> None:
        """Ask for a value that is queued, on its way, received long ago, or not sent yet."""
        self.here.tell(("want", key(max(self.count + ahead, 0)), True), self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for end in (self.here, self.there):
            if end.wake <= self.now:
                end.tell(("tick",), self.now)
                assert end.wake > self.now

    @invariant()
    def values_come_in_order_and_once(self) -> None:
        if hasattr(self, "here"):
            here, there = self.here, self.there
            assert there.delivered == sorted(there.delivered)
            for once in ([*there.delivered, *there.brought], there.urgent, here.sent):
                assert len(set(once)) == len(once)
            assert len(there.delivered) - self.taken <= here.credit
            *lying, _ = map(_size, [0, *there.delivered[self.taken :]])
            assert sum(lying) < here.credit_bytes  # the last value may have any size
            come = {m.value for m in map(_message, there.channel.log or ()) if m is not None}
            assert set(here.gone) <= come

    def teardown(self) -> None:
        if not hasattr(self, "here"):
            return
        for _ in range(10_000):
            come = len(self.there.delivered) + len(self.there.brought)
            if (come, len(self.there.urgent)) == (self.count, self.urgent):
                break
            while self.taken < len(self.there.delivered):
                self.take()
            for source, destination in ((self.here, self.there), (self.there, self.here)):
                for packet in source.wire:
                    destination.tell(("arrived", packet), self.now)
                source.wire.clear()
            self.pass_time(1.0)
        come = [*self.there.delivered, *self.there.brought]
        assert sorted(come) == list(range(self.count))
        assert sorted(self.there.urgent) == list(range(self.urgent))
        assert sorted(self.here.sent) == list(range(self.count))
        for end in (self.here, self.there):
            assert end.channel.log is not None
            assert _again(end).log == end.channel.log


@pytest.mark.hypothesis
def test_any_wire() -> None:
    run_state_machine_as_test(
        Pair, settings=settings(max_examples=examples(60), stateful_step_count=50)
    )


# --- one by one ----------------------------------------------------------------------------------


def test_what_is_lost_is_sent_again_after_longer_and_longer_times() -> None:
    end = End()
    end.tell(("send", value(0)), 0.0)
    times = []
    for _ in range(5):
        times.append(end.wake)
        (packet,) = end.tell(("tick",), end.wake)
        assert (packet.kind, packet.number) == ("value", 1)
    assert times == [1.0, 3.0, 7.0, 11.0, 15.0]
    end.tell(("arrived", Packet("ack", upto=1, limit=2, limit_bytes=CREDIT_BYTES)), 16.0)
    assert (end.wake, end.gone, end.channel.held) == (inf, [0], 0)


def test_values_wait_for_credit_and_urgent_messages_do_not() -> None:
    end = End(credit=1)
    end.tell(("send", value(0)), 0.0)
    assert end.tell(("send", value(1)), 0.0) == []
    (packet,) = end.tell(("urge", urgent(5)), 0.0)
    assert (packet.kind, packet.number, end.sent) == ("urgent", 1, [0])
    (packet,) = end.tell(
        ("arrived", Packet("ack", upto=1, limit=2, limit_bytes=CREDIT_BYTES, urgent_upto=1)), 0.5
    )
    assert (packet.kind, packet.number, end.sent, end.gone) == ("value", 2, [0, 1], [0, 5])


def test_credit_is_told_at_once_where_there_is_none_left() -> None:
    here, there = End(credit=8), End(credit=8)
    for i in range(8):
        there.tell(("arrived", here.tell(("send", value(i)), 0.0)[0]), 0.0)
    assert there.channel.exhausted
    there.tell(("tick",), there.wake)
    (packet,) = there.tell(("taken", 0), 1.0)
    assert (packet.kind, packet.limit) == ("ack", 9)
    assert not there.channel.exhausted
    assert there.tell(("taken", 0), 1.0) == []  # there is credit for one value, so no hurry


def test_what_is_wanted_needs_no_credit() -> None:
    here, there = End(credit=1), End(credit=1)
    packets = [here.tell(("send", value(i)), 0.0) for i in range(4)]
    assert [len(p) for p in packets] == [1, 0, 0, 0]
    (packet,) = here.tell(("want", key(2), True), 0.1)
    assert (packet.kind, packet.message) == ("urgent", value(2))
    assert here.tell(("want", key(7), True), 0.1) == []
    (later,) = here.tell(("send", value(7)), 0.2)
    assert (later.kind, here.sent) == ("urgent", [0, 2, 7])
    assert here.channel.held == 5  # three on their way, two without credit
    for one in (later, packet):
        there.tell(("arrived", one), 0.3)
    assert (there.brought, there.delivered) == ([7, 2], [])
    assert here.tell(("want", key(8), False), 0.4) == []  # the value cannot come any more
    assert here.tell(("send", value(8)), 0.4) == []


@pytest.mark.parametrize("event", ["drop", "forget"])
def test_what_is_wanted_of_a_step_that_is_over_is_forgotten(event: str) -> None:
    here = End()
    here.tell(("want", key(0), True), 0.0)
    here.tell(("want", key(0, step=13), True), 0.0)
    assert here.channel.held == 2
    here.tell((event, 12), 0.1)
    assert here.channel.held == 1


def test_wanted_values_of_a_step_that_is_dropped_are_let_go() -> None:
    here, there = End(credit=1), End(credit=1)
    for i in range(2):
        here.tell(("send", value(i)), 0.0)
    here.tell(("want", key(1), True), 0.0)
    here.tell(("urge", urgent(5)), 0.0)
    here.tell(("drop", 12), 0.1)
    assert here.channel.held == 1  # the error
    for packet in here.tell(("tick",), 1.0):
        there.tell(("arrived", packet), 1.0)
    assert (there.delivered, there.brought, there.urgent) == ([], [], [5])


def test_who_lacks_credit_asks_for_it() -> None:
    """The packet that gave credit may have been lost."""
    here, there = End(credit=1), End(credit=1)
    (packet,) = here.tell(("send", value(0)), 0.0)
    here.tell(("send", value(1)), 0.0)
    there.tell(("arrived", packet), 0.0)
    (answer,) = there.tell(("tick",), there.wake)
    here.tell(("arrived", answer), 0.3)
    assert there.tell(("taken", 0), 0.4)[0].limit == 2  # this packet is lost
    (probe,) = here.tell(("tick",), here.wake)
    assert probe.kind == "probe"
    (answer,) = there.tell(("arrived", probe), 2.0)
    (packet,) = here.tell(("arrived", answer), 2.0)
    assert packet.number == 2
    there.tell(("arrived", packet), 2.0)
    assert there.delivered == [0, 1]


def test_who_got_credit_asks_soon_again() -> None:
    here = End(credit=1)
    for i in range(3):
        here.tell(("send", value(i)), 0.0)
    here.tell(("arrived", Packet("ack", upto=1, limit=1, limit_bytes=CREDIT_BYTES)), 0.0)
    times = []
    for _ in range(4):
        times.append(here.wake)
        here.tell(("tick",), here.wake)
    assert times == [1.0, 3.0, 7.0, 11.0]
    (packet,) = here.tell(
        ("arrived", Packet("ack", upto=1, limit=2, limit_bytes=CREDIT_BYTES)), 12.0
    )
    assert packet.number == 2
    here.tell(("arrived", Packet("ack", upto=2, limit=2, limit_bytes=CREDIT_BYTES)), 12.0)
    assert here.wake == 13.0


def test_what_has_come_early_is_not_sent_again() -> None:
    here, there = End(credit=3), End(credit=3)
    packets = [here.tell(("send", value(i)), 0.0)[0] for i in range(3)]
    there.tell(("arrived", packets[1]), 0.1)
    (answer,) = there.tell(("arrived", packets[2]), 0.2)
    assert (answer.upto, answer.early, there.delivered) == (0, (2, 3), [])
    here.tell(("arrived", answer), 0.3)
    assert here.gone == [1, 2]
    (again,) = here.tell(("tick",), here.wake)
    assert again.number == 1
    there.tell(("arrived", again), 1.0)
    assert there.delivered == [0, 1, 2]


def test_answers_are_put_off_and_go_with_what_is_sent() -> None:
    here, there = End(credit=8), End(credit=8)
    (packet,) = here.tell(("send", value(0)), 0.0)
    assert there.tell(("arrived", packet), 0.0) == []
    assert there.wake == TIMING.answer
    (back,) = there.tell(("send", value(0)), 0.1)
    assert (back.kind, back.upto) == ("value", 1)
    assert there.wake == 0.1 + TIMING.resend


def test_a_duplicate_is_answered_at_once() -> None:
    here, there = End(), End()
    (packet,) = here.tell(("send", value(0)), 0.0)
    there.tell(("arrived", packet), 0.0)
    (answer,) = there.tell(("arrived", packet), 0.1)
    assert (answer.kind, answer.upto, there.delivered) == ("ack", 1, [0])


def test_values_of_a_step_that_is_dropped_leave_their_numbers() -> None:
    here, there = End(credit=2), End(credit=2)
    packets = [here.tell(("send", value(i, step=i % 2)), 0.0) for i in range(6)]
    assert [len(p) for p in packets] == [1, 1, 0, 0, 0, 0]
    here.tell(("drop", 0), 0.5)
    assert here.channel.held == 3  # values of step 1
    again = here.tell(("tick",), 1.0)
    assert [packet.kind for packet in again] == ["value", "value", "probe"]
    assert [packet.message is None for packet in again] == [True, False, True]
    for packet in again:
        there.tell(("arrived", packet), 1.0)
    assert there.delivered == [1]
    (answer,) = there.wire[-1:]
    assert answer.limit == 3  # dropped values need no credit
    here.tell(("arrived", answer), 1.1)
    assert here.sent == [0, 1, 3]
    assert here.gone == [1]


@pytest.mark.parametrize("packet", [
    Packet("value", 3, value(3)), Packet("ack", upto=1), Packet("ack", early=(1,)),
    Packet("ack", urgent_upto=1), Packet("hello"),
])  # fmt: skip
def test_a_packet_that_cannot_have_come_changes_nothing(packet: Packet) -> None:
    end = End(credit=2)
    with pytest.raises(RendezvousError, match="does not fit the state of a channel"):
        end.tell(("arrived", packet), 0.0)
    assert end.channel.log == []
    assert end.tell(("send", value(0)), 0.0) == [
        Packet("value", 1, value(0), limit=2, limit_bytes=CREDIT_BYTES)
    ]


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(RendezvousError, match=r"got: \('jump',\)"):
        Channel().handle(("jump",), 0.0)


def test_a_log_that_differs_is_refused() -> None:
    end = End()
    end.tell(("send", value(0)), 0.0)
    end.tell(("tick",), 1.0)
    log = end.channel.log
    assert log is not None
    with pytest.raises(RendezvousError, match=r"event 1 .* other instructions than in the log"):
        rerun([log[0], (1.0, ("tick",), ())], 2, TIMING)


def test_values_wait_for_bytes() -> None:
    """A value goes out while the values at the destination have fewer bytes, whatever its size."""
    here, there = End(8, 10), End(8, 10)
    sizes = [4, 4, 4, 100, 1]
    for i, nbytes in enumerate(sizes):
        here.tell(("send", value(i, nbytes=nbytes)), 0.0)
    assert here.sent == [0, 1, 2]  # less than ten bytes were there before the third
    for taken, count in ((0, 4), (1, 4), (2, 4), (3, 5)):
        for packet in here.wire:
            there.tell(("arrived", packet), 1.0)
        here.wire.clear()
        there.wire.clear()
        there.tell(("taken", sizes[taken]), 2.0)
        there.tell(("tick",), 3.0)
        for packet in there.wire:
            here.tell(("arrived", packet), 3.0)
        assert len(here.sent) == count


def test_what_is_dropped_gives_its_bytes_back() -> None:
    here, there = End(8, 10), End(8, 10)
    here.tell(("send", value(0, nbytes=10)), 0.0)
    here.tell(("drop", 12), 0.0)
    here.tell(("send", value(1, step=13, nbytes=1)), 0.0)
    assert here.sent == [0]
    here.wire.clear()  # it is lost, and sent again without its value
    here.tell(("tick",), here.wake)
    for packet in here.wire:
        there.tell(("arrived", packet), 2.0)
    there.tell(("tick",), 3.0)
    for packet in there.wire:
        here.tell(("arrived", packet), 3.0)
    assert (there.delivered, here.sent) == ([], [0, 1])
