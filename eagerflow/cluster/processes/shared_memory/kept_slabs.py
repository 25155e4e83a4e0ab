"""Slabs that stay: a sender writes into them again as soon as their receiver has copied all bytes.

A new file costs its pages: the kernel allocates and clears each, and both processes have to map it.
The pages of a kept slab stay in memory, and both ends keep it mapped.

A slab is *free*, *taken* by a thread that writes into it, or *in flight* from its message until the
receiver says that it has copied the bytes. It is never written into before that; a slab whose
message was lost stays in flight until its receiver has gone. Their total size is limited; beyond
it, and for longer frames, each message has a slab of its own. Idle slabs are dropped. Frames that
are sent again, and have not changed, are not written again (`repeated_frames`): they get a *fixed*
slab, which is sealed against writing for good, so that its receiver need not copy them either.
In a task a variable that is sent again and again, and changes each time, moves into a slab, which
is its *home* (`eagerflow.hardware.homes`): nothing has to be written to send it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import RLock
from time import monotonic
from typing import Any, Final, final
from weakref import ref

import numpy as np

from eagerflow.cluster.processes.shared_memory.memory_files import Bytes, new_fixed, new_kept
from eagerflow.cluster.processes.shared_memory.repeated_frames import (
    Origin,
    Place,
    RepeatedFrames,
    SlabContent,
    arrays_of,
    origin_of,
)
from eagerflow.cluster.protocol.values import Frame
from eagerflow.hardware import homes
from eagerflow.hardware.homes import Home

#: limit on the bytes of a kept slab
KEPT: Final = 128 << 20
#: limit on the bytes of all kept slabs of a process
KEPT_BY_ALL: Final = 256 << 20
#: limit on the kept slabs between two processes
MOST: Final = 32
#: limit on the bytes of all fixed slabs and homes of a process: others can be written into again
LASTING_BY_ALL: Final = KEPT_BY_ALL // 2
#: limit on the fixed slabs and homes between two processes
_MOST_LASTING: Final = MOST // 2
#: seconds that an assignment waits for the thread that sends, before it takes other memory
_PATIENCE: Final = 0.01
#: seconds after which an unused slab is dropped
IDLE_SECONDS: Final = 10.0
#: seconds after which an unused slab makes room for another one
_STEADY_SECONDS: Final = 1.0
_NONE: Final[deque[int]] = deque(maxlen=0)
_NOTHING: Final = np.empty(0, np.uint8)
_NO_CONTENT: Final = SlabContent(_NOTHING)
#: number of messages that have to name a slab with held frames, or they were held in vain
_WORTH: Final = 16
#: sizes are multiples of this
_GRAIN: Final = 1 << 16
#: a slab may be this many times as large as what is written into it
_LOOSE: Final = 2


@final
class KeptSlab:
    """A kept slab.

    Args:
        line: the slabs for the same receiver.
        number: its number.
        size: its bytes.
        fixed: the content of a fixed slab, with the offset and the bytes of each frame.

    Attributes:
        line: the same.
        number: the same.
        size: the same.
        is_fixed: whether nobody can write into it.
        memory: its bytes; none if it is fixed, and once it is closed.
        descriptor: its descriptor; -1 once the receiver has it.
        used: when it was last given back.
        use: the number of messages that have named it.
        content: what was written into it last.
        home: refers to it as the home of a variable; None if it is none.

    Raises:
        OSError: there is no memory, no descriptor, or no such seal.
    """

    __slots__ = ("content", "descriptor", "home", "is_fixed", "line", "memory", "number", "size",
                 "use", "used")  # fmt: skip

    def __init__(
        self, line: _Line, number: int, size: int,
        fixed: tuple[SlabContent, Sequence[tuple[int, Bytes]]] | None = None,
    ) -> None:  # fmt: skip
        self.line = line
        self.number = number
        self.size = size
        self.is_fixed = fixed is not None
        self.used = monotonic()
        self.use = 0
        self.home: ref[Home] | None = None
        if fixed is None:
            self.descriptor, self.memory = new_kept(size)
            self.content = SlabContent(self.memory)
        else:
            content, parts = fixed
            self.descriptor, self.memory = new_fixed(size, parts), _NOTHING
            self.content = content.moved()

    def close_file(self) -> None:
        """Close the descriptor: the receiver has got it, or never will."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def close(self) -> None:
        """Let go of the descriptor and of the memory; the receiver's map stays as it is."""
        self.close_file()
        self.memory = _NOTHING
        self.content = _NO_CONTENT
        self.home = None


