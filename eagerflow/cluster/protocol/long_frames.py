"""Long frames go ahead of their message, in messages of one piece each.

ZeroMQ delivers a message when all of it is there. So the receiver of one long message would hold
its bytes twice, in pieces and joined; here it copies each piece to its place as it comes, while the
next one is on its way, and the memory of pieces is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, final

import msgspec
import numpy as np

from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import PiecedHead, PieceHead
from eagerflow.cluster.protocol.values import Frame, view_of

#: bytes of a piece, and of the longest frame that is sent within its message
PIECE: Final = LIMITS.chunk
#: limit on frames of a connection whose pieces are not all there
_UNFINISHED: Final = 64
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final[Any] = msgspec.msgpack.Decoder(PieceHead | PiecedHead).decode
_numbers: Final = count(1)
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_NOTHING: Final[_Bytes] = np.empty(0, np.uint8)


@final
class FrameAhead:
    """Takes the place of a long frame whose pieces are sent before its message is made.

    Args:
        size: the bytes of the frame.
        tell: sends a message to the receiver; called by a finaliser if no message names the frame.

    Attributes:
        number: its number in this process.
    """

    __slots__ = ("_size", "_tell", "number")

    def __init__(self, size: int, tell: Callable[[list[Frame]], object] | None = None) -> None:
        self._size = size
        self.number = next(_numbers)
        self._tell = tell

    def __len__(self) -> int:
        return self._size

    def piece(self, data: Frame, start: int) -> list[Frame]:
        """The message of a piece."""
        return [b"", _encode(PieceHead(self.number, self._size, start)), data]

    def name(self) -> int:
        """The number of the frame, for the message that names it."""
        self._tell = None
        return self.number

    def dropped(self) -> list[Frame]:
        """The message that no message is going to name the frame, which may be complete."""
        return [b"", _encode(PieceHead(self.number, 0, 0)), b""]

    def drop(self) -> None:
        """Have the receiver drop the frame, unless it was dropped, or named by a message."""
        tell = getattr(self, "_tell", None)  # it has none if Ctrl-C came while it was made
        self._tell = None
        if tell is not None:
            tell(self.dropped())

    __del__ = drop  # Ctrl-C may come between the last piece and the message


#: a frame as senders pass it on
SentFrame = Frame | FrameAhead


def split(frames: Sequence[SentFrame]) -> Iterator[list[Frame]]:
    """The messages that carry a message with long frames.

    Args:
        frames: the frames of the message, with its header.

    >>> from eagerflow.cluster.protocol.long_frames import LongFrames, split
    >>> sent = list(split([b"header", bytes(range(256)) * 10_000]))
    >>> len(sent)
    4
    >>> received = LongFrames()
    >>> [received.take("peer", message) for message in sent[:-1]]
    [None, None, None]
    >>> header, long = received.take("peer", sent[-1])
    >>> header, long.nbytes
    (b'header', 2560000)
    """
    long, rest = [], list[Frame]()
    for i, frame in enumerate(frames):
        if i == 0 or len(frame) <= PIECE:  # a header has a limit of its own
            rest.append(frame)  # type: ignore[arg-type]  # those ahead are long
            continue
        rest.append(b"")
        if isinstance(frame, FrameAhead):
            long.append((i, frame.name()))
            continue
        ahead, view = FrameAhead(len(frame)), view_of(frame)
        long.append((i, ahead.number))
        for start in range(0, len(frame), PIECE):
            yield ahead.piece(view[start : start + PIECE], start)
    yield [b"", _encode(PiecedHead(tuple(long))), *rest]


@final
class _Coming:
    """The frames that have come by one connection, and that no message has named yet.

    Attributes:
        unfinished: those without their last pieces, by number, each with the bytes that are there.
        whole: the others, by number.
    """

    __slots__ = ("unfinished", "whole")

    def __init__(self) -> None:
        self.unfinished: dict[int, tuple[_Bytes, int]] = {}
        self.whole: dict[int, _Bytes] = {}

    @property
    def held(self) -> int:
        """The number of all."""
        return len(self.unfinished) + len(self.whole)


@final
class LongFrames:
    """The long frames that come by the connections of one socket.

    Args:
        limits: limits on messages.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._coming: dict[Any, _Coming] = {}

    @property
    def held(self) -> int:
        """The number of frames that no message has named yet."""
        return sum(coming.held for coming in self._coming.values())

    def take(self, peer: Any, frames: Sequence[Frame]) -> list[Frame] | None:
        """Take a message whose first frame is empty.

        Args:
            peer: the connection that it came by.
            frames: its frames.

        Returns:
            The frames of a message with its long frames; None for a piece. A message that is
            malformed, or without some of its pieces, becomes an empty one.
        """
        try:
            head = _decode(frames[1])
        except (msgspec.MsgspecError, IndexError, UnicodeDecodeError, RecursionError):
            return []
        coming = self._coming.get(peer)
        if coming is None:
            coming = self._coming[peer] = _Coming()
        if isinstance(head, PieceHead):
            self._add(coming, head, frames[2:])
            return None
        return _named(coming, head, list(frames[2:]))

    def _add(self, coming: _Coming, head: PieceHead, rest: Sequence[Frame]) -> None:
        data = np.frombuffer(rest[0], np.uint8) if len(rest) == 1 else _NOTHING
        into, filled = coming.unfinished.pop(head.frame, (_NOTHING, 0))
        if not head.size:
            coming.whole.pop(head.frame, None)
            return
        if head.start == 0 and head.frame not in coming.whole:
            into, filled = self._begin(coming, head.size), 0
        end = head.start + len(data)
        if len(into) != head.size or head.start != filled or end > head.size or not len(data):
            return  # the message that names the frame misses it
        into[filled:end] = data
        if end == head.size:
            coming.whole[head.frame] = into
        else:
            coming.unfinished[head.frame] = into, end

    def _begin(self, coming: _Coming, size: int) -> _Bytes:
        """Memory for a frame; the pages are taken as the pieces come."""
        if size > self._limits.frame or coming.held >= self._limits.frames:
            return _NOTHING
        if len(coming.unfinished) >= _UNFINISHED:
            del coming.unfinished[next(iter(coming.unfinished))]
        try:
            return np.empty(size, np.uint8)
        except MemoryError:
            return _NOTHING

    def forget(self, peer: Any) -> None:
        """Forget a connection that was closed."""
        self._coming.pop(peer, None)


def _named(coming: _Coming, head: PiecedHead, frames: list[Frame]) -> list[Frame]:
    """The frames of a message, with the long ones that it names; none if one is missing."""
    fits = True
    for i, number in head.frames:
        whole = coming.whole.pop(number, None)
        coming.unfinished.pop(number, None)  # no other message is going to name it
        if whole is None or not 0 < i < len(frames) or len(frames[i]):
            fits = False
        elif fits:
            frames[i] = whole
    return frames if fits else []
