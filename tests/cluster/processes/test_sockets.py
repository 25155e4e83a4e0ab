"""Sockets of a server: the connection of each message, the end of connections, reconnecting."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from socket import create_server
from time import monotonic, sleep
from typing import Any

import pytest
import zmq
from zmq.utils.garbage import gc as frees

import eagerflow as ef
from eagerflow.cluster.processes import sockets as process_sockets
from eagerflow.cluster.processes.listening import Doors, doors_in
from eagerflow.cluster.processes.sockets import Received, ServerSockets, _Outgoing
from eagerflow.cluster.processes.zmq_sockets import Port, new_socket, send
from eagerflow.cluster.protocol.long_frames import PIECE, FrameAhead, split
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.errors import ResourceError


class Frame:
    """The first frame of a message, which knows its connection's descriptor, as pyzmq gives it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def get(self, what: Any) -> int:
        return self._descriptor


class ScriptedPort:
    """A port whose messages and disconnections come in an order that a test sets."""

    socket = "socket"
    monitor = "monitor"

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, Frame, list[Any]]] = []
        self.disconnected: list[int] = []
        self.gone: list[int] = []

    def comes(self, peer: bytes, descriptor: int) -> None:
        self.messages.append((peer, Frame(descriptor), [b"a header"]))

    @property
    def asked(self) -> list[Any]:
        return self.messages

    def take(self) -> tuple[bytes, Frame, list[Any]] | None:
        return self.messages.pop(0) if self.messages else None

    def closed(self) -> Iterator[int]:
        while self.disconnected:
            yield self.disconnected.pop(0)


@pytest.fixture
def port() -> ScriptedPort:
    return ScriptedPort()


@pytest.fixture
def sockets(
    tmp_path: Path, port: ScriptedPort, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServerSockets]:
    monkeypatch.setattr(process_sockets, "poll", lambda ports, _: any(ports))
    made = ServerSockets(doors_in(tmp_path, "ps:0"), LIMITS, None, lambda text: None)
    real = made._ports["client"]
    made._ports["client"] = port  # type: ignore[assignment]  # stands for one
    yield made
    made._ports["client"] = real
    made.close()


def received(sockets: ServerSockets) -> list[tuple[str, str]]:
    sockets.ready = {"socket", "monitor"}
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


def test_a_connection_that_is_cut_amid_a_long_frame_leaves_nothing(tmp_path: Path) -> None:
    """Its pieces are forgotten, and its end is told as that of any other."""
    sockets = ServerSockets(doors_in(tmp_path, "ps:0"), LIMITS, None, lambda text: None)
    context: Any = zmq.Context()
    long = FrameAhead(3 * PIECE)

    def connected() -> Any:
        socket = context.socket(zmq.DEALER)
        socket.linger = 1000
        socket.connect(sockets.doors.client)
        return socket

    def arrived(until: Callable[[list[Received]], bool]) -> list[Received]:
        events: list[Received] = []
        for _ in range(200):
            if until(events):
                return events
            sockets.wait(monotonic() + 0.1)
            events += sockets.receive()
        raise AssertionError(events)

    port = sockets._ports["client"]
    first, second = connected(), connected()
    first.send_multipart([b"hello"])
    first.send_multipart(long.piece(bytes(PIECE), 0))
    arrived(lambda events: bool(events) and port._long.held == 1)
    first.close()
    for start in range(0, 3 * PIECE, PIECE):
        second.send_multipart(long.piece(bytes(PIECE), start))
    (named,) = split([b"header", long])
    second.send_multipart(named)
    events = arrived(lambda events: len(events) == 2)
    assert sorted(one.kind for one in events) == ["closed", "frames"]
    (message,) = [one for one in events if one.kind == "frames"]
    assert [len(frame) for frame in message.frames] == [6, 3 * PIECE]
    assert port._long.held == 0
    second.close()
    context.term()
    sockets.close()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Port, Callable[[], Any]]]:
    """A port, and a function that connects another socket to it."""
    context: Any = zmq.Context()
    address, sockets = f"ipc://{tmp_path}/end", []

    def made(kind: int) -> Any:
        socket = new_socket(context, kind, LIMITS)
        socket.linger = 1000
        sockets.append(socket)
        return socket

    def connected() -> Any:
        socket = made(zmq.DEALER)
        socket.connect(address)
        return socket

    made(zmq.ROUTER).bind(address)
    port = Port(sockets[0])
    yield port, connected
    port.monitor.close()
    for socket in sockets:
        socket.close(0)
    context.term()
    frees.stop()  # its thread tells when long frames are sent


def until(done: Callable[[], Any]) -> Any:
    deadline = monotonic() + 10
    while monotonic() < deadline:
        value = done()
        if value:
            return value
        sleep(0.005)
    raise AssertionError("it has not come")


def test_a_header_may_be_longer_than_a_piece(ends: tuple[Port, Callable[[], Any]]) -> None:
    port, connected = ends
    header = bytes(PIECE + 1)
    send(connected(), [header, bytes(2 * PIECE), b"x"])
    received = until(lambda: (port.take() or (b"", None, []))[2])
    assert [len(frame) for frame in received] == [PIECE + 1, 2 * PIECE, 1]


def test_a_door_that_cannot_be_opened_leaves_nothing_open() -> None:
    """Although a notebook keeps the last error, with all that its frames refer to."""
    with create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        before = open_files()
        with pytest.raises(ResourceError, match=f"cannot listen at {address}") as of_client:
            ef.cluster.connect({"ps:0": "tcp://127.0.0.1:7400"}, listen=address, plain_tcp=True)
        assert open_files() == before
        with pytest.raises(ResourceError, match=f"cannot listen at {address}") as of_server:
            ServerSockets(Doors("tcp://127.0.0.1:0", address), LIMITS, None, lambda text: None)
        assert open_files() == before
        assert of_client.tb is not of_server.tb


def open_files() -> dict[str, int]:
    """The open files of this process by kind."""
    kinds = Counter[str]()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was that of the listing
            kinds[os.readlink(f"/proc/self/fd/{descriptor}").partition("[")[0]] += 1
    return kinds
