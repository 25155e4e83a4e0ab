"""Authentication of clients and tasks at a server that listens on ports."""

from __future__ import annotations

import math
import socket as sockets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import zmq

import eagerflow as ef
from eagerflow.cluster.processes.client import connections
from eagerflow.cluster.processes.greeting import versions
from eagerflow.cluster.processes.keys import (
    KeyFolder,
    KeyPair,
    client_credentials,
    new_pair,
    server_credentials,
    task_keys,
)
from eagerflow.cluster.processes.listening import Doors, doors_at
from eagerflow.cluster.processes.local_provisioner import TaskProcess
from eagerflow.cluster.processes.server import TaskServer
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.messages import (
    Done,
    Failed,
    Hello,
    PacketMessage,
    Peers,
    Printed,
    Renew,
    Welcome,
)
from eagerflow.cluster.state_machines.client import ClientMachine
from eagerflow.errors import AuthenticationError, TaskLost
from eagerflow.resources.containers import PROCESS
from tests.cluster.chaos.proxies import Links, target

HERE = "tcp://127.0.0.1:0"


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    made = KeyFolder(tmp_path / "keys")
    made.add_task("auth:0", HERE)
    made.add_task("auth:1", "tcp://127.0.0.1:9")
    made.add_client("alice")
    made.add_client("bob")
    return made


@pytest.fixture
def server(keys: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskServer]:
    for name in ("task", "incarnation"):  # this process is no task after the test
        monkeypatch.setattr(PROCESS, name, getattr(PROCESS, name))
    credentials = server_credentials(keys.path, "auth:0")
    made = TaskServer("auth:0", doors_at(HERE), ef.__version__, credentials)
    thread = threading.Thread(target=made.serve, name="server")
    thread.start()
    yield made
    made.stop()
    thread.join()


@pytest.fixture
def connect(server: TaskServer) -> Iterator[Any]:
    context, made = zmq.Context(), []

    def open_socket(pair: KeyPair | None, to: str | None = None, role: str = "client") -> Any:
        socket = context.socket(zmq.DEALER)
        socket.linger, socket.rcvtimeo, socket.reconnect_ivl = 0, 10_000, -1
        if pair is not None:
            socket.curve_publickey = pair.public.encode()
            socket.curve_secretkey = pair.secret.encode()
            socket.curve_serverkey = (server.doors.key if to is None else to).encode()
        socket.connect(getattr(server.doors, role))
        made.append(socket)
        return socket

    yield open_socket
    for socket in made:
        socket.close()
    context.term()


def pair_of(keys: KeyFolder, client: str) -> KeyPair:
    return client_credentials(keys.path / f"{client}.json")[0].keys


def hello(session: int) -> list[Any]:
    return codec.write(Hello(1, versions(ef.__version__), session, 1, "a test"))


def answer(socket: Any) -> Any:
    """The next message other than a notice about refused clients."""
    while isinstance(message := codec.read(socket.recv_multipart())[0], Printed):
        pass
    return message


def comes(what: Callable[[], Any], seconds: float = 10.0) -> bool:
    end = monotonic() + seconds
    while not what() and monotonic() < end:
        threading.Event().wait(0.01)
    return bool(what())


def test_the_right_key(server: TaskServer, keys: KeyFolder, connect: Any) -> None:
    socket = connect(pair_of(keys, "alice"))
    socket.send_multipart(hello(5))
    assert isinstance(answer(socket), Welcome)


@pytest.mark.parametrize("case", ["none", "unknown", "wrong server", "task's", "revoked"])
def test_keys_that_are_not_let_in(
    case: str, server: TaskServer, keys: KeyFolder, connect: Any
) -> None:
    alice = pair_of(keys, "alice")
    if case == "revoked":
        keys.revoke("alice")
    made = {
        "none": lambda: connect(None),
        "unknown": lambda: connect(new_pair()),
        "wrong server": lambda: connect(alice, new_pair().public),
        "task's": lambda: connect(task_keys(keys.path, "auth:1")),
        "revoked": lambda: connect(alice),
    }
    refused, socket = made[case](), connect(pair_of(keys, "bob"))
    with suppress(zmq.Again):  # the connection may be gone already
        refused.send_multipart(hello(5), zmq.NOBLOCK)
    socket.send_multipart(hello(6))
    assert isinstance(answer(socket), Welcome)
    assert refused.poll(200) == 0
    assert server._machine.held == 1


