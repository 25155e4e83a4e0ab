"""Sockets of servers and clients. Each is owned by one thread, which alone may call its methods.

A server has two addresses, one for clients and one for other tasks, so that who speaks to it is
known by where. They are files of a directory that only its user may enter.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple, final

import zmq
from zmq.utils.monitor import recv_monitor_message

from eagerflow.cluster.protocol.limits import Limits
from eagerflow.cluster.protocol.values import Frame
from eagerflow.errors import AuthenticationError

#: milliseconds: how often a process asks another whether it is there, when it is suspected to be
#: stopped, and when it is given up
_HEARTBEAT: Final = 500
_SUSPECTED: Final = 2_000
_SILENCE: Final = 10_000
#: frames of more bytes are not copied when they are sent
_COPIED: Final = 1 << 16
#: how many messages from one socket are taken before the others have their share
_SHARE: Final = 100
# plain ints: operators of pyzmq's flags take longer than the calls
_EVENTS: Final = int(zmq.EVENTS)
_READABLE: Final = int(zmq.POLLIN)
_DISCONNECTED: Final = int(zmq.EVENT_DISCONNECTED)
_AT_ONCE: Final = int(zmq.NOBLOCK)
_AT_ONCE_AND_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)


def address(folder: Path, task: str, role: str) -> str:
    """Where a task listens to those of a role, ``"client"`` or ``"task"``."""
    return f"ipc://{folder}/{task.replace(':', '-')}.{role}"


def tasks_in(folder: Path) -> list[str]:
    """The tasks that listen in a directory."""
    names = [path.name.removesuffix(".client") for path in folder.glob("*-*.client")]
    return sorted(":".join(name.rsplit("-", 1)) for name in names)


def check_folder(folder: Path) -> None:
    """Refuse a directory that others than this user may enter.

    Raises:
        AuthenticationError: they may, or it is another one's.
    """
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.getuid() or mode & 0o077 or folder.is_symlink():
        raise AuthenticationError(
            f"{folder} is not for this user alone",
            given=f"mode {mode:o}, of user {status.st_uid}",
            expected="mode 700, of this user",
        )


class Received(NamedTuple):
    """Something that has come.

    Attributes:
        kind: ``"frames"``, ``"closed"``, ``"silent"`` or ``"heard"``.
        peer: from whom: a connection of a server, a task of a client.
        role: of whom.
        frames: what.
    """

    kind: str
    peer: str
    role: str
    frames: list[Frame]


@final
class Bell:
    """Wakes the owner of sockets, from any thread."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)

    def fileno(self) -> int:
        return self._ours.fileno()

    def ring(self) -> None:
        with suppress(OSError):  # it rings already, or there is nobody any more
            self._theirs.send(b"\0")

    def silence(self) -> None:
        with suppress(BlockingIOError):
            while self._ours.recv(4096):
                pass

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


def _socket(context: Any, kind: int, limits: Limits) -> Any:
    socket = context.socket(kind)
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = 10_000
    socket.maxmsgsize = max(limits.frame, limits.header)
    socket.heartbeat_ivl = _HEARTBEAT
    socket.heartbeat_timeout = _SILENCE
    socket.reconnect_ivl = -1  # a connection that is gone is another one's business
    return socket


def _send(socket: Any, frames: Sequence[Frame]) -> None:
    """Send a message; it is dropped where nobody is, or takes nothing more."""
    *first, last = frames
    with suppress(zmq.Again):
        for frame in first:
            socket.send(frame, _AT_ONCE_AND_MORE, copy=len(frame) <= _COPIED)
        socket.send(last, _AT_ONCE, copy=len(last) <= _COPIED)


