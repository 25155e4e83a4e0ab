"""Shared memory between processes of one host: long frames go in a *slab*, not over a socket.

A slab is a file without a name (``memfd_create``) with the long frames of one message. Its
descriptor goes over a Unix socket that lies beside the sockets of ZeroMQ; the message names the
slab. Each end checks that the other belongs to the same user. There are three kinds:

- A *kept* slab is used for one message after another. The receiver copies the frames out before
  anything looks at them, and says so (`kept_slabs`).
- A *fixed* slab has a value that is sent again and again. It is sealed as below, and tasks read it
  in place; clients copy.
- A slab of one message is sealed against shrinking, growing and writing, and mapped privately by
  the receiver, so the elements are copied once, by the sender. It takes what a kept slab does not.

An array that its owner may write into again has to be copied at once; the sender copies it into a
slab of its own (`WrittenSlab`), which is sent as it is.

A descriptor is open only until the slab is mapped. Descriptors in transit lie in the socket, which
takes a limited number; beyond that, and after any other failure, frames go by ZeroMQ.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from threading import Lock
from time import monotonic
from typing import Final, final

import numpy as np

from eagerflow.cluster.processes.listening import Doors
from eagerflow.cluster.processes.shared_memory.incoming_slabs import (
    COPIED,
    NAME,
    IncomingSlabs,
    is_ours,
)
from eagerflow.cluster.processes.shared_memory.kept_slabs import (
    IDLE_SECONDS,
    MOST,
    KeptSlab,
    KeptSlabs,
)
from eagerflow.cluster.processes.shared_memory.memory_files import (
    FIXED,
    IS_THERE,
    map_privately,
    new_file,
    seal,
    write,
)
from eagerflow.cluster.processes.shared_memory.repeated_frames import Place
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.long_frames import SentFrame
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.messages import AnyMessage, SlabMessage
from eagerflow.cluster.protocol.values import Frame, view_of

#: bytes from which on a frame goes in a slab
LONG: Final = 1 << 16
#: alignment of frames in a slab, as kernels like it
_ALIGNED: Final = 64
#: bytes from which on a borrowed array is written into a slab at once
BORROWED: Final = 1 << 20
#: limit on written slabs of one message that are not sent yet
_WRITTEN: Final = 64


def beside(doors: Doors) -> str | None:
    """The path of a process's socket for slabs, beside its doors; None where slabs do not work."""
    if not (IS_THERE and hasattr(socket, "SO_PEERCRED") and doors.task.startswith("ipc://")):
        return None
    return doors.task.removeprefix("ipc://").removesuffix(".task") + ".slabs"


@final
class WrittenSlab:
    """A slab with one frame, to be sent once; it takes the frame's place in a message.

    Args:
        frame: the data to write.
        kept: the kept slab to write into; None for a slab of one message.
        ended: called when the object is deleted, with the kept slab if that was not sent.

    Attributes:
        kept: the kept slab; None for a slab of one message, and after it was sent.
        descriptor: the descriptor of a slab of one message; else -1.

    Raises:
        OSError: there is no memory, or no descriptor.
    """

    __slots__ = ("_ended", "_size", "descriptor", "kept")

    def __init__(
        self, frame: Frame, kept: KeptSlab | None, ended: Callable[[KeptSlab | None], object]
    ) -> None:
        self._ended = ended
        self._size = len(frame)
        self.kept = kept
        self.descriptor = -1
        if kept is not None:
            kept.content.write([np.frombuffer(frame, np.uint8)], [(0, 0, self._size)], None)
            return
        self.descriptor = new_file()
        write(self.descriptor, view_of(frame), 0)
        seal(self.descriptor, FIXED)

    def __len__(self) -> int:
        return self._size

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self._ended(self.kept)

    def read(self) -> Frame:
        """The frame, to be sent by ZeroMQ."""
        if self.kept is not None:
            return self.kept.memory[: self._size].copy()  # the slab is written into again
        return map_privately(self.descriptor, self._size)


