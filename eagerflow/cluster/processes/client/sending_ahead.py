"""Long arrays that their owners may write into again: copied piece by piece, as pieces are sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Final, final
from weakref import ref

import numpy as np

from eagerflow.cluster.protocol.long_frames import PIECE
from eagerflow.cluster.protocol.values import Frame, view_of

#: limit on copied pieces of all tasks that are not sent yet; beyond it senders wait for the network
_AHEAD: Final = 32
#: number of pieces that each task may have beyond that limit: one that reads late stops no other
_LEAST: Final = 2
#: seconds between looks at whether the receiver is lost
_LOOK_SECONDS: Final = 0.25

_Piece = np.ndarray[Any, np.dtype[np.uint8]]


@final
class SendingAhead:
    """Copies of pieces on their way to a task, in memory that is used again while an array is sent.

    Args:
        every: those of all tasks of the client, which have one limit; the collection may grow.

    >>> from eagerflow.cluster.processes.client.sending_ahead import SendingAhead
    >>> ahead = SendingAhead()
    >>> [(start, len(piece)) for start, piece in ahead.copies(bytes(1_500_000), lambda: False)]
    [(0, 1048576), (1048576, 451424)]
    """

    def __init__(self, every: Collection[SendingAhead] = ()) -> None:
        self._every = every
        #: those not sent yet, by their ids; counted, as Ctrl-C may come between any two calls
        self._unsent: dict[int, ref[_Piece]] = {}
        self._bell: SimpleQueue[None] = SimpleQueue()  # `put` may be called by a finaliser
        self._blocks: deque[_Piece] = deque()
        self._lock = Lock()  # one array at a time: the receiver keeps few unfinished ones
        self._is_sending = False

    def copies(self, frame: Frame, give_up: Callable[[], bool]) -> Iterator[tuple[int, _Piece]]:
        """Copies of the pieces of a frame, each with its start; waits while many are not sent.

        Args:
            frame: the frame.
            give_up: whether nothing more is going to be sent; the copies end then.
        """
        view = view_of(frame)
        with self._lock:
            self._is_sending = True
            try:
                for start in range(0, len(view), PIECE):
                    while not self._has_room():
                        if give_up():
                            return
                    yield start, self._copy(view[start : start + PIECE])
            finally:
                self._is_sending = False
                self._blocks.clear()

    def _has_room(self) -> bool:
        """Whether another piece may be copied; waits for a while until it may."""
        if not self._fits():
            with suppress(Empty):
                self._bell.get(timeout=_LOOK_SECONDS)  # some of this task's own are on their way
        return self._fits()

    def _fits(self) -> bool:
        if self._count() < _LEAST:
            return True
        return sum(ahead._count() for ahead in list(self._every) or [self]) < _AHEAD

    def _count(self) -> int:
        """The number of pieces that are not sent yet."""
        return sum(piece() is not None for piece in list(self._unsent.values()))

    def _copy(self, data: memoryview) -> _Piece:
        try:
            block = self._blocks.pop()
        except IndexError:
            block = np.empty(PIECE, np.uint8)
        piece = block[: len(data)]
        self._unsent[id(piece)] = ref(piece, partial(self._sent, id(piece), block))
        piece[:] = np.frombuffer(data, np.uint8)
        return piece

    def _sent(self, number: int, block: _Piece, piece: ref[_Piece]) -> None:
        """Note that a piece was sent, whose block can be used again; called by a finaliser."""
        del self._unsent[number]
        if self._is_sending:
            self._blocks.append(block)
        if self._bell.empty():
            self._bell.put(None)
