"""Sockets of ZeroMQ, and monitors of their connections."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, final

import zmq
from zmq.backend import Socket as _Socket
from zmq.backend import zmq_poll
from zmq.utils.monitor import recv_monitor_message

from eagerflow.cluster.processes.keys import Credentials, Domain
from eagerflow.cluster.protocol.long_frames import PIECE, LongFrames, SentFrame, split
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.timeouts import HEARTBEAT_SECONDS, LOST_SECONDS, PROOF_SECONDS
from eagerflow.cluster.protocol.values import Frame
from eagerflow.errors import ResourceError

#: frames of more bytes are not copied when they are sent
_COPIED: Final = 1 << 16
#: number of closed connections whose last pieces are dropped
_REMEMBERED: Final = 1_000
# methods of the base class, and plain ints: the wrappers of pyzmq take longer than the calls
_send: Final[Callable[..., Any]] = _Socket.send
_receive: Final[Callable[..., Any]] = _Socket.recv
#: a socket with what it is asked for
Asked = tuple[Any, int]
#: gives those of some sockets of which a message can be taken, each with a number
poll: Final[Callable[[list[Asked], int], list[tuple[Any, int]]]] = zmq_poll
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
    socket.rcvhwm = 10_000
    socket.sndhwm = 100_000  # each piece of a long frame counts
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


def asked(socket: Any) -> Asked:
    """What `poll` takes, to say whether a message lies at a socket."""
    return socket, _READABLE


def send(socket: Any, frames: Sequence[SentFrame], in_pieces: bool = False) -> None:
    """Send a message; it is dropped if there is no peer, or its queue is full.

    Args:
        socket: the socket.
        frames: the frames of the message.
        in_pieces: whether the long frames went ahead; a header may still be longer than a piece.
    """
    longest = max(map(len, frames))
    if longest > PIECE and not in_pieces:
        _send_in_pieces(socket, frames)
        return
    *others, last = frames
    try:  # `suppress` would be three calls for each message
        if longest <= _COPIED:  # the usual case
            for frame in others:
                _send(socket, frame, _AT_ONCE_AND_MORE, True)
            _send(socket, last, _AT_ONCE, True)
            return
        for frame in others:
            _send(socket, frame, _AT_ONCE_AND_MORE, len(frame) <= _COPIED)
        _send(socket, last, _AT_ONCE, len(last) <= _COPIED)
    except zmq.Again:
        pass


def _send_in_pieces(socket: Any, frames: Sequence[SentFrame]) -> None:
    """Send a message with long frames; without one of its pieces the receiver drops it."""
    named = socket.type == zmq.ROUTER
    for message in split(frames[1:] if named else frames):
        send(socket, [*frames[:1], *message] if named else message, in_pieces=True)


@final
class Port:
    """A socket with the monitor of its connections.

    Attributes:
        socket: the socket.
        monitor: readable after events of connections.
        asked: what `poll` takes, to say whether a message lies there.
        gone: descriptors of closed connections that `closed` has not given yet.
    """

    __slots__ = ("_ask_monitor", "_closed", "_long", "_names", "_origins", "asked", "gone",
                 "monitor", "socket")  # fmt: skip

    def __init__(
        self, socket: Any, events: int = zmq.EVENT_DISCONNECTED, limits: Limits = LIMITS
    ) -> None:
        self.socket = socket
        self.monitor = socket.get_monitor_socket(events)
        self._names = socket.type == zmq.ROUTER
        self.asked = asked(socket)
        self._ask_monitor = [asked(self.monitor)]
        self._long = LongFrames(limits)
        #: by the descriptor of a connection that long frames came by, the names. A closed
        #: connection may have had the same one: its last pieces are read after it was closed
        self._origins: dict[int, set[bytes]] = {}
        self._closed: OrderedDict[bytes, None] = OrderedDict()
        self.gone: list[int] = []

    def told(self) -> Iterator[int]:
        """The events of connections since the last call."""
        while poll(self._ask_monitor, 0):
            yield int(recv_monitor_message(self.monitor)["event"])

    def closed(self) -> Iterator[int]:
        """The descriptors of connections that were closed since the last call."""
        self._note_closed()
        while self.gone:
            yield self.gone.pop(0)

    def _note_closed(self) -> None:
        while poll(self._ask_monitor, 0):
            descriptor = int(recv_monitor_message(self.monitor)["value"])
            self.gone.append(descriptor)
            for name in self._origins.pop(descriptor, ()):
                self._long.forget(name)
                self._closed[name] = None
                if len(self._closed) > _REMEMBERED:
                    self._closed.popitem(last=False)

    def take(self) -> tuple[bytes, Any, list[Frame]] | None:
        """The next message, which `poll` or the socket's descriptor has announced.

        Returns:
            The name of the sender, empty where senders have none; the first frame as ZeroMQ's
            object, which knows of the connection; and the frames, of which a piece of a long frame
            has none. None if there is no message.
        """
        socket = self.socket
        name = b""
        try:
            if self._names:
                name = _receive(socket, _AT_ONCE)  # a frame of its own always follows
            first = frame = _receive(socket, _AT_ONCE, False)
        except zmq.Again:  # the descriptor announced something else
            return None
        frames: list[Frame] = [frame.buffer]
        while frame.more:
            frame = _receive(socket, _AT_ONCE, False)
            frames.append(frame.buffer)
        if not len(frames[0]):
            frames = self._in_pieces(name, first, frames)
        return name, first, frames

    def _in_pieces(self, name: bytes, first: Any, frames: list[Frame]) -> list[Frame]:
        """A message with long frames, put together; none for a piece."""
        if self._names:
            descriptor = int(first.get(zmq.SRCFD))
            if name not in self._origins.get(descriptor, ()):
                self._note_closed()  # first: a closed connection may have had this descriptor
                if name in self._closed:  # nothing that it has not finished is going to be
                    return []
                self._origins.setdefault(descriptor, set()).add(name)
        whole = self._long.take(name, frames)
        if whole is None:
            return []
        return whole or [b""]  # a malformed message

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close()
        self.socket.close()
