"""Sockets of ZeroMQ, and monitors of their connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, final

import zmq
from zmq.backend import Socket as _Socket
from zmq.utils.monitor import recv_monitor_message

from eagerflow.cluster.processes.keys import Credentials, Domain
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.timeouts import HEARTBEAT_SECONDS, LOST_SECONDS, PROOF_SECONDS
from eagerflow.cluster.protocol.values import Frame
from eagerflow.errors import ResourceError

#: frames of more bytes are not copied when they are sent
_COPIED: Final = 1 << 16
# methods of the base class, and plain ints: the wrappers of pyzmq take longer than the calls
_send: Final[Callable[..., Any]] = _Socket.send
_receive: Final[Callable[..., Any]] = _Socket.recv
_get: Final[Callable[..., Any]] = _Socket.get
_EVENTS: Final = int(zmq.EVENTS)
_READABLE: Final = int(zmq.POLLIN)
_AT_ONCE: Final = int(zmq.NOBLOCK)
_AT_ONCE_AND_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)


def new_socket(
    context: Any, kind: int, limits: Limits, credentials: Credentials | None = None, *,
    domain: Domain | None = None, server: str = "",
) -> Any:  # fmt: skip
    """A socket with this project's options.

    Args:
        context: the context that the socket belongs to.
        kind: the kind of socket, as a constant of ZeroMQ.
        limits: limits on messages.
        credentials: the credentials of this process, where there are keys.
        domain: the kind of door, if the socket is one.
        server: the public key of the process that the socket connects to.
    """
    socket = context.socket(kind)
    if credentials is not None:
        socket.curve_publickey = credentials.keys.public.encode()
        socket.curve_secretkey = credentials.keys.secret.encode()
        socket.handshake_ivl = milliseconds(PROOF_SECONDS)
        if domain is None:
            socket.curve_serverkey = server.encode()
        else:
            socket.curve_server = 1
            socket.zap_domain = domain.encode()
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = 10_000
    socket.maxmsgsize = limits.header  # of one frame; before a greeting any peer can send that much
    socket.heartbeat_ivl = milliseconds(HEARTBEAT_SECONDS)
    socket.heartbeat_timeout = milliseconds(LOST_SECONDS)
    socket.reconnect_ivl = -1  # not by ZeroMQ: the owner makes new connections
    return socket


def milliseconds(seconds: float) -> int:
    """Seconds in the unit of ZeroMQ's options."""
    return int(1000 * seconds)


def bind(socket: Any, address: str) -> str:
    """Listen at an address; gives the address, with the port that was free."""
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        raise ResourceError(f"cannot listen at {address}: {error.strerror}") from None
    return str(socket.last_endpoint.decode().rstrip("\0"))


def unbind(address: str) -> None:
    """Remove the file of an address at which no process listens any more."""
    if address.startswith("ipc://"):
        Path(address.removeprefix("ipc://")).unlink(missing_ok=True)


def is_readable(socket: Any) -> bool:
    """Whether a message can be taken."""
    return bool(_get(socket, _EVENTS) & _READABLE)


def send(socket: Any, frames: Sequence[Frame]) -> None:
    """Send a message; it is dropped if there is no peer, or its queue is full."""
    *first, last = frames
    try:  # `suppress` would be three calls for each message
        for frame in first:
            _send(socket, frame, _AT_ONCE_AND_MORE, len(frame) <= _COPIED)
        _send(socket, last, _AT_ONCE, len(last) <= _COPIED)
    except zmq.Again:
        pass


@final
class Port:
    """A socket with the monitor of its connections.

    Attributes:
        socket: the socket.
        monitor: readable after events of connections.
    """

    def __init__(self, socket: Any, events: int = zmq.EVENT_DISCONNECTED) -> None:
        self.socket = socket
        self.monitor = socket.get_monitor_socket(events)

    def told(self) -> Iterator[int]:
        """The events of connections since the last call."""
        while is_readable(self.monitor):
            yield int(recv_monitor_message(self.monitor)["event"])

    def closed(self) -> Iterator[int]:
        """The descriptors of connections that were closed since the last call."""
        while is_readable(self.monitor):
            yield int(recv_monitor_message(self.monitor)["value"])

    def take(self, *, told: bool = False) -> list[Any] | None:
        """The frames of the next message; None if there is none.

        Args:
            told: whether the socket's descriptor has announced a message.
        """
        socket = self.socket
        if not told and not is_readable(socket):  # an exception that says so takes far longer
            return None
        try:
            frame = _receive(socket, _AT_ONCE, False)
        except zmq.Again:  # the descriptor announced something else
            return None
        frames = [frame]
        while frame.more:
            frame = _receive(socket, _AT_ONCE, False)
            frames.append(frame)
        return frames

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close()
        self.socket.close()