@final
class _Line:
    """The kept slabs for one receiver.

    Attributes:
        name: the receiver.
        free: those that are not in flight, fixed ones too; the last used is at the end.
        flying: those in flight, by number.
        count: the number of all, with those that are taken.
        homes: those that variables live in, in flight or not, by the address of their bytes.
        dropped: numbers of dropped slabs, which the receiver has not been told yet.
        repeated: which frames seem to be sent again.
    """

    __slots__ = ("count", "dropped", "flying", "free", "homes", "name", "repeated")

    def __init__(self, name: str) -> None:
        self.name = name
        self.free: list[KeptSlab] = []
        self.flying: dict[int, KeptSlab] = {}
        self.homes: dict[int, KeptSlab] = {}
        self.count = 0
        self.dropped: deque[int] = deque()
        self.repeated = RepeatedFrames()

    def slab_for(self, size: int, whole: int, origin: Origin | None) -> KeptSlab | None:
        """The free slab for some bytes that seem to be sent again, or one that is nobody's.

        Args:
            size: the number of bytes.
            whole: the size of a new slab for them.
            origin: where they lie; None if they do not seem to be sent again.
        """
        free = None
        for slab in reversed(self.free):
            if size <= slab.size <= _LOOSE * whole:
                if origin is not None and slab.content.origin == origin:
                    return slab
                if free is None and slab.content.origin is None:
                    free = slab
        return free

    def oldest_for(self, size: int, whole: int) -> KeptSlab | None:
        """The free slab to write some bytes into that was not used for the longest time."""
        fits = [x for x in self.free if size <= x.size <= _LOOSE * whole and not x.is_fixed]
        return min(fits, key=lambda slab: slab.used, default=None)

    def home_of(self, origin: Origin) -> KeptSlab | None:
        """The home of a frame that was written there since it was sent last."""
        (where, size), *others = origin
        slab = None if others else self.homes.get(where)
        home = None if slab is None or slab.home is None else slab.home()
        return slab if home is not None and home.nbytes == size and home.is_new() else None

    def all(self) -> set[KeptSlab]:
        """All slabs, except those that are taken."""
        return {*self.free, *self.flying.values(), *self.homes.values()}

    def lasting(self) -> list[int]:
        """The sizes of the fixed slabs and the homes."""
        return [slab.size for slab in self.all() if slab.is_fixed or slab.home is not None]