@final
class _Port:
    """A socket with what tells of its connections.

    Attributes:
        socket: the socket.
        monitor: tells when a connection is gone.
    """

    def __init__(
        self, context: Any, kind: int, limits: Limits, events: int = zmq.EVENT_DISCONNECTED
    ) -> None:
        self.socket = _socket(context, kind, limits)
        self.monitor = self.socket.get_monitor_socket(events)

    def told(self) -> Iterator[int]:
        """What has happened to connections."""
        while self.monitor.getsockopt(_EVENTS) & _READABLE:
            yield int(recv_monitor_message(self.monitor)["event"])

    def closed(self) -> Iterator[int]:
        """The descriptors of connections that are gone."""
        while self.monitor.getsockopt(_EVENTS) & _READABLE:
            yield int(recv_monitor_message(self.monitor)["value"])

    def take(self) -> list[Any] | None:
        """The frames of a message; None if there is none."""
        try:
            return self.socket.recv_multipart(_AT_ONCE, copy=False)  # type: ignore[no-any-return]  # frames
        except zmq.Again:
            return None

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close()
        self.socket.close()


class AbstractSockets:
    """Sockets of one owner, and its bell."""

    def __init__(self, limits: Limits) -> None:
        self.bell: Final = Bell()
        self._limits = limits
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._poller.register(self.bell, zmq.POLLIN)
        self._ready: set[Any] = set()  # what has something, as of the last `wait`

    def _port(self, kind: int, events: int = zmq.EVENT_DISCONNECTED) -> _Port:
        port = _Port(self._context, kind, self._limits, events)
        self._poller.register(port.socket, zmq.POLLIN)
        self._poller.register(port.monitor, zmq.POLLIN)
        return port

    def _forget(self, port: _Port) -> None:
        self._poller.unregister(port.socket)
        self._poller.unregister(port.monitor)
        port.close()

    def wait(self, until: float) -> None:
        """Until something has come, the bell has rung, or that time."""
        left = until - monotonic()
        ready = self._poller.poll(None if left == inf else max(0, int(left * 1000 + 1)))
        self._ready = {one for one, _ in ready}
        if self.bell.fileno() in self._ready:
            self.bell.silence()


@final
class _Outgoing:
    """Sockets by which tasks are sent to; nothing comes back this way."""

    def __init__(self, context: Any, limits: Limits) -> None:
        self._context = context
        self._limits = limits
        self._sockets: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}

    def connect(self, task: str, where: str) -> None:
        """Make it possible to send; the connection is made when it is needed."""
        self.forget(task)
        self._addresses[task] = where

    def forget(self, task: str) -> None:
        self._addresses.pop(task, None)
        socket = self._sockets.pop(task, None)
        if socket is not None:
            socket.close()

    def send(self, task: str, frames: Sequence[Frame]) -> None:
        """Send a message; what cannot go is sent again by the channel."""
        socket = self._sockets.get(task)
        if socket is None and task in self._addresses:
            # who restarts the task tells its new address
            socket = self._sockets[task] = _socket(self._context, zmq.DEALER, self._limits)
            socket.connect(self._addresses[task])
        if socket is not None:
            _send(socket, frames)

    def close(self) -> None:
        for one in self._sockets.values():
            one.close()


@final
class ServerSockets(AbstractSockets):
    """Those of a task server.

    Args:
        folder: where it listens.
        task: its name.
        limits: on messages.
    """

    def __init__(self, folder: Path, task: str, limits: Limits) -> None:
        super().__init__(limits)
        self._folder = folder
        self._task = task
        self._ports = {role: self._port(zmq.ROUTER) for role in ("client", "task")}
        for role, port in self._ports.items():
            port.socket.bind(address(folder, task, role))
        self.tasks: Final = _Outgoing(self._context, limits)
        self._by_descriptor: dict[tuple[str, int], str] = {}
        self._roles: dict[str, str] = {}

    def watch(self, descriptor: int) -> None:
        """Wake at the end of a file as well."""
        self._poller.register(descriptor, zmq.POLLIN | zmq.POLLERR)

    def has_something(self, descriptor: int) -> bool:
        """Whether something has come by a file, or its end."""
        return descriptor in self._ready

    def receive(self) -> Iterator[Received]:
        """What has come."""
        for role, port in self._ports.items():
            if port.monitor in self._ready:
                yield from self._gone(role, port)
            for _ in range(_SHARE if port.socket in self._ready else 0):
                message = port.take()
                if message is None:
                    break
                who, *frames = message
                peer = who.bytes.hex()
                if peer not in self._roles:
                    # first what is gone: its descriptor may be that of this one now
                    yield from self._gone(role, port)
                    self._roles[peer] = role
                    self._by_descriptor[role, who.get(zmq.SRCFD)] = peer
                yield Received("frames", peer, role, [frame.buffer for frame in frames])

    def _gone(self, role: str, port: _Port) -> Iterator[Received]:
        for descriptor in port.closed():
            peer = self._by_descriptor.pop((role, descriptor), None)
            if peer is not None:
                del self._roles[peer]
                yield Received("closed", peer, role, [])

    def send(self, peer: str, frames: Sequence[Frame]) -> None:
        """To a connection; what cannot go is dropped, as the connection is gone or never reads."""
        role = self._roles.get(peer)
        if role is not None:
            _send(self._ports[role].socket, [bytes.fromhex(peer), *frames])

    def close(self) -> None:
        for port in self._ports.values():
            port.close()
        self.tasks.close()
        self.bell.close()
        self._context.term()
        for role in self._ports:
            Path(address(self._folder, self._task, role).removeprefix("ipc://")).unlink(True)


