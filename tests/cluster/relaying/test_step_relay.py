"""The relay of step events from a task to clients: per session, bounded, idle if none looks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from eagerflow import events
from eagerflow.cluster.protocol.message_heads import step_number
from eagerflow.cluster.relaying import step_relay
from eagerflow.cluster.relaying.step_relay import StepRelay
from eagerflow.events import AbstractEvent, RegionEvent, TransferEvent
from eagerflow.graph.ir import Graph
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.station import Station
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier

GRAPH = "graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }"


@pytest.fixture
def relay() -> Iterator[StepRelay]:
    made = StepRelay("ps:0", Station("ps:0", str, print, print))
    yield made
    made.rest(5)
    made.rest(6)


def run(number: int, times: int = 1) -> None:
    tier = ScheduledTier(Graph.parse(GRAPH), number)
    for _ in range(times):
        tier.run([np.ones(2, np.float32)])


def send(number: int, nbytes: int = 8, origin: str = "cpu:0") -> None:
    event = TransferEvent(
        origin=origin, device="worker:0/cpu:0", nbytes=nbytes, executable=number, start=1.0
    )
    event.stop = 1.5
    events.end(event)


def test_without_one_who_looks_it_is_no_instrument(relay: StepRelay) -> None:
    number = relay.register(5, 1)
    assert not AbstractEvent.listeners
    run(number)
    assert relay.look(5).regions == []
    assert AbstractEvent.listeners == (relay,)
    assert RegionEvent.brief is not None
    assert not RegionEvent.listeners  # steps run their usual code
    run(number)
    relay.rest(5)
    assert not AbstractEvent.listeners
    assert RegionEvent.brief is None
    assert relay.look(5).regions == []


def test_each_session_is_told_its_own(relay: StepRelay) -> None:
    mine, others = relay.register(5, 1), relay.register(6, 1)
    relay.look(5)
    relay.look(6)
    run(mine, 2)
    run(others, 3)
    send(others)
    news, of_others = relay.look(5), relay.look(6)
    assert [len(news.regions), len(news.moves)] == [2, 0]
    assert [len(of_others.regions), len(of_others.moves)] == [3, 1]
    assert of_others.moves[0][3:5] == ("ps:0/cpu:0", "worker:0/cpu:0")
    relay.release(6, 1)
    run(others)
    assert relay.look(6).regions == []


def test_of_very_many_the_last_are_told_and_all_bytes(relay: StepRelay) -> None:
    number = relay.register(5, 1)
    relay.look(5)
    run(number, 150)
    for nbytes in range(250):
        send(number, nbytes)
    news = relay.look(5)
    assert len(news.regions) == 100
    assert [move.nbytes for move in news.moves] == list(range(150, 250))
    (rest,) = news.sums
    assert (rest.transfers, rest.nbytes, rest.seconds) == (150, sum(range(150)), 75.0)
    news = relay.look(5)
    assert [news.regions, news.moves, news.sums] == [[], [], []]


def test_what_comes_is_told_to_whose_step_it_is(relay: StepRelay) -> None:
    relay.look(5)
    relay.look(6)
    assert relay._station.arrived is not None
    relay._station.arrived(Key(step_number(6, 3), "y -> cpu:1", (("while", 2),)))
    assert relay.look(5).arrivals == []
    ((step, value, _),) = relay.look(6).arrivals
    assert (step, value) == (3, "y -> cpu:1 while:2")
    relay.rest(5)
    relay.rest(6)
    assert relay._station.arrived is None


def test_it_keeps_no_more_than_a_ring(relay: StepRelay) -> None:
    number = relay.register(5, 1)
    relay.look(5)
    for _ in range(2 * step_relay._KEPT):
        relay.brief_region((number, 0, 1.0, 2.0, 1))
    assert len(relay._regions) == step_relay._KEPT
