"""Sockets of ZeroMQ, and what tells of their connections."""

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
# methods of the base class, and plain ints: what pyzmq wraps around them takes longer than they do
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
    """A socket.

    Args:
        context: that it belongs to.
        kind: of ZeroMQ.
        limits: on messages.
        credentials: of this process, where there are keys.
        domain: which door it is.
        server: the public key of the process that it connects to.
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
    socket.maxmsgsize = limits.header  # of one frame; anybody can send so much before a greeting
    socket.heartbeat_ivl = milliseconds(HEARTBEAT_SECONDS)
    socket.heartbeat_timeout = milliseconds(LOST_SECONDS)
    socket.reconnect_ivl = -1  # a connection that is gone is another one's business
    return socket


def milliseconds(seconds: float) -> int:
    """Seconds as ZeroMQ takes times."""
    return int(1000 * seconds)


def bind(socket: Any, address: str) -> str:
    """Listen; gives the address with the port that was free."""
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        raise ResourceError(f"nobody can listen at {address}: {error.strerror}") from None
    return str(socket.last_endpoint.decode().rstrip("\0"))


def unbind(address: str) -> None:
    """Remove what is left of an address where nobody listens any more."""
    if address.startswith("ipc://"):
        Path(address.removeprefix("ipc://")).unlink(missing_ok=True)


def is_readable(socket: Any) -> bool:
    """Whether there is something to take."""
    return bool(_get(socket, _EVENTS) & _READABLE)


def send(socket: Any, frames: Sequence[Frame]) -> None:
    """Send a message; it is dropped where nobody is, or takes nothing more."""
    *first, last = frames
    try:  # `suppress` would be three calls for each message
        for frame in first:
            _send(socket, frame, _AT_ONCE_AND_MORE, len(frame) <= _COPIED)
        _send(socket, last, _AT_ONCE, len(last) <= _COPIED)
    except zmq.Again:
        pass


@final
class Port:
    """A socket with what tells of its connections.

    Attributes:
        socket: the socket.
        monitor: tells when a connection is gone.
    """

    def __init__(self, socket: Any, events: int = zmq.EVENT_DISCONNECTED) -> None:
        self.socket = socket
        self.monitor = socket.get_monitor_socket(events)

    def told(self) -> Iterator[int]:
        """What has happened to connections."""
        while is_readable(self.monitor):
            yield int(recv_monitor_message(self.monitor)["event"])

    def closed(self) -> Iterator[int]:
        """The descriptors of connections that are gone."""
        while is_readable(self.monitor):
            yield int(recv_monitor_message(self.monitor)["value"])

    def take(self, *, told: bool = False) -> list[Any] | None:
        """The frames of a message; None if there is none.

        Args:
            told: whether its descriptor has told that there is one.
        """
        socket = self.socket
        if not told and not is_readable(socket):  # an exception that says so takes far longer
            return None
        try:
            frame = _receive(socket, _AT_ONCE, False)
        except zmq.Again:  # it was told of something else
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