def test_a_server_that_encrypts_nothing_gets_nothing(keys: KeyFolder) -> None:
    """A client with a server's key talks to no other process that listens in its place."""
    context = zmq.Context()
    false = context.socket(zmq.ROUTER)
    port = false.bind_to_random_port("tcp://127.0.0.1")
    alice, tasks = client_credentials(keys.path / "alice.json")
    socket = context.socket(zmq.DEALER)
    socket.linger = false.linger = 0
    socket.curve_publickey, socket.curve_secretkey = (
        alice.keys.public.encode(), alice.keys.secret.encode()
    )  # fmt: skip
    socket.curve_serverkey = tasks["auth:0"].key.encode()
    socket.connect(f"tcp://127.0.0.1:{port}")
    socket.send_multipart(hello(5))
    assert false.poll(200) == 0
    socket.close()
    false.close()
    context.term()


def test_a_key_that_is_revoked_ends_its_session(
    server: TaskServer, keys: KeyFolder, connect: Any
) -> None:
    alice, bob = connect(pair_of(keys, "alice")), connect(pair_of(keys, "bob"))
    for session, socket in enumerate((alice, bob), 5):
        socket.send_multipart(hello(session))
        assert isinstance(answer(socket), Welcome)
    keys.revoke("alice")
    told = answer(alice)
    assert isinstance(told, Failed)
    assert told.error.wrong == "the key of this client was revoked"
    alice.send_multipart(hello(7))
    bob.send_multipart(codec.write(Renew(2)))
    assert isinstance(answer(bob), Done)
    assert alice.poll(100) == 0
    assert server._machine.held == 1


def test_new_connections_hide_no_change_of_the_list(
    server: TaskServer, keys: KeyFolder, connect: Any
) -> None:
    """Each connection has the list read again; open sessions are checked as well."""
    alice = connect(pair_of(keys, "alice"))
    alice.send_multipart(hello(5))
    assert isinstance(answer(alice), Welcome)
    allowed = server._credentials.allowed if server._credentials is not None else None
    assert allowed is not None
    keys.revoke("alice")
    allowed.refresh()  # as a connection does
    assert isinstance(answer(alice), Failed)


def test_a_pair_made_anew_ends_the_session_of_the_old_one(
    server: TaskServer, keys: KeyFolder, connect: Any
) -> None:
    old = connect(pair_of(keys, "alice"))
    old.send_multipart(hello(5))
    assert isinstance(answer(old), Welcome)
    keys._known.clients["alice"] = new_pair().public  # between two reads of the list
    keys._save()
    told = answer(old)
    assert isinstance(told, Failed)
    assert told.error.wrong == "the key of this client was revoked"


def test_packets_come_from_those_whose_they_are(
    server: TaskServer, keys: KeyFolder, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = connect(pair_of(keys, "alice"))
    alice.send_multipart(hello(5))
    answer(alice)
    own = pair_of(keys, "alice").public
    peer = task_keys(keys.path, "auth:1").public
    peers = Peers(2, {
        "auth:1": ("tcp://127.0.0.1:10", 7, peer), "client-5": ("tcp://127.0.0.1:11", 8, own),
        "client-6": ("tcp://127.0.0.1:11", 8, own), "auth:2": ("tcp://127.0.0.1:11", 8, own),
    })  # fmt: skip
    alice.send_multipart(codec.write(peers))
    told = answer(alice)
    assert isinstance(told, Failed)
    assert told.error.wrong == "auth:0 sends nothing to auth:2 at tcp://127.0.0.1:11"
    assert server._machine._peers == {"auth:1": 7, "client-5": 8}

    def packet(sender: str, incarnation: int) -> list[Any]:
        return codec.write(PacketMessage(
            0, sender, incarnation, PROCESS.incarnation, "ack", None, 0, 0, (), 1, 1, 0
        ))  # fmt: skip

    taken: list[str] = []
    monkeypatch.setattr(
        "eagerflow.cluster.processes.server.read_packet",
        lambda message, frames: taken.append(message.sender),
    )
    monkeypatch.setattr(server._station, "work", lambda now, packets=(): math.inf)
    task = connect(task_keys(keys.path, "auth:1"), role="task")
    bob = connect(pair_of(keys, "bob"), role="task")
    mine = connect(pair_of(keys, "alice"), role="task")
    for socket in (task, bob, mine):
        socket.send_multipart(packet("auth:1", 7))
        socket.send_multipart(packet("client-5", 8))
    wrong = "a packet in the name of another task"
    assert comes(lambda: server._machine.counts[wrong] == 4 and len(taken) == 2)
    assert sorted(taken) == ["auth:1", "client-5"]


def test_a_task_is_known_as_soon_as_it_is_on_the_list(
    server: TaskServer, keys: KeyFolder, connect: Any
) -> None:
    """Whoever starts a task writes the list and announces the task at once."""
    alice = connect(pair_of(keys, "alice"))
    alice.send_multipart(hello(5))
    answer(alice)
    doors = keys.add_task("auth:9", "tcp://127.0.0.1:20")
    peers = {"auth:9": (doors.task, 3, doors.key)}
    alice.send_multipart(codec.write(Peers(2, peers)))
    assert isinstance(answer(alice), Done)
    assert server._machine._peers == {"auth:9": 3}


def test_tasks_whose_lists_do_not_fit_are_told(server: TaskServer, keys: KeyFolder) -> None:
    """Else a step would wait for a value that is never sent."""
    keys._known.tasks = {"auth:0": tuple(server.doors)}
    path = keys.add_client("carol")
    folder = keys.path.parent / "other"
    other = KeyFolder(folder)
    other.add_task("auth:1", HERE)
    other.allow_client("carol", client_credentials(path)[0].keys.public)
    process = TaskProcess("auth:1", folder, ["--listen", HERE, "--keys", str(folder)])
    try:
        doors = process.wait_until_ready(monotonic() + 60)
        keys._known.tasks["auth:1"] = tuple(doors)
        keys.add_client("carol")
        del keys._known.tasks["auth:1"]
        keys._save()
        with pytest.raises(AuthenticationError, match="sends nothing to auth:"):
            ef.cluster.connect(path)
    finally:
        process.end()


def test_a_port_needs_keys_or_plain_words() -> None:
    with pytest.raises(AuthenticationError, match="any process that reaches"):
        TaskServer("auth:0", doors_at(HERE), ef.__version__)


def test_what_is_too_large_before_a_greeting(server: TaskServer, connect: Any, keys: Any) -> None:
    """Before a connection has proved its key, the size that it announces takes no memory."""
    host, port = server.doors.client.removeprefix("tcp://").split(":")
    with sockets.create_connection((host, int(port)), 10) as raw:
        raw.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + b"\0" + bytes(31))
        raw.sendall(b"\x06" + (1 << 40).to_bytes(8, "big") + bytes(1000))  # a command of 1 TB
        raw.settimeout(10)
        got = b"x"
        while got:
            try:
                got = raw.recv(4096)
            except ConnectionResetError:
                break
    socket = connect(pair_of(keys, "alice"))
    socket.send_multipart(hello(5))
    assert isinstance(answer(socket), Welcome)


