"""Sockets of servers and clients. One thread owns each object, and alone may call its methods.

A server has one address for clients and one for other tasks, so the address tells the role of a
peer. Addresses are files of a directory that only their user may enter, or ports; on ports every
connection is encrypted, and only keys on the allow-list are let in.
"""

from __future__ import annotations

import ctypes
import secrets
import select
from collections.abc import Callable, Iterator, Sequence
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple, final

import zmq

from eagerflow.cluster.processes.authentication import KEY, Authenticator
from eagerflow.cluster.processes.bell import Bell
from eagerflow.cluster.processes.keys import Credentials, Domain
from eagerflow.cluster.processes.listening import Doors
from eagerflow.cluster.processes.zmq_sockets import (
    Asked,
    Port,
    asked,
    bind,
    milliseconds,
    new_socket,
    poll,
    send,
    unbind,
)
from eagerflow.cluster.protocol.long_frames import SentFrame
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.timeouts import HEARTBEAT_SECONDS, SUSPECT_SECONDS
from eagerflow.cluster.protocol.values import Frame

#: limit of messages taken from one socket before the other sockets are served
_SHARE: Final = 100
_DESCRIPTOR: Final = int(zmq.FD)
_DISCONNECTED: Final = int(zmq.EVENT_DISCONNECTED)
#: events on a client's connection to a task, as kinds of `Received`
_TOLD: Final = {
    _DISCONNECTED: "closed",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "refused",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "refused",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "cut",
    int(zmq.EVENT_CLOSED): "unreached",
}
#: looks at many descriptors, a client's mostly: with ``epoll`` only those that are readable cost
#: time; and the unit of its timeout, which is rounded up
_NewPoll, _SECOND = (select.epoll, 1) if hasattr(select, "epoll") else (select.poll, 1000)
#: stands for the user of a connection whose key was revoked; no user has this name
_REVOKED: Final = "\0"
#: makes a named tuple; a call of its class is two calls more
_make: Final = tuple.__new__


@final
class Received(NamedTuple):
    """A message, or an event of a connection.

    Attributes:
        kind: ``"frames"``, ``"closed"``, ``"refused"``, ``"silent"`` or ``"heard"``; for a
            connection that could not be made, ``"cut"`` in its handshake, or ``"unreached"`` if no
            process listens there.
        peer: the sender: for a server a connection, for a client a task.
        role: the role of the sender.
        frames: the frames of the message.
        user: the user to whom the sender's key belongs; empty without keys.
    """

    kind: str
    peer: str
    role: str
    frames: list[Frame]
    user: str = ""


@final
class _PeerEnd(NamedTuple):
    """The other end of a connection.

    Attributes:
        role: the role of the peer.
        name: ZeroMQ's name of the connection.
    """

    role: Domain
    name: bytes


def _hide_names() -> None:
    """Make ZeroMQ's names of connections unpredictable.

    A connection may bring a name of its own. If the next connection without one would be given the
    same name, a ROUTER ends the process. ZeroMQ counts names from a value of the C library's
    ``rand``, which is not seeded.
    """
    ctypes.CDLL(None).srand(secrets.randbits(32))


def _untold(text: str) -> None:
    """Ignore a refusal at the door of a client, which has no log."""


