"""A long value of a step in pieces, and what ends the step, or its connection, before they came."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.long_frames import PIECE, LongFrames, split
from eagerflow.cluster.protocol.packets import read_packet, write_packet
from eagerflow.errors import CancelledError
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.packets import Packet
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.rendezvous.station import Station
from tests.runtime.rendezvous.receivers import EDGE, Note

ROUTES = {EDGE: Route("ps:0/cpu:0", "worker:0/cpu:0")}
KEY = Key(12, EDGE)
LONG = np.arange(2 * PIECE + 5, dtype=np.uint8)
#: the three pieces, and the message that names their frame
MESSAGES = 4


class Processes:
    """Two tasks, whose packets go by hand.

    Attributes:
        stations: their stations, by name.
        coming: their frames that are not complete, or not named.
        waiting: the messages on their way to each.
        now: the time.
    """

    def __init__(self) -> None:
        names = "ps:0", "worker:0"
        self.now = 0.0
        self.coming = {name: LongFrames() for name in names}
        self.waiting: dict[str, list[list[Any]]] = {name: [] for name in names}
        self.stations = {name: self._station(name) for name in names}

    def _station(self, name: str) -> Station:
        def put(end: str, packet: Packet) -> None:
            message, frames = write_packet(packet, name, 3, 3)
            self.waiting[end] += split(codec.write(message, frames))

        return Station(
            name, lambda device: device.rpartition("/")[0], put, lambda: None, credit=1
        )  # fmt: skip

    def work(self) -> None:
        for station in self.stations.values():
            station.work(self.now)

    def arrive(self, name: str, count: int) -> None:
        """The next messages on their way to a task arrive there."""
        for _ in range(count):
            frames = self.waiting[name].pop(0)
            whole = frames if len(frames[0]) else self.coming[name].take("p", frames)
            if whole:
                message: Any
                message, rest = codec.read(whole)
                packet = read_packet(message, rest)
                self.stations[name].work(self.now, [(message.sender, packet)])

    def rest(self) -> None:
        """All messages arrive, and are answered."""
        self.work()
        while any(self.waiting.values()) or self.soonest < inf:
            for name, waiting in self.waiting.items():
                self.arrive(name, len(waiting))
            self.now += 0.1
            self.work()

    @property
    def soonest(self) -> float:
        return min(station.soonest for station in self.stations.values())

    @property
    def held(self) -> int:
        held = sum(station.held for station in self.stations.values())
        return held + sum(coming.held for coming in self.coming.values())


@pytest.fixture
def processes() -> Processes:
    return Processes()


def sent(processes: Processes, note: Note) -> Rendezvous:
    """The sender's end of a step, when its value is on its way."""
    here = Rendezvous(12, ROUTES, transport=processes.stations["ps:0"])
    here.send(KEY, LONG, sent=note.sent)
    processes.work()
    assert len(processes.waiting["worker:0"]) == MESSAGES
    return here


@pytest.mark.parametrize("came", range(MESSAGES + 1))
@pytest.mark.parametrize("end", ["ended", "aborted", "unknown"])
def test_what_comes_for_a_step_that_is_over_is_let_go(
    processes: Processes, came: int, end: str
) -> None:
    """The step has ended there, has failed, or its session was over before it began."""
    note, worker = Note(), processes.stations["worker:0"]
    here = sent(processes, note)
    there = None if end == "unknown" else Rendezvous(12, ROUTES, transport=worker)
    processes.work()
    processes.arrive("worker:0", came)
    if there is not None:
        if end == "aborted":
            there.abort(CancelledError("it has failed"))
        there.end()
    processes.rest()
    here.end()
    processes.rest()
    if end == "unknown":
        worker.forget_steps(range(10, 20))
        processes.rest()
    assert note == [None]
    assert here.error is None or end == "aborted"
    assert processes.held == 0
    assert not worker.channels["ps:0"].exhausted


@pytest.mark.parametrize("came", range(MESSAGES))
def test_an_abort_of_the_sender_amid_the_pieces_leaves_nothing(
    processes: Processes, came: int
) -> None:
    note, error = Note(), CancelledError("it has failed")
    here = sent(processes, Note())
    there = Rendezvous(12, ROUTES, transport=processes.stations["worker:0"])
    there.receive(KEY, note.done)
    processes.work()
    processes.arrive("worker:0", came)
    here.abort(error)
    here.end()
    processes.rest()
    (one,) = note
    assert one.error is not None or np.array_equal(one.value, LONG)
    there.end()
    processes.rest()
    assert processes.held == 0


@pytest.mark.parametrize("came", range(MESSAGES))
def test_a_value_whose_connection_was_cut_amid_its_pieces_comes_again(
    processes: Processes, came: int
) -> None:
    note = Note()
    here = sent(processes, Note())
    there = Rendezvous(12, ROUTES, transport=processes.stations["worker:0"])
    there.receive(KEY, note.done)
    processes.arrive("worker:0", came)
    processes.coming["worker:0"].forget("p")
    del processes.waiting["worker:0"][: came % 2]  # what was on its way is lost, or comes later
    processes.rest()
    ((value, dead, error),) = note
    assert (dead, error) == (False, None)
    np.testing.assert_array_equal(value, LONG)
    here.end()
    there.end()
    processes.rest()
    assert processes.held == 0