def test_a_connection_that_is_cut_in_its_handshake_says_nothing_of_keys(
    server: TaskServer, keys: KeyFolder
) -> None:
    """A proxy without a task behind it closes each connection that it accepts."""
    links = Links(["auth:0"])
    link = links.of["auth:0"]
    keys._known.tasks["auth:0"] = f"tcp://127.0.0.1:{link.port}", HERE, server.doors.key
    del keys._known.tasks["auth:1"]
    path = keys.add_client("carol")
    made: list[ef.cluster.Cluster] = []
    thread = threading.Thread(target=lambda: made.append(ef.cluster.connect(path)))
    thread.start()
    try:
        assert comes(lambda: link.refused >= 2)
        link.targets = [target(at) for at in server.doors[:2]]
        thread.join()
        assert [repr(cluster) for cluster in made] == ["Cluster(auth:0)"]
    finally:
        for cluster in made:
            cluster.close()
        links.close()


def test_connecting_by_a_file(
    server: TaskServer, keys: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = partial(ClientMachine, lost_after=0.5)
    monkeypatch.setattr(connections, "ClientMachine", machine)
    keys._known.tasks["auth:0"] = server.doors.client, server.doors.task, server.doors.key
    del keys._known.tasks["auth:1"]
    path = keys.add_client("carol")
    with ef.cluster.connect(path) as cluster:
        assert repr(cluster) == "Cluster(auth:0)"
        assert cluster.tasks["auth:0"].health == "ready"
    keys.revoke("carol")
    path = keys.add_client("carol")
    kept = path.read_bytes()
    keys.revoke("carol")
    path.write_bytes(kept)
    path.chmod(0o600)
    with pytest.raises(AuthenticationError, match="has refused this client"):
        ef.cluster.connect(path)


@pytest.mark.parametrize("why", ["another key", "nobody behind a proxy"])
def test_what_cuts_each_handshake_is_told_as_lost(
    why: str, server: TaskServer, keys: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client cannot distinguish a process with another key from one that is being started."""
    monkeypatch.setattr(connections, "ClientMachine", partial(ClientMachine, lost_after=0.5))
    links = Links(["auth:0"])
    key = new_pair().public if why == "another key" else server.doors.key
    where = server.doors.client
    if why == "nobody behind a proxy":
        where = f"tcp://127.0.0.1:{links.of['auth:0'].port}"
    keys._known.tasks["auth:0"] = Doors(where, HERE, key)
    del keys._known.tasks["auth:1"]
    try:
        with pytest.raises(TaskLost, match="was cut in its handshake") as caught:
            ef.cluster.connect(keys.add_client("carol"))
        assert "eagerflow keys" in str(caught.value)
    finally:
        links.close()