class AbstractSockets:
    """Base class: the sockets of one owner, and its bell.

    Args:
        limits: limits on messages.
        credentials: the credentials of this process, where there are keys.
        log: called for connections that are refused.

    Attributes:
        bell: wakes the thread that owns the sockets.
        ready: readable sockets, monitors and watched descriptors, as of the last `wait`.
    """

    def __init__(
        self, limits: Limits, credentials: Credentials | None, log: Callable[[str], object]
    ) -> None:
        self.bell: Final = Bell()
        self._limits = limits
        self._credentials = credentials
        self._context = zmq.Context()
        self._poll: Any = _NewPoll()
        self._by_descriptor: dict[int, Any] = {}
        #: what `poll` takes for the sockets whose descriptors may miss a message (see `wait`)
        self._unsettled: set[Asked] = set()
        self.ready: set[Any] = set()
        self._watch(self.bell.fileno(), self.bell)
        self._authenticator: Authenticator | None = None
        if credentials is not None:
            self._authenticator = Authenticator(self._context, credentials.allowed, log)
            self._watch_socket(self._authenticator.socket)

    def _watch(self, descriptor: int, one: Any) -> None:
        self._poll.register(descriptor, select.POLLIN)
        self._by_descriptor[descriptor] = one

    def _watch_socket(self, socket: Any) -> None:
        self._watch(socket.getsockopt(_DESCRIPTOR), socket)
        self._unsettled.add(asked(socket))

    def _port(
        self, kind: int, events: int = zmq.EVENT_DISCONNECTED, *, domain: Domain | None = None,
        server: str = "",
    ) -> Port:  # fmt: skip
        socket = new_socket(
            self._context, kind, self._limits, self._credentials, domain=domain, server=server
        )
        port = Port(socket, events, self._limits)
        self._watch_socket(port.socket)
        self._watch_socket(port.monitor)
        return port

    def _listen(self, port: Port, address: str) -> str:
        """Listen at an address (see `bind`); a failure closes all that this object has opened."""
        try:
            return bind(port.socket, address)
        except BaseException:
            self._context.destroy()
            self._end()
            raise

    def _forget(self, port: Port) -> None:
        for one in (port.socket, port.monitor):
            descriptor = one.getsockopt(_DESCRIPTOR)
            self._poll.unregister(descriptor)
            del self._by_descriptor[descriptor]
            self._unsettled.discard(asked(one))
        port.close()

    def wait(self, until: float) -> None:
        """Wait until a message or an event has come, the bell has rung, or the time is over.

        The descriptor of a ZeroMQ socket announces changes, not messages that lie there, and any
        call on the socket may consume the announcement. So a socket that was sent on, or was not
        emptied, is asked itself; the others need no call. (``zmq.Poller`` asks all of them twice.)
        """
        ready: set[Any] = set()
        self.ready = ready
        if self._unsettled:
            for one, _ in poll(list(self._unsettled), 0):
                ready.add(one)
            self._unsettled.clear()
        left = 0.0 if ready else until - monotonic()
        told = self._poll.poll(None if left == inf else left * _SECOND if left > 0 else 0)
        for descriptor, _ in told:
            ready.add(self._by_descriptor[descriptor])
        if self.bell in ready:
            self.bell.silence()
        if self._authenticator is not None and self._authenticator.socket in ready:
            self._authenticator.answer()

    def _end(self) -> None:
        """Close what all subclasses have, after their own sockets."""
        if self._authenticator is not None:
            self._authenticator.close()
        if hasattr(self._poll, "close"):
            self._poll.close()
        self.bell.close()
        self._context.term()


@final
class _Outgoing:
    """One-way sockets to tasks; no message comes back by them."""

    def __init__(self, context: Any, limits: Limits, credentials: Credentials | None) -> None:
        self._context = context
        self._limits = limits
        self._credentials = credentials
        self._sockets: dict[str, Any] = {}
        self._doors: dict[str, Doors] = {}

    def connect(self, task: str, doors: Doors) -> None:
        """Allow messages to a task; the connection is made with the first message."""
        self.forget(task)
        self._doors[task] = doors

    def forget(self, task: str) -> None:
        self._doors.pop(task, None)
        socket = self._sockets.pop(task, None)
        if socket is not None:
            socket.close()

    def send(self, task: str, frames: Sequence[SentFrame]) -> None:
        """Send a message; the channel repeats a message that could not be sent."""
        socket = self._sockets.get(task)
        if socket is None and task in self._doors:
            # after a restart of the task, `connect` brings its new address
            doors = self._doors[task]
            socket = self._sockets[task] = new_socket(
                self._context, zmq.DEALER, self._limits, self._credentials, server=doors.key
            )
            # the channel repeats lost messages: both processes may have outlived the connection
            socket.reconnect_ivl = milliseconds(HEARTBEAT_SECONDS)
            socket.connect(doors.task)
        if socket is not None:
            send(socket, frames)

    def close(self) -> None:
        for one in self._sockets.values():
            one.close()