@final
class KeptSlabs:
    """The kept slabs of one sender. Any thread takes and gives back; one thread does the rest.

    Args:
        numbers: the numbers of new slabs.
        hear: calls `copied` for what a receiver has said, from any thread; None where no variable
            moves into a slab.

    Attributes:
        held: bytes of all slabs.
    """

    def __init__(self, numbers: Iterator[int], hear: Callable[[str], object] | None = None) -> None:
        self._numbers = numbers
        self._hear = hear
        self._lock = RLock()
        self._lines: dict[str, _Line] = {}
        #: slabs given back unsent; finalisers add them, which must not wait for a lock
        self._unsent: deque[KeptSlab] = deque()
        #: slabs that were homes until their arrays were deleted; added likewise
        self._left: deque[KeptSlab] = deque()
        self.held = 0

    def write(
        self, name: str, frames: Sequence[Frame], places: Sequence[Place], size: int
    ) -> KeptSlab | None:
        """A taken slab with the bytes of some frames; by the thread that sends.

        Args:
            name: the receiver.
            frames: the frames, which are not written into while somebody holds them.
            places: their places in the slab.
            size: the end of the last one.

        Returns:
            The slab; None if there is no room.
        """
        arrays = arrays_of(frames)
        origin = origin_of(arrays)
        with self._lock:
            line = self._line(name)
            home = line.home_of(origin)
        if home is not None:
            return home
        repeated = line.repeated
        seem_unchanged = repeated.seem_unchanged(origin, arrays)
        if self._hear is not None and len(origin) == 1 and repeated.keep_changing(origin):
            self._want_home(line, origin[0][0])
        slab = self.take(name, size, origin if seem_unchanged else None)
        if slab is None:
            return None
        try:
            was_held = slab.content.is_held
            if not slab.content.write(arrays, places, origin if seem_unchanged else None):
                repeated.changed(origin)
            elif slab.content.is_held and not was_held:
                slab = self._fixed(slab, arrays, places, rounded(size))
        except BaseException:  # Ctrl-C
            self.give_back(slab)
            raise
        return slab

    def _fixed(
        self, slab: KeptSlab, arrays: Sequence[Bytes], places: Sequence[Place], whole: int
    ) -> KeptSlab:  # fmt: skip
        """A fixed slab in place of a taken one whose frames are held now; that one without room.

        Its size is ``whole``: the receiver reads all of its pages, also those without a frame.
        """
        line = slab.line
        with self._lock:
            if self.held + whole > KEPT_BY_ALL or not self._may_last(line, whole):
                return slab
        parts = [(start, x) for x, (_, start, _) in zip(arrays, places, strict=True)]
        try:
            made = KeptSlab(line, next(self._numbers), whole, (slab.content, parts))
        except OSError:
            return slab
        with self._lock:
            line.count += 1
            self.held += made.size
            self._let_go(slab)
        return made

    def _may_last(self, line: _Line, size: int) -> bool:
        """Whether there may be another fixed slab or home."""
        sizes = [size for known in self._lines.values() for size in known.lasting()]
        return sum(sizes) + size <= LASTING_BY_ALL and len(line.lasting()) < _MOST_LASTING

    def take(self, name: str, size: int, origin: Origin | None = None) -> KeptSlab | None:
        """A slab to write into, or a fixed one that has these bytes; from any thread.

        Args:
            name: the receiver.
            size: the number of bytes to write.
            origin: where they lie, if they seem to be sent again.

        Returns:
            The slab; None if there is no room.
        """
        whole = rounded(size)
        if whole > KEPT:
            return None
        with self._lock:
            self._collect()
            line = self._line(name)
            slab = line.slab_for(size, whole, origin)
            if slab is None and self._let_go_of_forsaken(line):
                slab = line.slab_for(size, whole, origin)
            if slab is None and not self._make_room(line, whole):
                slab = line.oldest_for(size, whole)
                if slab is None:
                    return None
            if slab is not None:
                line.free.remove(slab)
                if slab.content.origin != origin:
                    slab.content.clear()
                return slab
            line.count += 1
            self.held += whole
        try:
            return KeptSlab(line, next(self._numbers), whole)
        except BaseException as error:  # Ctrl-C as well: pages are made here
            with self._lock:
                self._uncount(line, whole)
            if not isinstance(error, OSError):
                raise
            return None

    def _line(self, name: str) -> _Line:
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(name)
        return line

    def is_sendable(self, slab: KeptSlab) -> bool:
        """Whether the receiver of a slab has not gone since it was taken."""
        return self._lines.get(slab.line.name) is slab.line

    def give_back(self, slab: KeptSlab) -> None:
        """Note that a taken slab was not sent; called by finalisers."""
        if slab.home is not None:
            return  # it stays what it was
        if not self.is_sendable(slab):
            slab.close()
        self._unsent.append(slab)

    def sent(self, slab: KeptSlab) -> None:
        """Note that a message names a slab."""
        with self._lock:
            slab.use += 1
            slab.line.flying[slab.number] = slab

    def copied(self, name: str, number: int, use: int) -> None:
        """Note that the receiver has copied the bytes of a slab; of another use it is ignored."""
        with self._lock:
            line = self._lines.get(name)
            slab = None if line is None else line.flying.get(number)
            if slab is not None and slab.use == use:
                del slab.line.flying[number]
                slab.used = monotonic()
                if slab.home is None:
                    slab.line.free.append(slab)

    def forget(self, name: str) -> None:
        """Drop the slabs of a receiver that has gone; what it has mapped stays as it is."""
        with self._lock:
            line = self._lines.pop(name, None)
            if line is not None:
                homes.give_up(line)
                for slab in line.all():
                    self._uncount(line, slab.size)
                    slab.close()  # a home in flight stays one that nobody may write into
            self._collect()

    def idle(self, now: float) -> None:
        """Drop slabs that have not been used for a while."""
        with self._lock:
            self._collect()
            for line in self._lines.values():
                for slab in [one for one in line.free if one.used <= now - IDLE_SECONDS]:
                    self._drop(slab)

    def dropped(self, name: str) -> deque[int]:
        """The numbers of the slabs that a receiver still has; the caller removes those it tells."""
        line = self._lines.get(name)
        return _NONE if line is None else line.dropped

    # --- homes ---

    def _want_home(self, line: _Line, address: int) -> None:
        with self._lock:
            is_home = any(address in known.homes for known in self._lines.values())
        if not is_home:
            homes.want(address, line, partial(self._home, line))

    def _home(self, line: _Line, like: Any) -> Any | None:
        """An array like another one in a free slab, for a variable; None if there is none."""
        if not self._lock.acquire(timeout=_PATIENCE):  # a finaliser may wait for the variable
            return None
        try:
            self._collect()
            if self._lines.get(line.name) is not line:
                return None  # its receiver was forgotten
            assert self._hear is not None
            self._hear(line.name)
            slab = line.slab_for(like.nbytes, rounded(like.nbytes), None)
            if slab is None:
                return None
            if not self._may_last(line, slab.size):
                return None
            line.free.remove(slab)
            slab.content.clear()
            home = Home(slab.memory, like, partial(self._is_unread, slab))
            slab.home = ref(home, partial(self._leave, slab, homes.forks()))
            line.homes[slab.memory.ctypes.data] = slab
        finally:
            self._lock.release()
        return np.asarray(home)

    def _leave(self, slab: KeptSlab, forks: int, _: object) -> None:
        """Note that a home is one no more; a process forked since then may still read it."""
        if forks == homes.forks():
            self._left.append(slab)

    def _is_unread(self, slab: KeptSlab) -> bool:
        """Whether the receiver has copied what lies in a home."""
        flying = slab.line.flying
        if slab.number in flying and self._hear and self._lock.acquire(timeout=_PATIENCE):
            try:
                self._hear(slab.line.name)
            finally:
                self._lock.release()
        return slab.number not in flying

    def _collect(self) -> None:
        """Handle the slabs that finalisers have given back."""
        while self._left:
            slab = self._left.popleft()
            if slab.home is not None:  # else its receiver was forgotten
                slab.home = None
                del slab.line.homes[slab.memory.ctypes.data]
                if slab.number not in slab.line.flying:
                    slab.line.free.append(slab)
        while self._unsent:
            slab = self._unsent.popleft()
            if self.is_sendable(slab):
                slab.used = monotonic()
                slab.line.free.append(slab)
            else:
                self._uncount(slab.line, slab.size)
                slab.close()

    def _let_go_of_forsaken(self, line: _Line) -> bool:
        """Let go of frames that nothing else sees any more; whether there were any."""
        forsaken = [slab for slab in line.free if slab.content.is_forsaken]
        for slab in forsaken:
            if slab.use < _WORTH:
                line.repeated.held_in_vain(slab.content.origin)
            if slab.is_fixed:
                self._drop(slab)
            else:
                slab.content.clear()
        return bool(forsaken)

    def _make_room(self, line: _Line, size: int) -> bool:
        """Whether there is room for a new slab, after dropping free ones."""
        unused = monotonic() - _STEADY_SECONDS  # others are needed again at once
        free = [one for known in self._lines.values() for one in known.free if one.used <= unused]
        for slab in sorted(free, key=lambda slab: slab.used):
            full = self.held + size > KEPT_BY_ALL
            if full or (line.count >= MOST and slab.line is line):
                self._drop(slab)
        return line.count < MOST and self.held + size <= KEPT_BY_ALL

    def _drop(self, slab: KeptSlab) -> None:
        slab.line.free.remove(slab)
        self._let_go(slab)

    def _let_go(self, slab: KeptSlab) -> None:
        self._uncount(slab.line, slab.size)
        if slab.descriptor < 0:
            slab.line.dropped.append(slab.number)
        slab.close()

    def _uncount(self, line: _Line, size: int) -> None:
        line.count -= 1
        self.held -= size


def rounded(size: int) -> int:
    """The size of a slab for some bytes: an eighth larger at most, or a multiple of 64 KiB.

    >>> from eagerflow.cluster.processes.shared_memory.kept_slabs import rounded
    >>> rounded(100_000), rounded(6_250_000)
    (131072, 6291456)
    """
    grain = max(_GRAIN, (1 << size.bit_length()) // 16)
    return -(-size // grain) * grain
