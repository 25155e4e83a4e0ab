"""The short ways of a channel and of a station: they lead to what the long ways lead to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from eagerflow.runtime.rendezvous.channel import Channel
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.packets import ChannelTiming, Message, Packet
from tests.exploring import examples
from tests.fakes.transport import CALM, FakeNetwork
from tests.runtime.rendezvous.receivers import key

TIMING: Final = ChannelTiming(resend=1.0, longest=4.0, answer=0.25)


@dataclass
class End:
    """A channel whose values are taken as soon as they are delivered.

    Attributes:
        short: whether it goes the short ways where they lead on.
        gone: values known to have arrived.
        went: number of short ways.
    """

    channel: Channel
    short: bool
    put: list[Packet] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)
    gone: list[Message] = field(default_factory=list)
    went: int = 0

    def send(self, message: Message, now: float) -> None:
        packet = self.channel.send_at_once(message, now) if self.short else None
        if packet is None:
            self.tell(("send", message), now)
        else:
            self.went += 1
            self.put.append(packet)

    def arrive(self, packet: Packet, now: float) -> None:
        gone = self.channel.take_at_once(packet, now) if self.short else None
        if gone is None:
            self.tell(("arrived", packet), now)
            return
        self.went += 1
        self.gone += gone
        assert packet.message is not None
        self.taken.append(packet.message)
        if self.channel.wake <= now:
            self.tell(("tick",), now)

    def tell(self, event: tuple[Any, ...], now: float) -> None:
        for kind, what in self.channel.handle(event, now):
            if kind == "put":
                self.put.append(what)
            elif kind == "gone":
                self.gone.append(what)
            elif kind == "deliver":
                self.taken.append(what)
                self.tell(("taken", what.nbytes), now)


def state(one: Any) -> Any:
    """All that an object with slots holds, in values that can be compared."""
    if isinstance(one, dict):
        return {name: state(held) for name, held in one.items()}
    if not hasattr(type(one), "__slots__") or isinstance(one, tuple):
        return one
    return {name: state(getattr(one, name)) for name in type(one).__slots__}


class Twins(RuleBasedStateMachine):
    """Two connections with the same traffic; the ends of one go the short ways."""

    @initialize(credit=st.integers(1, 4), credit_bytes=st.sampled_from([2, 5, 1000]))
    def begin(self, credit: int, credit_bytes: int) -> None:
        self.ends = [
            [End(Channel(credit, TIMING, credit_bytes=credit_bytes), short) for short in (0, 1)]
            for _ in range(2)
        ]
        self.now = 0.0
        self.count = 0

    def both(self, at: int, call: str, what: Any) -> None:
        """Call a method of both twins, and compare them."""
        long, short = self.ends[at]
        for twin in (long, short):
            getattr(twin, call)(what, self.now)
        assert (short.put, short.gone, short.taken) == (long.put, long.gone, long.taken)
        assert state(short.channel) == state(long.channel)

    @rule(at=st.integers(0, 1), nbytes=st.integers(0, 3))
    def send(self, at: int, nbytes: int) -> None:
        self.count += 1
        step = self.count % 3
        message = Message("value", step, key(self.count, step=step), self.count, False, nbytes)
        self.both(at, "send", message)

    @rule(at=st.integers(0, 1), which=st.integers(0, 3), keep=st.booleans())
    def arrive(self, at: int, which: int, keep: bool) -> None:
        wires = [twin.put for twin in self.ends[1 - at]]
        if len(wires[0]) > which:
            packet = wires[0][which]
            if not keep:
                for wire in wires:
                    del wire[which]
            self.both(at, "arrive", packet)

    @rule(at=st.integers(0, 1))
    def urge(self, at: int) -> None:
        self.both(at, "tell", ("urge", Message("error", 1, None, "failed")))

    @rule(at=st.integers(0, 1), ahead=st.integers(-3, 2))
    def want(self, at: int, ahead: int) -> None:
        """Ask for a value that was sent, or that is not sent yet."""
        number = max(self.count + ahead, 0)
        self.both(at, "tell", ("want", key(number, step=number % 3), True))

    @rule(at=st.integers(0, 1), step=st.integers(0, 2))
    def drop(self, at: int, step: int) -> None:
        self.both(at, "tell", ("drop", step))

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for at in (0, 1):
            if self.ends[at][0].channel.wake <= self.now:
                self.both(at, "tell", ("tick",))


@pytest.mark.hypothesis
def test_the_short_ways_lead_where_the_long_ways_lead() -> None:
    run_state_machine_as_test(
        Twins, settings=settings(max_examples=examples(60), stateful_step_count=50)
    )


def test_values_back_and_forth_go_the_short_ways() -> None:
    ends = [End(Channel(8, TIMING), short=True) for _ in range(2)]
    for i in range(100):
        for at in (0, 1):
            ends[at].send(Message("value", i, key(i, step=i), i), 0.01 * i)
            ends[1 - at].arrive(ends[at].put.pop(), 0.01 * i)
    assert [end.went for end in ends] == [200, 200]
    assert [len(end.gone) for end in ends] == [100, 99]


def test_a_channel_with_a_log_goes_the_long_ways() -> None:
    """So that the log has all that has happened."""
    here, there = (Channel(8, TIMING, log=True) for _ in range(2))
    message = Message("value", 12, key(0), 0.5)
    assert here.send_at_once(message, 0.0) is None
    ((_, packet), *_) = here.handle(("send", message), 0.0)
    assert there.take_at_once(packet, 0.0) is None
    assert there.log == []


# --- stations ------------------------------------------------------------------------------------


class Taking:
    """The end of a step that takes values at once; it sends each back."""

    takes_at_once = True
    executable = 0

    def __init__(self, transport: Any, step: int, back: str, *, fails: bool = False) -> None:
        self.step = step
        self.routes = {"there": Route("cpu:0", "cpu:1"), "back": Route("cpu:1", "cpu:0")}
        self.error: Exception | None = None
        self.values: list[Any] = []
        self._transport = transport
        self._back = back
        self._fails = fails

    def put(self, name: Key, value: Any, dead: bool, sent: Any, route: Any = None) -> None:
        if self._fails:
            raise ValueError("no place for it")
        self.values.append(value)
        if self._back:
            at = Key(self.step, self._back)
            self._transport.send(self, self.routes[self._back], at, value + 1, False, None)

    def wanted(self) -> list[Key]:
        return []

    def fail(self, error: Exception) -> None:
        self.error = error

    def abort(self, error: Exception) -> None:
        self.error = error
        self._transport.abort(self, error)


@pytest.mark.parametrize("log", [False, True])
def test_a_step_that_takes_values_at_once_may_send_at_once(log: bool) -> None:
    network = FakeNetwork(2, CALM, log=log)
    stations = [network.station(name) for name in ("cpu:0", "cpu:1")]
    for step in range(1, 200):
        here, there = (
            Taking(station.at_once, step, back)
            for station, back in zip(stations, ("", "back"), strict=True)
        )
        for station, end in zip(stations, (here, there), strict=True):
            station.at_once.begin(end)
        stations[0].at_once.send(here, here.routes["there"], Key(step, "there"), 1, False, None)
        network.used("cpu:0")
        network.run()
        for station, end in zip(stations, (here, there), strict=True):
            station.at_once.end(end)
        assert (there.values, here.values) == ([1], [2])
    assert network.held == 0


def test_an_error_of_a_step_that_takes_at_once_ends_it_everywhere() -> None:
    network = FakeNetwork(2, CALM)
    stations = [network.station(name) for name in ("cpu:0", "cpu:1")]
    here = Taking(stations[0].at_once, 1, "")
    there = Taking(stations[1].at_once, 1, "", fails=True)
    for station, end in zip(stations, (here, there), strict=True):
        station.at_once.begin(end)
    stations[0].at_once.send(here, here.routes["there"], Key(1, "there"), 1, False, None)
    network.used("cpu:0")
    network.run()
    assert isinstance(there.error, ValueError)
    assert here.error is there.error
    for station, end in zip(stations, (here, there), strict=True):
        station.at_once.end(end)
    network.run()
    assert network.held == 0
