"""Shared memory between processes of one host: long frames go in a *slab*, not over a socket.

A slab is a file without a name (``memfd_create``) with the long frames of one message. It is sealed
against shrinking, growing and writing, and its descriptor goes over a Unix socket that lies beside
the sockets of ZeroMQ; the message names the slab. The receiver maps it privately, so the elements
are copied once, by the sender. Each end checks that the other belongs to the same user.

An array that its owner may write into again has to be copied at once; the sender copies it into a
slab of its own (`WrittenSlab`), which is sent as it is.

A descriptor is open only until the slab is mapped. Descriptors in transit lie in the socket, which
takes a limited number; beyond that, and after any other failure, frames go by ZeroMQ.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import secrets
import select
import socket
import struct
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, final
from weakref import finalize

import numpy as np

from eagerflow.cluster.processes.listening import Doors
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import AnyMessage, SlabMessage
from eagerflow.cluster.protocol.values import Frame, view_of
from eagerflow.errors import ProtocolError

#: bytes from which on a frame goes in a slab
LONG: Final = 1 << 16
#: alignment of frames in a slab, as kernels like it
_ALIGNED: Final = 64
#: bytes from which on a borrowed array is written into a slab at once
BORROWED: Final = 1 << 20
#: limit on written slabs that are not sent yet
_WRITTEN: Final = 64
#: limit on slabs of a connection that no message has named yet; the oldest are closed
_PENDING: Final = 256
_CONNECTIONS: Final = 1_000
_NAME: Final = struct.Struct("<16sQ")
_PEER: Final = struct.Struct("3i")
_IS_THERE: Final = hasattr(os, "memfd_create") and hasattr(socket, "SO_PEERCRED")
#: <linux/fcntl.h>; Python names them from 3.13 on
_ADD_SEALS: Final = getattr(fcntl, "F_ADD_SEALS", 1033)
_GET_SEALS: Final = getattr(fcntl, "F_GET_SEALS", 1034)
_SEALS: Final = 0x1 | 0x2 | 0x4 | 0x8  # no more seals, no shrinking, growing, writing
_NEEDED: Final = 0x2 | 0x4 | 0x8


def beside(doors: Doors) -> str | None:
    """The path of a process's socket for slabs, beside its doors; None where slabs do not work."""
    if not _IS_THERE or not doors.task.startswith("ipc://"):
        return None
    return doors.task.removeprefix("ipc://").removesuffix(".task") + ".slabs"


@final
class WrittenSlab:
    """A slab with one frame, not sent yet; it takes the frame's place in a message.

    Args:
        frame: the data to write.
        ended: called when the slab is deleted.

    Attributes:
        descriptor: the descriptor of the slab.

    Raises:
        OSError: there is no memory, or no descriptor.
    """

    __slots__ = ("_ended", "_size", "descriptor")

    def __init__(self, frame: Frame, ended: Callable[[], object]) -> None:
        self._ended = ended
        self._size = len(frame)
        self.descriptor = -1
        self.descriptor = _new_slab()
        _write(self.descriptor, view_of(frame), 0)
        fcntl.fcntl(self.descriptor, _ADD_SEALS, _SEALS)

    def __len__(self) -> int:
        return self._size

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self._ended()

    def read(self) -> Frame:
        """The frame, to be sent by ZeroMQ."""
        return _mapped(self.descriptor, self._size, LIMITS)


