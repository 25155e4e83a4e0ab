"""Hostile messages to live sockets: the server goes on, and does nothing that is not allowed."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import zmq

import eagerflow as ef
from eagerflow.cluster.processes.greeting import versions
from eagerflow.cluster.processes.listening import doors_in
from eagerflow.cluster.processes.server import TaskServer
from eagerflow.cluster.processes.sockets import ServerSockets
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.message_limits import LIMITS
from eagerflow.cluster.protocol.messages import (
    Done,
    Failed,
    Fetch,
    Hello,
    Printed,
    Renew,
    Welcome,
)
from eagerflow.errors import AuthenticationError
from eagerflow.resources.containers import PROCESS
from tests.cluster.protocol.traffic import Training, messages, registrations


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskServer]:
    for name in ("task", "incarnation"):  # this process is no task after the test
        monkeypatch.setattr(PROCESS, name, getattr(PROCESS, name))
    made = TaskServer("ps:0", doors_in(folder, "ps:0"), ef.__version__)
    thread = threading.Thread(target=made.serve, name="server")
    thread.start()
    yield made
    made.stop()
    thread.join()


@pytest.fixture
def connect(folder: Path) -> Iterator[Any]:
    context, made = zmq.Context(), []

    def open_socket(role: str = "client", name: bytes | None = None) -> Any:
        socket = context.socket(zmq.DEALER)
        socket.linger, socket.rcvtimeo = 0, 10_000
        if name is not None:
            socket.routing_id = name
        socket.connect(getattr(doors_in(folder, "ps:0"), role))
        made.append(socket)
        return socket

    yield open_socket
    for socket in made:
        socket.close()
    context.term()


def greet(socket: Any, session: int) -> Any:
    hello = Hello(1, versions(ef.__version__), session, 1, "a test")
    socket.send_multipart(codec.write(hello))
    return answer(socket)


def answer(socket: Any) -> Any:
    """The next message other than a notice about refused clients."""
    while isinstance(message := codec.read(socket.recv_multipart())[0], Printed):
        pass
    return message


def alive(connect: Any, session: int) -> None:
    """Check that a new client is let in and answered."""
    socket = connect()
    assert isinstance(greet(socket, session), Welcome)
    socket.send_multipart(codec.write(Renew(2)))
    assert isinstance(answer(socket), Done)


def test_noise_from_anybody(server: TaskServer, connect: Any) -> None:
    draw = random.Random(0)
    noisy = [connect(role) for role in ("client", "task")]
    for _ in range(2000):
        frames = [draw.randbytes(draw.randint(0, 60)) for _ in range(draw.randint(1, 4))]
        draw.choice(noisy).send_multipart(frames)
    alive(connect, 5)
    end = monotonic() + 10
    while server._machine.counts["a malformed message"] < 2000 and monotonic() < end:
        alive(connect, draw.randint(10, 2**30))
    assert server._machine.counts["a malformed message"] == 2000
    assert all(socket.poll(0) == 0 for socket in noisy)


def test_mutated_traffic_within_a_session(server: TaskServer, connect: Any) -> None:
    """A message may end its session, but never the server, and no graph is ever run."""
    training = Training()
    traffic = [[bytes(f) for f in fs] for fs in messages() + registrations(training.graphs)]
    draw = random.Random(1)
    for session in range(1, 150):
        socket = connect()
        greet(socket, session)
        for _ in range(5):
            frames = [bytearray(frame) for frame in draw.choice(traffic)]
            frame = draw.choice(frames)
            for _ in range(draw.randint(0, 3)):
                if frame:
                    frame[draw.randrange(len(frame))] = draw.randrange(256)
            socket.send_multipart(frames)
        socket.close()
    alive(connect, 2**30)
    end = monotonic() + 10
    while (server._machine.held > 3 or server._work._sessions) and monotonic() < end:
        threading.Event().wait(0.01)
    assert not server._work._partitions
    assert not server._work._steps
    assert not server._work._private
    assert not server._work._sessions
    assert server._station.held == 0


def test_a_client_that_does_not_greet_is_told_so(server: TaskServer, connect: Any) -> None:
    socket = connect()
    socket.send_multipart(codec.write(Fetch(7, 1, 0)))
    answer, _ = codec.read(socket.recv_multipart())
    assert isinstance(answer, Failed)
    assert (answer.answers, answer.error.wrong) == (7, "there is no such session")


def test_what_comes_to_the_door_of_tasks_is_from_tasks(server: TaskServer, connect: Any) -> None:
    socket = connect("task")
    hello = Hello(1, versions(ef.__version__), 9, 1, "a client")
    socket.send_multipart(codec.write(hello))
    alive(connect, 10)
    assert socket.poll(200) == 0


def test_a_connection_that_closes_ends_its_session(server: TaskServer, connect: Any) -> None:
    socket = connect()
    greet(socket, 5)
    before = server._machine.held
    socket.close()
    end = monotonic() + 10
    while server._machine.held == before and monotonic() < end:
        threading.Event().wait(0.01)
    assert (before, server._machine.held) == (1, 0)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(AuthenticationError, match="is not for this user alone"):
        TaskServer("ps:0", doors_in(folder, "ps:0"), ef.__version__)


def test_a_folder_that_is_a_link_is_refused(folder: Path, tmp_path_factory: Any) -> None:
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(folder)
    with pytest.raises(AuthenticationError):
        TaskServer("ps:0", doors_in(link, "ps:0"), ef.__version__)


def test_nobody_can_foresee_what_a_connection_is_called(folder: Path) -> None:
    """A ROUTER aborts its process if a peer has taken the identity of the next connection."""
    names = []
    for task in ("ps:0", "ps:1"):
        ctypes.CDLL(None).srand(1)  # as in each new process
        doors = doors_in(folder, task)
        ours = ServerSockets(doors, LIMITS, None, print)
        context = zmq.Context()
        theirs = {role: context.socket(zmq.DEALER) for role in ("client", "task")}
        for role, socket in theirs.items():
            socket.linger = 0
            socket.connect(getattr(doors, role))
            socket.send(b"x")
        came: list[str] = []
        while len(came) < len(theirs):
            ours.wait(monotonic() + 10)
            came += [received.peer for received in ours.receive()]
        names += came
        for socket in theirs.values():
            socket.close()
        context.term()
        ours.close()
    assert len(set(names)) == 4


def test_a_name_is_that_of_a_connection_at_one_door(server: TaskServer, connect: Any) -> None:
    """A message under the same identity at the other door does not belong to the session."""
    client, other = connect("client", b"same"), connect("task", b"same")
    assert isinstance(greet(client, 5), Welcome)
    other.send_multipart([b"no message"])
    end = monotonic() + 10
    while not server._machine.counts["a malformed message"] and monotonic() < end:
        threading.Event().wait(0.01)
    client.send_multipart(codec.write(Renew(2)))
    assert isinstance(answer(client), Done)