@final
class ServerSockets(AbstractSockets):
    """The sockets of a task server.

    Args:
        doors: the addresses at which it listens.
        limits: limits on messages.
        credentials: its key pair and allow-list, where there are keys.
        log: called for connections that are refused.

    Attributes:
        doors: the addresses at which it listens, with the ports that it has got.
    """

    def __init__(
        self, doors: Doors, limits: Limits, credentials: Credentials | None,
        log: Callable[[str], object],
    ) -> None:  # fmt: skip
        _hide_names()
        super().__init__(limits, credentials, log)
        domains: tuple[Domain, Domain] = "client", "task"
        self._ports: dict[Domain, Port] = {
            role: self._port(zmq.ROUTER, domain=role) for role in domains
        }
        self.doors: Final = Doors(
            self._listen(self._ports["client"], doors.client),
            self._listen(self._ports["task"], doors.task),
            "" if credentials is None else credentials.keys.public,
        )
        self.tasks: Final = _Outgoing(self._context, limits, credentials)
        #: by the descriptor of the connection. A closed connection may have had the same one: its
        #: last messages may be read after the first message of the new connection
        self._peers: dict[tuple[str, int], set[str]] = {}
        self._ends: dict[str, _PeerEnd] = {}
        self._names: dict[tuple[str, bytes], str] = {}
        self._users: dict[str, tuple[str, str]] = {}  # with the key
        self._looked = 0

    def watch(self, descriptor: int) -> None:
        """Wake at the end of a file, or at bytes in it, as well."""
        self._watch(descriptor, descriptor)

    def receive(self) -> Iterator[Received]:
        """The messages, and the events of connections, since the last call."""
        ready = self.ready
        for role, port in self._ports.items():
            if port.monitor in ready:
                yield from self._gone(role, port)
            if port.socket not in ready:
                continue
            for _ in range(_SHARE):  # a generator for the messages alone would be two calls more
                message = port.take()
                if message is None:
                    break
                name, first, frames = message
                if frames:
                    peer = self._names.get((role, name))
                    if peer is None:
                        # closed connections first: one may have had this descriptor
                        yield from self._gone(role, port)
                        peer = self._new_peer(role, name, first)
                    user = self._users[peer][0] if peer in self._users else ""
                    if user != _REVOKED:
                        yield _make(Received, ("frames", peer, role, frames, user))
                if not poll([port.asked], 0):
                    break
            else:
                self._unsettled.add(port.asked)
            if port.gone:
                yield from self._gone(role, port)

    def _new_peer(self, role: Domain, name: bytes, first: Any) -> str:
        """The name of a connection on its first message, of which ``first`` is the first frame."""
        end = _PeerEnd(role, name)
        peer = self._names[end] = f"{role} {end.name.hex()}"  # names are unique at one door
        self._ends[peer] = end
        self._peers.setdefault((role, int(first.get(zmq.SRCFD))), set()).add(peer)
        if self._credentials is not None:
            self._users[peer] = str(first.get("User-Id")), str(first.get(KEY))
        return peer

    def _gone(self, role: Domain, port: Port) -> Iterator[Received]:
        for descriptor in port.closed():
            for peer in self._peers.pop((role, descriptor), ()):
                del self._names[self._ends.pop(peer)]
                self._users.pop(peer, None)
                yield Received("closed", peer, role, [])

    def revoked(self) -> Iterator[Received]:
        """The connections whose keys were revoked; their later messages are dropped."""
        if self._credentials is None:
            return
        allowed = self._credentials.allowed
        looked, self._looked = self._looked, allowed.refresh()
        for peer, (user, key) in () if looked == self._looked else self._users.items():
            role = self._ends[peer].role
            if user != _REVOKED and allowed.user(role, key) != user:
                self._users[peer] = _REVOKED, key
                yield Received("refused", peer, role, [], user)

    def send(self, peer: str, frames: Sequence[SentFrame]) -> None:
        """Send to a connection; the message is dropped if the peer is gone or does not read."""
        end = self._ends.get(peer)
        if end is not None:
            port = self._ports[end.role]
            self._unsettled.add(port.asked)
            send(port.socket, [end.name, *frames])

    def close(self) -> None:
        for port in self._ports.values():
            port.close()
        self.tasks.close()
        self._end()
        unbind(self.doors.client)
        unbind(self.doors.task)


