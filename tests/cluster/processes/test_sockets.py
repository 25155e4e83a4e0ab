"""Sockets of a server: the connection of each message, the end of connections, reconnecting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from eagerflow.cluster.processes.listening import Doors, doors_in
from eagerflow.cluster.processes.sockets import ServerSockets, _Outgoing
from eagerflow.cluster.protocol.message_limits import LIMITS


class Frame:
    """A frame with the descriptor of its connection, as pyzmq gives it."""

    def __init__(self, data: bytes, descriptor: int) -> None:
        self.bytes = self.buffer = data
        self._descriptor = descriptor

    def get(self, what: Any) -> int:
        return self._descriptor


class ScriptedPort:
    """A port whose messages and disconnections come in an order that a test sets."""

    socket = "socket"
    monitor = "monitor"

    def __init__(self) -> None:
        self.messages: list[list[Frame]] = []
        self.disconnected: list[int] = []

    def comes(self, peer: bytes, descriptor: int) -> None:
        self.messages.append([Frame(peer, descriptor), Frame(b"a header", descriptor)])

    def take(self, *, told: bool = False) -> list[Frame] | None:
        return self.messages.pop(0) if self.messages else None

    def closed(self) -> Iterator[int]:
        while self.disconnected:
            yield self.disconnected.pop(0)


@pytest.fixture
def port() -> ScriptedPort:
    return ScriptedPort()


@pytest.fixture
def sockets(tmp_path: Path, port: ScriptedPort) -> Iterator[ServerSockets]:
    made = ServerSockets(doors_in(tmp_path, "ps:0"), LIMITS, None, lambda text: None)
    real = made._ports["client"]
    made._ports["client"] = port  # type: ignore[assignment]  # stands for one
    yield made
    made._ports["client"] = real
    made.close()


def received(sockets: ServerSockets) -> list[tuple[str, str]]:
    sockets._ready = {"socket", "monitor"}
    return [(one.kind, bytes.fromhex(one.peer.split()[1]).decode()) for one in sockets.receive()]


def test_what_a_connection_had_sent_is_read_after_the_next_one_has_its_descriptor(
    sockets: ServerSockets, port: ScriptedPort
) -> None:
    port.comes(b"first", 12)
    assert received(sockets) == [("frames", "first")]
    port.disconnected.append(12)
    port.comes(b"second", 12)
    port.comes(b"first", 12)
    assert received(sockets) == [("closed", "first"), ("frames", "second"), ("frames", "first")]
    port.disconnected.append(12)
    assert ("closed", "second") in received(sockets)
    assert sockets._ends == sockets._names == sockets._peers == {}


def test_connections_are_closed_one_by_one(sockets: ServerSockets, port: ScriptedPort) -> None:
    port.comes(b"a", 12)
    port.comes(b"b", 13)
    assert received(sockets) == [("frames", "a"), ("frames", "b")]
    port.disconnected.append(13)
    assert received(sockets) == [("closed", "b")]
    port.comes(b"a", 12)
    assert received(sockets) == [("frames", "a")]
    port.disconnected.append(12)
    assert received(sockets) == [("closed", "a")]


def listening(context: Any, address: str) -> Any:
    socket = context.socket(zmq.ROUTER)
    socket.linger = 0
    socket.bind(address)
    return socket


def arrives(there: Any, outgoing: _Outgoing, message: bytes) -> bool:
    """Whether `message` arrives in the end; messages sent into a connection just cut are lost."""
    for _ in range(200):
        outgoing.send("ps:0", [message])
        if there.poll(100):
            return bool(there.recv_multipart()[1] == message)
    return False


def test_a_connection_between_tasks_that_was_cut_is_made_again(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/ps-0.task"
    context: Any = zmq.Context()
    outgoing = _Outgoing(context, LIMITS, None)
    outgoing.connect("ps:0", Doors("", address))
    with listening(context, address) as there:
        assert arrives(there, outgoing, b"before")
    with listening(context, address) as there:
        assert arrives(there, outgoing, b"after")
    outgoing.close()
    context.term()