@final
class Slabs:
    """The slabs that one process sends and receives. The owner of the sockets owns it as well.

    Args:
        doors: the addresses at which the process listens.
        limits: limits on messages.
        log: called for connections that are refused.
        reads_in_place: whether received values that were sent before, and lie where nobody can
            change them, are read there. Their arrays are read-only.
        moves_variables: whether variables of this process may move into slabs.

    Attributes:
        sent: number of slabs sent, for tests.
        due: when `settle` is to be called.
    """

    def __init__(
        self, doors: Doors, limits: Limits, log: Callable[[str], object], *,
        reads_in_place: bool = False, moves_variables: bool = False,
    ) -> None:  # fmt: skip
        path = beside(doors)
        self._sends = path is not None
        self._incoming = IncomingSlabs(path, limits, log, reads_in_place)
        self._to: dict[str, socket.socket | None] = {}
        self._places: dict[str, str] = {}
        self._token = secrets.token_bytes(16)
        self._numbers = count(1)
        self._kept = KeptSlabs(self._numbers, self._hear_beside if moves_variables else None)
        self._ears = Lock()
        self._room: deque[None] = deque([None] * _WRITTEN)
        self.sent = 0
        self.due = inf

    # --- sending ---

    def connect(self, name: str, doors: Doors) -> None:
        """Allow slabs to a process."""
        self._places.pop(name, None)
        self._cut(name)
        path = beside(doors)
        if path is not None and self._sends:
            self._places[name] = path

    def forget(self, name: str) -> None:
        """Send no more slabs to a process that has gone; `settle` closes what it has left here."""
        self._places.pop(name, None)
        self._cut(name)
        self.due = min(self.due, monotonic() + IDLE_SECONDS)

    def reaches(self, name: str) -> bool:
        """Whether slabs are sent to a process."""
        return name in self._places

    def write(self, name: str, frame: Frame) -> WrittenSlab | None:
        """Write a frame into a slab that is going to be sent; from any thread.

        Args:
            name: the receiver.
            frame: data that its owner may write into again afterwards.

        Returns:
            The slab; None if the frame has to be copied.
        """
        if name not in self._places or len(frame) < BORROWED:
            return None
        kept = self._kept.take(name, len(frame))
        if kept is not None:
            return WrittenSlab(frame, kept, self._unwritten)
        try:
            self._room.pop()
        except IndexError:  # the limit is reached
            return None
        try:
            return WrittenSlab(frame, None, lambda _: self._room.append(None))
        except OSError:
            return None

    def _unwritten(self, kept: KeptSlab | None) -> None:
        if kept is not None:
            self._kept.give_back(kept)

    def put(
        self, name: str, frames: Sequence[Frame | WrittenSlab]
    ) -> tuple[SlabMessage, list[Frame]] | None:
        """Send the long ones of some frames in a slab.

        Args:
            name: the receiver.
            frames: the frames of a message after the header.

        Returns:
            The message that says where the frames lie in the slab, and all frames, the sent ones
            empty; None if all frames have to go by ZeroMQ.
        """
        if name not in self._places:
            return None
        long = [i for i, frame in enumerate(frames) if len(frame) >= LONG]
        if not long:
            return None
        try:
            to = self._connection(name)
            self._hear(name, to)
            head = self._put_kept(name, to, frames, long) or self._put_once(to, frames, long)
        except ConnectionError:
            self._cut(name)
            return None
        except OSError:  # the socket is full, or there is no memory
            return None
        self.sent += 1
        return head, [b"" if len(frame) >= LONG else _frame(frame) for frame in frames]

    def _connection(self, name: str) -> socket.socket:
        known = self._to.get(name)
        if known is None:
            if name in self._to:
                raise OSError(errno.EPERM, "the socket is another user's")
            known = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            known.setblocking(False)
            try:
                known.connect(self._places[name])
                if not is_ours(known):
                    self._to[name] = None
                    raise OSError(errno.EPERM, "the socket is another user's")
            except OSError:
                known.close()
                raise
            self._to[name] = known
        return known

    def _hear(self, name: str, to: socket.socket) -> None:
        """Take the numbers of kept slabs whose bytes a receiver has copied."""
        with self._ears:
            self._take_answers(name, to)

    def _hear_beside(self, name: str) -> None:
        """`_hear` of another thread than the one that sends, which notes broken connections."""
        if self._ears.acquire(blocking=False):
            try:
                to = self._to.get(name)
                if to is not None:
                    with suppress(OSError):
                        self._take_answers(name, to)
            finally:
                self._ears.release()

    def _take_answers(self, name: str, to: socket.socket) -> None:
        for _ in range(2 * MOST):  # one for each slab; more come from a receiver that floods us
            try:
                data = to.recv(COPIED.size + 1, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if len(data) != COPIED.size:
                raise ConnectionAbortedError("the process at the other end is gone")
            self._kept.copied(name, *COPIED.unpack(data))
        raise ConnectionAbortedError("the process at the other end answers without end")

    def _cut(self, name: str) -> None:
        """Let go of a connection that has ended, and of what is kept for its receiver.

        No slab in flight comes back by it. The next message makes a new connection.
        """
        known = self._to.pop(name, None)
        if known is not None:
            with self._ears:  # no other thread reads a descriptor that is another one's by then
                known.close()
        self._kept.forget(name)

    def _tell_dropped(self, name: str, to: socket.socket) -> None:
        """Let a receiver let go of the kept slabs that were dropped."""
        dropped = self._kept.dropped(name)
        while dropped:
            to.send(NAME.pack(self._token, dropped[0]), socket.MSG_DONTWAIT)
            dropped.popleft()

    def _put_kept(
        self, name: str, to: socket.socket, frames: Sequence[Frame | WrittenSlab],
        long: Sequence[int],
    ) -> SlabMessage | None:  # fmt: skip
        """Send frames in a kept slab; None if there is none for them."""
        only = frames[long[0]]
        places, size = _layout(frames, long)
        written = only if isinstance(only, WrittenSlab) and len(long) == 1 else None
        if written is not None and written.descriptor >= 0:
            return None
        slab = None if written is None else written.kept
        if slab is None or not self._kept.is_sendable(slab):
            written, whole = None, [_frame(frames[i]) for i in long]
            slab = self._kept.write(name, whole, places, size)
            if slab is None:
                return None
        try:
            if slab.descriptor >= 0:
                self._tell_dropped(name, to)  # first: a receiver counts the slabs that it has
                self._pass_on(to, slab.number, slab.descriptor)
                slab.close_file()
        except OSError:
            if written is None:
                self._kept.give_back(slab)
            raise
        if written is not None:
            written.kept = None
        self._kept.sent(slab)
        self.due = min(self.due, monotonic() + IDLE_SECONDS)
        return SlabMessage(0, self._token.hex(), slab.number, slab.size, tuple(places), slab.use)

    def _put_once(
        self, to: socket.socket, frames: Sequence[Frame | WrittenSlab], long: Sequence[int]
    ) -> SlabMessage:
        """Send frames in a slab of their own."""
        only, number = frames[long[0]], next(self._numbers)
        places, size = _layout(frames, long)
        if isinstance(only, WrittenSlab) and only.descriptor >= 0 and len(long) == 1:
            self._pass_on(to, number, only.descriptor)
        else:
            slab = new_file()
            try:
                for i, start, _ in places:
                    write(slab, view_of(_frame(frames[i])), start)
                seal(slab, FIXED)
                self._pass_on(to, number, slab)
            finally:
                os.close(slab)
        return SlabMessage(0, self._token.hex(), number, size, tuple(places))

    def _pass_on(self, to: socket.socket, number: int, slab: int) -> None:
        rights = array("i", [slab])
        to.sendmsg(
            [NAME.pack(self._token, number)],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_DONTWAIT,
        )  # fmt: skip

    # --- receiving ---

    def take(self, head: SlabMessage, frames: Sequence[Frame]) -> list[Frame]:
        """The frames of a message, including those that lie in a slab.

        Raises:
            ProtocolError: there is no such slab, or it does not match the message.
        """
        if head.use:
            self.due = min(self.due, monotonic() + IDLE_SECONDS)
        return self._incoming.take(head, frames)

    # --- both ---

    def settle(self, now: float) -> None:
        """Let go of kept slabs that are not used any more."""
        connected = [(name, to) for name, to in self._to.items() if to is not None]
        for name, to in connected:
            try:
                self._hear(name, to)
            except OSError:
                self._cut(name)
        self._kept.idle(now)
        for name, to in connected:
            with suppress(OSError):  # its socket is full, or it was cut
                self._tell_dropped(name, to)
        self._incoming.settle()
        busy = self._kept.held or self._incoming.keeps
        self.due = now + IDLE_SECONDS if busy else inf

    def close(self) -> None:
        for name in list(self._places):
            self.forget(name)
        self._incoming.close()


def _layout(frames: Sequence[Frame | WrittenSlab], long: Sequence[int]) -> tuple[list[Place], int]:
    """The places of long frames in a slab, and its size."""
    places, end = [], 0
    for i in long:
        start = -(-end // _ALIGNED) * _ALIGNED
        end = start + len(frames[i])
        places.append((i, start, len(frames[i])))
    return places, end


def _frame(frame: Frame | WrittenSlab) -> Frame:
    return frame.read() if isinstance(frame, WrittenSlab) else frame


# --- messages ---


def framed(
    slabs: Slabs,
    name: str | None,
    message: AnyMessage,
    frames: Sequence[SentFrame | WrittenSlab],
) -> list[SentFrame]:
    """A message as frames for a process; long frames go in a slab where possible."""
    if not frames or max(map(len, frames)) < LONG:  # the usual case
        return [codec.encode(message), *frames]  # type: ignore[list-item]  # no written slab
    if name is not None:
        header = codec.short_header(message)
        held = None
        if header is not None:
            held = slabs.put(name, frames)  # type: ignore[arg-type]  # none went ahead, by ports
        if header is not None and held is not None:
            return [*codec.write_in_slab(held[0], header, held[1])]
    return codec.write(message, [f.read() if isinstance(f, WrittenSlab) else f for f in frames])


def unframed(
    slabs: Slabs, frames: Sequence[Frame], limits: Limits
) -> tuple[AnyMessage, list[Frame]]:
    """A received message and its frames.

    Raises:
        ProtocolError: the frames are no message.
    """
    message, rest = codec.read(frames, limits)
    if type(message) is SlabMessage:
        return unslabbed(slabs, message, rest, limits)
    return message, rest


def unslabbed(
    slabs: Slabs, slab: SlabMessage, rest: Sequence[Frame], limits: Limits
) -> tuple[AnyMessage, list[Frame]]:
    """The message whose long frames lie in a slab, and its frames.

    Raises:
        ProtocolError: as for `unframed`.
    """
    return codec.read_in_slab(rest, partial(slabs.take, slab), limits)
