"""Fuzzing of live sockets: no file or device is reached, and nothing leaks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import psutil
import pytest
import zmq

import eagerflow as ef
from eagerflow.cluster.processes.greeting import versions
from eagerflow.cluster.processes.listening import doors_in
from eagerflow.cluster.processes.server import TaskServer
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.messages import Done, Failed, Hello, Printed, Welcome
from eagerflow.resources.containers import PROCESS
from tests.cluster.processes.fuzzing import Fuzzer

SECRET = b"what nobody may read"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskServer]:
    tmp_path.chmod(0o700)
    for name in ("task", "incarnation"):  # this process is no task after the test
        monkeypatch.setattr(PROCESS, name, getattr(PROCESS, name))
    monkeypatch.setattr(TaskServer, "_log", lambda self, text: None)
    made = TaskServer("fuzz:0", doors_in(tmp_path, "fuzz:0"), ef.__version__)
    thread = threading.Thread(target=made.serve, name="server")
    thread.start()
    yield made
    made.stop()
    thread.join()


def answers(socket: zmq.Socket[bytes]) -> list[list[bytes]]:
    messages = []
    with suppress(zmq.Again):
        while True:
            messages.append(socket.recv_multipart(zmq.NOBLOCK))
    return messages


def is_warning(message: object) -> bool:
    """Whether a message is a server's own notice of something refused or dropped."""
    if not isinstance(message, Printed):
        return False
    return message.own and all(line.endswith("refused or dropped") for line in message.lines)


def bombard(server: TaskServer, canary: Path, count: int, seed: int) -> None:
    """Send ``count`` messages, in sessions of fifty, and check all that comes back."""
    fuzzer = Fuzzer(seed, server.doors, str(canary))
    context = zmq.Context()
    hello = versions(ef.__version__)
    first = (3 + seed) * 1_000_000  # above the numbers of recorded greetings
    for session in range(first, first + -(-count // 50)):
        role = "task" if session % 10 == 0 else "client"
        socket = context.socket(zmq.DEALER)
        socket.linger, socket.rcvtimeo = 0, 30_000
        socket.connect(getattr(server.doors, role))
        if role == "client":
            socket.send_multipart(codec.write(Hello(1, hello, session, 1, "fuzz")))
            assert isinstance(codec.read(socket.recv_multipart())[0], Welcome)
        for wire in fuzzer.session(session, 50):
            socket.send_multipart(wire)
        if session % 4 == 0:
            socket.poll(20)
        for frames in answers(socket):
            message = codec.read(frames)[0]
            assert isinstance(message, Done | Failed | Welcome) or is_warning(message)
            assert not any(SECRET in frame for frame in frames)
        socket.close()
    context.term()
    fuzzer.close()


def check(server: TaskServer, canary: Path) -> None:
    end = monotonic() + 30
    while (server._machine.held or server._work._sessions) and monotonic() < end:
        threading.Event().wait(0.01)
    assert server._machine.held == 0
    work = server._work
    assert [*work._sessions, *work._partitions, *work._steps, *work._private] == []
    assert server._station.held == 0
    assert canary.read_bytes() == SECRET
    assert sum(server._machine.counts.values()) > 0


def test_thousands_of_messages(server: TaskServer, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_bytes(SECRET)
    bombard(server, canary, 2_000, seed=0)
    check(server, canary)


@pytest.mark.slow
def test_a_million_messages(server: TaskServer, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_bytes(SECRET)
    count = int(os.environ.get("EAGERFLOW_FUZZ", "1_000_000"))
    bombard(server, canary, count // 20, seed=1)
    process = psutil.Process()
    memory, descriptors = process.memory_info().rss, process.num_fds()
    bombard(server, canary, count, seed=2)
    check(server, canary)
    assert process.memory_info().rss < memory + (64 << 20)
    assert process.num_fds() < descriptors + 20