@final
class ClientSockets(AbstractSockets):
    """The sockets of a client: one for each task, and one at which tasks deliver packets.

    A second connection to each task carries no messages, and times out and reconnects sooner: it
    shows whether the process answers. ZeroMQ's own thread does that, whatever Python does in that
    process.

    Args:
        door: the address at which tasks deliver packets.
        limits: limits on messages.
        credentials: its key pair and allow-list, where there are keys.

    Attributes:
        doors: the address at which it listens, with the port that it has got.
    """

    def __init__(self, door: str, limits: Limits, credentials: Credentials | None) -> None:
        super().__init__(limits, credentials, _untold)
        self._tasks: dict[str, Port] = {}
        self._probes: dict[str, Port] = {}
        self._owners: dict[Any, str] = {}  # by socket or monitor, the task
        self.tasks: Final = _Outgoing(self._context, limits, credentials)
        self._door = self._port(zmq.ROUTER, domain="task")
        key = "" if credentials is None else credentials.keys.public
        self.doors: Final = Doors("", self._listen(self._door, door), key)

    def connect(self, task: str, doors: Doors) -> None:
        self.disconnect(task)
        port = self._tasks[task] = self._port(zmq.DEALER, sum(_TOLD), server=doors.key)
        port.socket.connect(doors.client)
        probe = self._probes[task] = self._port(
            zmq.DEALER, zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED, server=doors.key
        )
        probe.socket.heartbeat_timeout = milliseconds(SUSPECT_SECONDS)
        probe.socket.reconnect_ivl = milliseconds(HEARTBEAT_SECONDS)
        probe.socket.connect(doors.client)
        for one in (port.socket, port.monitor, probe.monitor):
            self._owners[one] = task

    def disconnect(self, task: str) -> None:
        for ports in (self._probes, self._tasks):
            port = ports.pop(task, None)
            if port is not None:
                self._owners.pop(port.socket, None)
                self._owners.pop(port.monitor)
                self._forget(port)

    def receive(self) -> Iterator[Received]:
        """The messages, and the events of connections, since the last call."""
        ready, owners = self.ready, self._owners
        if self._door.socket in ready or self._door.monitor in ready:
            yield from self._packets()
        for task in {owners[one] for one in ready if one in owners}:
            port = self._tasks.get(task)
            if port is None:
                continue
            if self._probes[task].monitor in ready:
                for event in self._probes[task].told():
                    kind = "silent" if event == _DISCONNECTED else "heard"
                    yield Received(kind, task, "task", [])
            if port.socket in ready:
                for _ in range(_SHARE):
                    message = port.take()
                    if message is None:
                        break
                    frames = message[2]
                    if frames:
                        yield _make(Received, ("frames", task, "task", frames, ""))
                    if self._tasks.get(task) is not port or not poll([port.asked], 0):
                        break  # the caller may have disconnected the task
                else:
                    self._unsettled.add(port.asked)
            if port.monitor in ready and self._tasks.get(task) is port:
                yield from self._of(task, port)

    def _of(self, task: str, port: Port) -> Iterator[Received]:
        """The next event of the connection to a task."""
        for event in port.told():
            self._unsettled.add(asked(port.monitor))  # there may be more
            kind = _TOLD[event]
            if kind in ("cut", "unreached"):  # this ends the connection, and is reported once
                self.disconnect(task)
            yield Received(kind, task, "task", [])
            return

    def _packets(self) -> Iterator[Received]:
        """The packets that tasks have delivered."""
        door = self._door
        if door.monitor in self.ready:
            for _ in door.closed():
                pass
        if door.socket not in self.ready:
            return
        for _ in range(_SHARE):
            message = door.take()
            if message is None:
                return
            _, first, frames = message
            if frames:
                user = "" if self._credentials is None else str(first.get("User-Id"))
                yield _make(Received, ("frames", "", "packet", frames, user))
            if not poll([door.asked], 0):
                return
        self._unsettled.add(door.asked)

    def send(self, task: str, frames: Sequence[SentFrame]) -> None:
        port = self._tasks.get(task)
        if port is not None:
            self._unsettled.add(port.asked)
            send(port.socket, frames)

    def close(self) -> None:
        for task in list(self._tasks):
            self.disconnect(task)
        self._door.close()
        self.tasks.close()
        self._end()
        unbind(self.doors.task)
