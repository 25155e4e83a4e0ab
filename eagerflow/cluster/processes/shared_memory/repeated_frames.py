"""Frames that are sent again and have not changed: their bytes lie in a kept slab already.

Values are written in place only where nothing else sees their memory, so a frame that the sender
holds does not change. But to hold every frame would make each assignment to a variable that is
sent copy it. So only frames that have been seen not to change are held:

1. When a frame is sent, it is written into a slab, and a few of its bytes are noted.
2. When the same memory is sent again with the same few bytes, it gets a slab that no other frame
   is written into while there is room for more.
3. At the next time it is compared with its slab. If nothing has changed, it is held.
   The slab is replaced by a *fixed* one, which nobody can write into, if there is room.
4. From then on messages name that slab, and its bytes are neither read nor written. What lies in a
   fixed slab is read in place by a receiver that is a task.

What is held is let go of with the next frames written into the slab, and with the slab. That is
when room is needed and nothing else sees the frames any more: a variable was assigned. If that
happens soon, they were held in vain, and the next frames for that receiver have to be sent more
often before they are held: a variable may be assigned its own value again and again.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Sequence
from sys import getrefcount
from typing import Any, Final, final

import numpy as np

from eagerflow.cluster.protocol.values import Frame

#: index in the message, offset in the slab, bytes
Place = tuple[int, int, int]
#: where the frames of a message lie in memory: the address and the bytes of each
Origin = tuple[tuple[int, int], ...]
#: number of bytes of a frame that are noted
_SAMPLES: Final = 64
#: number of messages that are remembered for a receiver
_REMEMBERED: Final = 256
#: limit on the number of sends without a change before frames seem unchanged
_PATIENCE: Final = 1024
#: number of sends with other bytes from which on frames keep changing
_CHANGES: Final = 2
#: stands for the bytes of frames that have changed unnoticed
_CHANGING: Final = b""

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_NOTHING: Final[_Bytes] = np.empty(0, np.uint8)
_compare: Final = ctypes.CDLL(None).memcmp
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def arrays_of(frames: Sequence[Frame]) -> list[_Bytes]:
    """Views of the bytes of some frames."""
    return [np.frombuffer(frame, np.uint8) for frame in frames]


def origin_of(arrays: Sequence[_Bytes]) -> Origin:
    """Where some frames lie in memory."""
    return tuple([(x.ctypes.data, len(x)) for x in arrays])


@final
class RepeatedFrames:
    """Which frames seem to be sent again unchanged to a receiver.

    Several threads may use it at once: a count may be lost, which makes a copy more or less.

    >>> import numpy as np
    >>> from eagerflow.cluster.processes.shared_memory.repeated_frames import *
    >>> repeated, frames = RepeatedFrames(), [np.zeros(1_000, np.uint8)]
    >>> [repeated.seem_unchanged(origin_of(frames), frames) for _ in range(2)]
    [False, True]
    >>> frames[0][:] = 1
    >>> repeated.seem_unchanged(origin_of(frames), frames)
    False
    """

    def __init__(self) -> None:
        #: how frames looked, and how often they were sent again like that; below 0: otherwise
        self._noted: OrderedDict[Origin, tuple[bytes, int]] = OrderedDict()
        self._patience = 1

    def seem_unchanged(self, origin: Origin, arrays: Sequence[_Bytes]) -> bool:
        """Whether some frames look as they did when they were sent last; notes how they look."""
        known, times = self._noted.pop(origin, (None, 0))
        looks = _CHANGING
        if known != _CHANGING:
            looks = b"".join([x[:: 1 + len(x) // _SAMPLES].tobytes() for x in arrays])
        if known == looks != _CHANGING:
            times = max(times, 0) + 1
        elif known is not None:
            times = min(times, 0) - 1
        self._noted[origin] = looks, times
        if len(self._noted) > _REMEMBERED:
            self._noted.popitem(last=False)
        return times >= self._patience

    def keep_changing(self, origin: Origin) -> bool:
        """Whether some frames looked otherwise each time that they were sent lately."""
        return self._noted.get(origin, (None, 0))[1] <= -_CHANGES

    def changed(self, origin: Origin) -> None:
        """Note that frames that seemed unchanged have changed: they are not compared again."""
        self._noted[origin] = _CHANGING, 0

    def held_in_vain(self, origin: Origin | None) -> None:
        """Note that frames were held, and soon nothing else saw them any more."""
        self._patience = min(2 * self._patience, _PATIENCE)
        self._noted.pop(origin, None)  # type: ignore[arg-type]  # None is none of them


@final
class SlabContent:
    """What was written into a kept slab last.

    Args:
        memory: the bytes of the slab.

    Attributes:
        origin: where frames that seem to be sent again lie in memory; None for other frames.
    """

    __slots__ = ("_held", "_memory", "origin")

    def __init__(self, memory: _Bytes) -> None:
        self._memory = memory
        self._held: Sequence[_Bytes] = ()
        self.origin: Origin | None = None

    @property
    def is_held(self) -> bool:
        """Whether the frames are held."""
        return bool(self._held)

    @property
    def is_forsaken(self) -> bool:
        """Whether the frames are held, and nothing else sees the memory of any of them."""
        return bool(self._held) and all(_references(x) <= _ALONE for x in self._held)

    def moved(self) -> SlabContent:
        """What is held, as the content of a slab without memory here."""
        content = SlabContent(_NOTHING)
        content.origin, content._held = self.origin, self._held
        self.clear()
        return content

    def clear(self) -> None:
        """Let go of what was written."""
        self.origin, self._held = None, ()

    def write(
        self, arrays: Sequence[_Bytes], places: Sequence[Place], origin: Origin | None
    ) -> bool:
        """Write some frames, unless they are there already.

        Args:
            arrays: the bytes of the frames.
            places: the places of the frames in the slab.
            origin: where they lie in memory, if they seem to be sent again.

        Returns:
            False if they were written here before, and have changed.
        """
        again = origin is not None and self.origin == origin
        if again and not self._held and self._has(arrays, places):
            self._held = arrays
        if again and self._held:
            return True
        self.clear()
        for x, (_, start, nbytes) in zip(arrays, places, strict=True):
            self._memory[start : start + nbytes] = x
        self.origin = None if again else origin
        return not again

    def _has(self, arrays: Sequence[_Bytes], places: Sequence[Place]) -> bool:
        """Whether the slab has the bytes of some frames."""
        where = self._memory.ctypes.data
        return not any(
            _compare(where + start, x.ctypes.data, nbytes)
            for x, (_, start, nbytes) in zip(arrays, places, strict=True)
        )


def _references(x: _Bytes) -> int:
    """The number of references to the array whose memory a frame shows, which `arrays_of` gave."""
    shown: Any = x.base
    if isinstance(shown, memoryview):
        shown = shown.obj
    owner = shown if getattr(shown, "base", None) is None else shown.base
    return getrefcount(owner) - (shown is owner)


#: result of `_references` if nothing but a frame sees the memory
_ALONE: Final = _references(arrays_of([np.empty(8, np.uint8).data])[0])
