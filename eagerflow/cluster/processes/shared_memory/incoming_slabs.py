"""The receiving end of slabs: the connections that bring them, and checks before they are used.

Slabs are taken when a message names them, not when they come: no poller has to know of them, and
what is not asked for lies in the socket, which takes a limited number.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

import numpy as np

from eagerflow.cluster.processes.shared_memory.kept_slabs import KEPT, MOST
from eagerflow.cluster.processes.shared_memory.memory_files import (
    FIXED,
    KEPT_SEALS,
    Bytes,
    check,
    map_privately,
    map_to_read,
)
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.messages import SlabMessage
from eagerflow.cluster.protocol.values import Frame
from eagerflow.errors import ProtocolError

#: a packet from the sender of slabs: its token, and the number of a slab
NAME: Final = struct.Struct("<16sQ")
#: a packet to the sender of a kept slab: its number, and the number of its use
COPIED: Final = struct.Struct("<QQ")
#: limit on slabs of a connection that no message has named yet; the oldest are closed
_PENDING: Final = 256
_CONNECTIONS: Final = 1_000
_PEER: Final = struct.Struct("3i")


def is_ours(one: socket.socket) -> bool:
    """Whether the process at the other end is of this user."""
    _, user, _ = _PEER.unpack(one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user == os.getuid())


@final
class _MappedSlab:
    """A kept slab of another process.

    Args:
        memory: its bytes.
        is_fixed: whether nobody can change them.

    Attributes:
        memory: the same.
        is_fixed: the same.
        use: the number of its last use.
    """

    __slots__ = ("is_fixed", "memory", "use")

    def __init__(self, memory: Bytes, is_fixed: bool) -> None:
        self.memory = memory
        self.is_fixed = is_fixed
        self.use = 0


@final
class _Bringer:
    """A connection that slabs come by.

    Args:
        one: its socket.
        reads_in_place: whether frames in fixed slabs are read there.

    Attributes:
        token: the token of the sending process; None before the first slab.
        kept: the kept slabs that were named, by number.
        has_ended: whether no more slabs come.
    """

    def __init__(self, one: socket.socket, reads_in_place: bool) -> None:
        self._socket = one
        self._reads_in_place = reads_in_place
        self._pending: dict[int, int] = {}
        self.kept: dict[int, _MappedSlab] = {}
        self.token: bytes | None = None
        self.has_ended = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_room(self) -> bool:
        """Whether the next slab pushes out none whose message may still come."""
        return len(self._pending) < _PENDING

    def take(self, number: int) -> int | None:
        """The descriptor of a slab, which was sent before the message that names it."""
        while number not in self._pending and self.receive():
            pass
        return self._pending.pop(number, None)

    def frames(self, head: SlabMessage) -> list[Bytes] | None:
        """The frames of a message in a kept slab; None if there is no such slab.

        They are copies, or read-only views of a slab that nobody can change.

        Raises:
            ProtocolError: it is not sealed, has another size, or is one too many.
        """
        slab = self.kept.get(head.slab)
        if slab is None:
            slab = self._keep(head)
        if slab is None or head.use <= slab.use:  # a message that was repeated
            return None
        if len(slab.memory) != head.size:
            raise ProtocolError(
                "a slab has another size than its message says",
                given=f"{len(slab.memory)} bytes", expected=f"{head.size}",
            )  # fmt: skip
        slab.use = head.use
        frames = [slab.memory[start : start + size] for _, start, size in head.places]
        if not (slab.is_fixed and self._reads_in_place):
            frames = list(map(_copied, frames))
        with suppress(OSError):  # the sender has gone, or does not read: its loss
            self._socket.send(COPIED.pack(head.slab, head.use), socket.MSG_DONTWAIT)
        return frames

    def _keep(self, head: SlabMessage) -> _MappedSlab | None:
        file = self.take(head.slab)
        if file is None:
            return None
        try:
            is_fixed = check(file, head.size, KEPT_SEALS, KEPT)
            if len(self.kept) >= MOST:
                raise ProtocolError("too many kept slabs", expected=f"at most {MOST}")
            memory = map_to_read(file, head.size, is_fixed)
            made = self.kept[head.slab] = _MappedSlab(memory, is_fixed)
        finally:
            os.close(file)
        return made

    def receive(self) -> bool:
        """Receive the next packet; whether there was one."""
        if self.has_ended:
            return False
        try:
            data, rights, flags, _ = self._socket.recvmsg(
                NAME.size + 1, socket.CMSG_SPACE(4), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except OSError:
            data, rights, flags = b"", [], 0
        slabs = array("i")
        for level, kind, content in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                slabs.frombytes(content[: len(content) // 4 * 4])
        token, number = NAME.unpack(data) if len(data) == NAME.size else (None, 0)
        if token is None or flags & socket.MSG_CTRUNC or (self.token or token) != token:
            fits = False
        elif slabs:
            fits = len(slabs) == 1 and number not in self._pending and number not in self.kept
        else:
            fits = self._drop(number)
        if not fits:
            for slab in slabs:
                os.close(slab)
            self.has_ended = True  # or it does not speak this protocol
            return False
        self.token = token
        if slabs:
            self._pending[number] = slabs[0]
        if len(self._pending) > _PENDING:
            os.close(self._pending.pop(next(iter(self._pending))))
        return True

    def _drop(self, number: int) -> bool:
        """Let go of a kept slab that its sender has dropped; whether there was one."""
        waiting = self._pending.pop(number, None)
        if waiting is not None:
            os.close(waiting)
        return self.kept.pop(number, None) is not None or waiting is not None

    def close(self) -> None:
        self._socket.close()
        for slab in self._pending.values():
            os.close(slab)
        self._pending.clear()
        self.kept.clear()
        self.has_ended = True


@final
class IncomingSlabs:
    """The slabs that one process receives.

    Args:
        path: the path of its socket for slabs; None where it gets none.
        limits: limits on messages.
        log: called for connections that are refused.
        reads_in_place: whether values in fixed slabs are read-only views of them, not copies.
    """

    def __init__(
        self, path: str | None, limits: Limits, log: Callable[[str], object],
        reads_in_place: bool,
    ) -> None:  # fmt: skip
        self._limits = limits
        self._reads_in_place = reads_in_place
        self._log = log
        self._path = path
        self._listener: socket.socket | None = None
        if path is not None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listener.setblocking(False)
            Path(path).unlink(missing_ok=True)  # left by a process that was killed
            self._listener.bind(path)
            self._listener.listen(_CONNECTIONS)
        self._new: list[_Bringer] = []
        self._from: dict[bytes, _Bringer] = {}

    @property
    def keeps(self) -> bool:
        """Whether kept slabs of other processes are mapped."""
        return any(bringer.kept for bringer in self._from.values())

    def take(self, head: SlabMessage, frames: Sequence[Frame]) -> list[Frame]:
        """The frames of a message, including those that lie in a slab.

        Raises:
            ProtocolError: there is no such slab, or it does not match the message.
        """
        try:
            token = bytes.fromhex(head.token)
        except ValueError:
            raise ProtocolError("a slab with a malformed token") from None
        _check_places(head, frames)
        taken = list(frames)
        for (i, _, _), frame in zip(head.places, self._frames(token, head), strict=True):
            taken[i] = frame
        return taken

    def _frames(self, token: bytes, head: SlabMessage) -> list[Bytes]:
        """The frames in a slab: copies, or views of one that nobody changes any more."""
        for bringer in self._bringers(token):
            if head.use:
                frames = bringer.frames(head)
                if frames is not None:
                    return frames
                continue
            slab = bringer.take(head.slab)
            if slab is not None:
                try:
                    check(slab, head.size, FIXED, self._limits.frame)
                    whole = map_privately(slab, head.size)
                finally:
                    os.close(slab)
                return [whole[start : start + size] for _, start, size in head.places]
        raise ProtocolError("there is no such slab", given=str(head.slab))

    def _bringers(self, token: bytes) -> Iterator[_Bringer]:
        """The connection of a process, and then, if that has ended, its next one."""
        known = self._from.get(token)
        if known is not None:
            yield known
        if known is None or known.has_ended:
            new = self._accept(token)
            if new is not None:
                yield new

    def _accept(self, token: bytes) -> _Bringer | None:
        """The connection of a process that has not sent a slab so far."""
        self._forget_ended()
        self._accept_all()
        for bringer in list(self._new):
            bringer.receive()
            if bringer.token is None and not bringer.has_ended:
                continue  # it writes its first slab: it connects before
            self._new.remove(bringer)
            if bringer.token is not None and bringer.token not in self._from:
                self._from[bringer.token] = bringer
            else:
                bringer.close()
        return self._from.get(token)

    def _accept_all(self) -> None:
        while self._listener is not None:
            try:
                one, _ = self._listener.accept()
            except OSError:
                break
            one.setblocking(False)
            if is_ours(one) and len(self._new) + len(self._from) < _CONNECTIONS:
                self._new.append(_Bringer(one, self._reads_in_place))
            else:
                self._log("refused a connection for slabs: of another user, or too many")
                one.close()

    def _forget_ended(self) -> None:
        poller = select.poll()
        every = {b.fileno(): b for b in (*self._new, *self._from.values()) if not b.has_ended}
        for descriptor in every:
            poller.register(descriptor, 0)  # reports a closed connection, nothing else
        for descriptor, _ in poller.poll(0):
            every[descriptor].has_ended = True
        for bringer in (*self._new, *self._from.values()):
            if bringer.has_ended:
                bringer.close()
        self._new = [bringer for bringer in self._new if not bringer.has_ended]
        self._from = {token: b for token, b in self._from.items() if not b.has_ended}

    def settle(self) -> None:
        """Let go of kept slabs that their senders have dropped, and of all slabs of dead senders.

        A sender may have died before its first message.
        """
        self._accept_all()
        for bringer in self._from.values():
            while bringer.kept and bringer.has_room and bringer.receive():
                pass
        self._forget_ended()

    def close(self) -> None:
        for bringer in (*self._new, *self._from.values()):
            bringer.close()
        self._new.clear()
        self._from.clear()
        if self._listener is not None:
            self._listener.close()
            assert self._path is not None
            with suppress(OSError):
                Path(self._path).unlink()


def _check_places(head: SlabMessage, frames: Sequence[Frame]) -> None:
    last, end = -1, 0
    for i, start, size in head.places:
        if not (last < i < len(frames) and end <= start and start + size <= head.size):
            raise ProtocolError("the places of frames in a slab do not fit", given=str(head.places))
        if len(frames[i]):
            raise ProtocolError(
                "a frame is both in a message and in its slab", given=str(head.places)
            )
        last, end = i, start + size


def _copied(source: Bytes) -> Bytes:
    made = np.empty(len(source), np.uint8)
    made[:] = source
    return made