@final
class ClientSockets(AbstractSockets):
    """Those of a client, one for each task, and one where tasks bring what they send to it.

    A second connection to each task says nothing, and is given up and made again sooner: it tells
    whether the process answers. That is done by ZeroMQ's own thread, whatever Python does there.

    Args:
        folder: where it listens.
        name: its own, among the tasks.
        limits: on messages.
    """

    def __init__(self, folder: Path, name: str, limits: Limits) -> None:
        super().__init__(limits)
        self._tasks: dict[str, _Port] = {}
        self._probes: dict[str, _Port] = {}
        self.tasks: Final = _Outgoing(self._context, limits)
        self.address: Final = address(folder, name, "task")
        self._door = self._port(zmq.ROUTER)
        self._door.socket.bind(self.address)

    def connect(self, task: str, where: str) -> None:
        self.disconnect(task)
        port = self._tasks[task] = self._port(zmq.DEALER)
        port.socket.connect(where)
        probe = self._probes[task] = self._port(
            zmq.DEALER, zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED
        )
        probe.socket.heartbeat_timeout = _SUSPECTED
        probe.socket.reconnect_ivl = _HEARTBEAT
        probe.socket.connect(where)

    def disconnect(self, task: str) -> None:
        probe = self._probes.pop(task, None)
        if probe is not None:
            self._forget(probe)
        port = self._tasks.pop(task, None)
        if port is not None:
            self._forget(port)

    def receive(self) -> Iterator[Received]:
        """What has come."""
        yield from self._packets()
        for task, probe in list(self._probes.items()):
            if probe.monitor in self._ready:
                for event in probe.told():
                    silent = event == _DISCONNECTED
                    yield Received("silent" if silent else "heard", task, "task", [])
        for task, port in list(self._tasks.items()):
            for _ in range(_SHARE if port.socket in self._ready else 0):
                frames = port.take()
                if frames is None:
                    break
                yield Received("frames", task, "task", [frame.buffer for frame in frames])
                if self._tasks.get(task) is not port:
                    break
            if port.monitor in self._ready and self._tasks.get(task) is port:
                for _ in port.closed():
                    yield Received("closed", task, "task", [])
                    break

    def _packets(self) -> Iterator[Received]:
        """What tasks have brought."""
        if self._door.monitor in self._ready:
            for _ in self._door.closed():
                pass
        for _ in range(_SHARE if self._door.socket in self._ready else 0):
            frames = self._door.take()
            if frames is None:
                break
            yield Received("frames", "", "packet", [frame.buffer for frame in frames[1:]])

    def send(self, task: str, frames: Sequence[Frame]) -> None:
        port = self._tasks.get(task)
        if port is not None:
            _send(port.socket, frames)

    def close(self) -> None:
        for task in list(self._tasks):
            self.disconnect(task)
        self._door.close()
        self.tasks.close()
        self.bell.close()
        self._context.term()
        Path(self.address.removeprefix("ipc://")).unlink(True)
