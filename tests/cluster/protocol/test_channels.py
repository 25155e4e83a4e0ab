"""Channels over the codec: packets of the simulated network as bytes, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.messages import PacketMessage
from eagerflow.cluster.protocol.packets import read_packet, write_packet
from eagerflow.errors import TraceError
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.packets import Packet
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.fakes.transport import FakeNetwork
from tests.runtime.rendezvous.receivers import EDGE, ROUTES


def over_bytes(packet: Packet) -> Packet:
    frames = [bytes(frame) for frame in codec.write(*write_packet(packet, "worker:0", 1, 2))]
    message, rest = codec.read(frames)
    assert isinstance(message, PacketMessage)
    return read_packet(message, rest)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> FakeNetwork:
    put = FakeNetwork._put

    def put_bytes(self: FakeNetwork, source: str, destination: str, packet: Packet) -> None:
        put(self, source, destination, over_bytes(packet))

    monkeypatch.setattr(FakeNetwork, "_put", put_bytes)
    return FakeNetwork(seed=3)


def test_values_arrive_over_a_bad_network(network: FakeNetwork) -> None:
    here = Rendezvous(1, ROUTES, transport=network.station("cpu:0"))
    there = Rendezvous(1, ROUTES, transport=network.station("cpu:1"))
    keys = [Key(1, EDGE, (("while_loop", i),)) for i in range(40)]
    got: dict[Key, Any] = {}
    for i, key in enumerate(keys):
        here.send(key, np.full((2, 3), i, np.float32).T)
        there.receive(key, lambda value, dead, error, key=key: got.setdefault(key, value))
    network.run()
    assert [got[key].tolist() for key in keys] == [[[i] * 2] * 3 for i in range(40)]
    assert here.end() == there.end() == []
    network.run()
    assert network.held == 0


def test_the_error_of_a_step_arrives(network: FakeNetwork) -> None:
    here = Rendezvous(1, ROUTES, transport=network.station("cpu:0"))
    there = Rendezvous(1, ROUTES, transport=network.station("cpu:1"))
    errors: list[Exception | None] = []
    there.receive(Key(1, EDGE), lambda value, dead, error: errors.append(error))
    network.run()
    here.abort(TraceError("no", source="cell:3: y = f(x)"))
    network.run()
    (error,) = errors
    assert isinstance(error, TraceError)
    assert str(error) == "no\n  at: cell:3: y = f(x)"
    here.end()
    there.end()