@final
class _Bringer:
    """A connection that slabs come by. A slab is taken when a message names it, not before.

    Attributes:
        token: the token of the sending process; None before the first slab.
        has_ended: whether no more slabs come.
    """

    def __init__(self, one: socket.socket) -> None:
        self._socket = one
        self._pending: dict[int, int] = {}
        self.token: bytes | None = None
        self.has_ended = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def take(self, number: int) -> int | None:
        """The descriptor of a slab, which was sent before the message that names it."""
        while number not in self._pending and self.receive():
            pass
        return self._pending.pop(number, None)

    def receive(self) -> bool:
        """Receive the next descriptor; whether there was one."""
        if self.has_ended:
            return False
        try:
            data, rights, flags, _ = self._socket.recvmsg(
                _NAME.size + 1, socket.CMSG_SPACE(4), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except OSError:
            data, rights, flags = b"", [], 0
        slabs = array("i")
        for level, kind, content in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                slabs.frombytes(content[: len(content) // 4 * 4])
        fits = len(data) == _NAME.size and len(slabs) == 1 and not flags & socket.MSG_CTRUNC
        token, number = _NAME.unpack(data) if fits else (None, 0)
        if not fits or (self.token or token) != token or number in self._pending:
            for slab in slabs:
                os.close(slab)
            self.has_ended = True  # or it does not speak this protocol
            return False
        self.token = token
        self._pending[number] = slabs[0]
        if len(self._pending) > _PENDING:
            os.close(self._pending.pop(next(iter(self._pending))))
        return True

    def close(self) -> None:
        self._socket.close()
        for slab in self._pending.values():
            os.close(slab)
        self._pending.clear()
        self.has_ended = True


@final
class Slabs:
    """The slabs that one process sends and receives. The owner of the sockets owns it as well.

    Args:
        doors: the addresses at which the process listens.
        limits: limits on messages.
        log: called for connections that are refused.

    Attributes:
        sent: number of slabs sent, for tests.
    """

    def __init__(self, doors: Doors, limits: Limits, log: Callable[[str], object]) -> None:
        self._limits = limits
        self._log = log
        self._path = beside(doors)
        self._listener: socket.socket | None = None
        if self._path is not None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listener.setblocking(False)
            Path(self._path).unlink(missing_ok=True)  # left by a process that was killed
            self._listener.bind(self._path)
            self._listener.listen(_CONNECTIONS)
        self._new: list[_Bringer] = []
        self._from: dict[bytes, _Bringer] = {}
        self._to: dict[str, socket.socket | None] = {}
        self._places: dict[str, str] = {}
        self._token = secrets.token_bytes(16)
        self._numbers = count(1)
        self._room: deque[None] = deque([None] * _WRITTEN)
        self.sent = 0

    # --- sending ---

    def connect(self, name: str, doors: Doors) -> None:
        """Allow slabs to a process."""
        self.forget(name)
        path = beside(doors)
        if path is not None and self._path is not None:
            self._places[name] = path

    def forget(self, name: str) -> None:
        self._places.pop(name, None)
        known = self._to.pop(name, None)
        if known is not None:
            known.close()

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
        try:
            self._room.pop()
        except IndexError:  # the limit is reached
            return None
        try:
            return WrittenSlab(frame, partial(self._room.append, None))
        except OSError:
            return None

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
        number = next(self._numbers)
        try:
            places, size = self._send(self._connection(name), number, frames, long)
        except OSError:  # the socket is full, or the process gone, or there is no memory
            return None
        self.sent += 1
        head = SlabMessage(0, self._token.hex(), number, size, tuple(places))
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
                if not _is_ours(known):
                    self._to[name] = None
                    raise OSError(errno.EPERM, "the socket is another user's")
            except OSError:
                known.close()
                raise
            self._to[name] = known
        return known

    def _send(
        self, to: socket.socket, number: int, frames: Sequence[Frame | WrittenSlab],
        long: Sequence[int],
    ) -> tuple[list[tuple[int, int, int]], int]:  # fmt: skip
        only = frames[long[0]]
        if isinstance(only, WrittenSlab) and len(long) == 1:
            self._pass_on(to, number, only.descriptor)
            return [(long[0], 0, len(only))], len(only)
        slab = _new_slab()
        try:
            places, end = [], 0
            for i in long:
                start = -(-end // _ALIGNED) * _ALIGNED
                _write(slab, view_of(_frame(frames[i])), start)
                end = start + len(frames[i])
                places.append((i, start, len(frames[i])))
            fcntl.fcntl(slab, _ADD_SEALS, _SEALS)
            self._pass_on(to, number, slab)
        finally:
            os.close(slab)
        return places, end

    def _pass_on(self, to: socket.socket, number: int, slab: int) -> None:
        rights = array("i", [slab])
        to.sendmsg(
            [_NAME.pack(self._token, number)],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_DONTWAIT,
        )  # fmt: skip

    # --- receiving ---

    def take(self, head: SlabMessage, frames: Sequence[Frame]) -> list[Frame]:
        """The frames of a message, including those that lie in a slab.

        Raises:
            ProtocolError: there is no such slab, or it does not match the message.
        """
        try:
            token = bytes.fromhex(head.token)
        except ValueError:
            raise ProtocolError("a slab with a malformed token") from None
        known = self._from.get(token) or self._accept(token)
        slab = None if known is None else known.take(head.slab)
        if slab is None:
            raise ProtocolError("there is no such slab", given=str(head.slab))
        try:
            whole = _mapped(slab, head.size, self._limits)
        finally:
            os.close(slab)
        taken = list(frames)
        last, end = -1, 0
        for i, start, size in head.places:
            if not (last < i < len(taken) and end <= start and start + size <= head.size):
                raise ProtocolError(
                    "the places of frames in a slab do not fit", given=str(head.places)
                )
            if len(taken[i]):
                raise ProtocolError(
                    "a frame is both in a message and in its slab", given=str(head.places)
                )
            taken[i] = whole[start : start + size]
            last, end = i, start + size
        return taken

    def _accept(self, token: bytes) -> _Bringer | None:
        """The connection of a process that has not sent a slab so far."""
        self._forget_ended()
        while self._listener is not None:
            try:
                one, _ = self._listener.accept()
            except OSError:
                break
            one.setblocking(False)
            if _is_ours(one) and len(self._new) + len(self._from) < _CONNECTIONS:
                self._new.append(_Bringer(one))
            else:
                self._log("refused a connection for slabs: of another user, or too many")
                one.close()
        for bringer in list(self._new):
            there = bringer.receive()
            if bringer.token is not None or not there:
                self._new.remove(bringer)
            if bringer.token is not None and bringer.token not in self._from:
                self._from[bringer.token] = bringer
            elif bringer not in self._new:
                bringer.close()
        return self._from.get(token)

    def _forget_ended(self) -> None:
        poller = select.poll()
        every = {b.fileno(): b for b in (*self._new, *self._from.values()) if not b.has_ended}
        for descriptor in every:
            poller.register(descriptor, 0)  # reports a closed connection, nothing else
        for descriptor, _ in poller.poll(0):
            every[descriptor].close()
        self._new = [bringer for bringer in self._new if not bringer.has_ended]
        self._from = {token: b for token, b in self._from.items() if not b.has_ended}

    def close(self) -> None:
        for name in list(self._places):
            self.forget(name)
        for bringer in (*self._new, *self._from.values()):
            bringer.close()
        self._new.clear()
        self._from.clear()
        if self._listener is not None:
            self._listener.close()
            assert self._path is not None
            with suppress(OSError):
                Path(self._path).unlink()


def _is_ours(one: socket.socket) -> bool:
    """Whether the process at the other end is of this user."""
    _, user, _ = _PEER.unpack(one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user == os.getuid())


def _new_slab() -> int:
    return os.memfd_create("eagerflow", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def _frame(frame: Frame | WrittenSlab) -> Frame:
    return frame.read() if isinstance(frame, WrittenSlab) else frame


def _write(slab: int, data: memoryview, start: int) -> None:
    while data:
        written = os.pwrite(slab, data[: 1 << 30], start)
        data, start = data[written:], start + written


# --- messages ---


def framed(
    slabs: Slabs, name: str | None, message: AnyMessage, frames: Sequence[Frame | WrittenSlab]
) -> list[Frame]:
    """A message as frames for a process; long frames go in a slab where possible."""
    if not frames or name is None or max(map(len, frames)) < LONG:
        held = None
    else:
        held = slabs.put(name, frames)
    made = None if held is None else codec.write_in_slab(held[0], message, held[1])
    return codec.write(message, [_frame(f) for f in frames]) if made is None else made


def unframed(
    slabs: Slabs, frames: Sequence[Frame], limits: Limits
) -> tuple[AnyMessage, list[Frame]]:
    """A received message and its frames.

    Raises:
        ProtocolError: the frames are no message.
    """
    message, rest = codec.read(frames, limits)
    if type(message) is SlabMessage:
        return codec.read_in_slab(rest, partial(slabs.take, message), limits)
    return message, rest


# --- maps ----------------------------------------------------------------------------------------

_libc: Final = ctypes.CDLL(None, use_errno=True)
_mmap: Final = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
]  # fmt: skip
_munmap: Final = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED: Final = ctypes.c_void_p(-1).value


def _mapped(slab: int, size: int, limits: Limits) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of a slab, mapped privately.

    Maps of Python's `mmap` keep a descriptor each, so the map is made by the C library.

    Raises:
        ProtocolError: the slab is not sealed, or has another size.
    """
    try:
        seals = fcntl.fcntl(slab, _GET_SEALS)
    except OSError:
        seals = 0
    if seals & _NEEDED != _NEEDED:
        raise ProtocolError("a slab is not sealed", given=f"seals {seals}")
    there = os.fstat(slab).st_size
    if there != size or not 0 < size <= limits.frame:
        raise ProtocolError(
            "a slab has another size than its message says",
            given=f"{there} bytes",
            expected=f"{size}",
        )
    where = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, slab, 0)
    if where is None or where == _FAILED:
        raise ProtocolError(f"a slab cannot be mapped: {os.strerror(ctypes.get_errno())}")
    held = (ctypes.c_uint8 * size).from_address(where)
    finalize(held, _munmap, where, size).atexit = False
    mapped: np.ndarray[Any, np.dtype[np.uint8]] = np.ctypeslib.as_array(held)
    return mapped
