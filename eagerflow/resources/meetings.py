"""What attempts wait in: a resource that lets the first of each wait queue go as far as it can.

Ctrl-C may come between any two calls here, too: see `eagerflow.resources.waiting_operations`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from contextlib import suppress
from itertools import count
from time import perf_counter
from typing import Final

from eagerflow.events import LevelEvent, WaitEvent, end
from eagerflow.hardware import Device
from eagerflow.resources.attempt_events import know
from eagerflow.resources.containers import DEFAULT
from eagerflow.resources.queue_levels import Level
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.source import capture
from eagerflow.types import TensorSpec, TensorType

_serial: Final = count(1)


class AbstractMeeting(ABC):
    """A resource with wait queues of attempts, which wait for each other.

    Args:
        wait_queues: how many there are. The first attempt of each is tried, in this order. Those
            of the last one take something out, the others put something in.
        kind: what it is, for events; if it is nothing that has elements, there are none.
        name: for display.

    Attributes:
        kind: the same.
        name: the same.
        identity: its name in its container.
        label: the name, or one that tells it from others.
        made: the line that made it, None if that is not known.
        room: how many elements there is room for, infinity for any number.
        closed: whether nothing comes in any more.
        device: where the elements are.
        types: of the parts of an element.
        lock: held while something changes.
    """

    __slots__ = ("__weakref__", "_again", "_ended", "_trying", "_wait_queues", "identity", "kind",
                 "label", "lock", "made", "name")  # fmt: skip
    room: float = float("inf")
    closed: bool = False
    device: Device | None = None
    types: tuple[TensorType, ...] = ()

    def __init__(self, wait_queues: int, kind: str = "", name: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.identity = DEFAULT.add(self, name)
        self.made = capture()
        self.label = name or (kind and f"{kind}-{next(_serial)}")
        # a finaliser that the collector runs in the middle may ask for the size: no deadlock
        self.lock: Final = threading.RLock()
        self._wait_queues: tuple[OrderedDict[AbstractAttempt, None], ...] = tuple(
            [OrderedDict() for _ in range(wait_queues)]
        )
        self._ended: deque[AbstractAttempt] = deque()  # those that are still to be called back
        self._trying = False
        self._again = False
        know(self)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The types with the device."""
        return tuple([kind.on(self.device) for kind in self.types])

    def called(self, what: str) -> str:
        """``what``, with the name if it has one."""
        return what if self.name is None else f"{what} {self.name!r}"

    @abstractmethod
    def state(self) -> str:
        """How it stands, in words, for messages."""

    def size(self) -> int:
        """How many elements there are."""
        return 0

    def level(self) -> Level:
        """How it stands now."""
        with self.lock:
            *puts, takes = map(len, self._wait_queues)
            room = 0 if self.room == float("inf") else int(self.room)
            return Level(self.label, self.kind, self.size(), room, sum(puts), takes, self.closed)

    def tell(self) -> None:
        """Tell the instruments how it stands."""
        event: LevelEvent | None = None
        with self.lock:
            level, brief = self.level(), LevelEvent.brief
            if brief is not None:
                brief((*level, perf_counter()))
            if LevelEvent.listeners:
                event = LevelEvent(**level._asdict(), device=str(self.device or ""))
        if event is not None:
            event.stop = event.start
            end(event)

    def open_waits(self) -> list[WaitEvent]:
        """The events of the waits that go on."""
        with self.lock:
            events = [attempt.open_wait() for queue in self._wait_queues for attempt in queue]
        return [event for event in events if event is not None]

    def waiting(self, wait_queue: int) -> int:
        """How many attempts wait in one of the wait queues."""
        with self.lock:
            return sum(not attempt.done for attempt in self._wait_queues[wait_queue])

    def remove(self, attempt: AbstractAttempt) -> None:
        """Take an attempt that has ended out of its wait queue. The lock is held."""
        wait_queue = self._wait_queues[attempt.wait_queue]
        if attempt in wait_queue:
            if attempt._callback is not None:
                self._ended += (attempt,)
            del wait_queue[attempt]

    def settle(self, attempt: AbstractAttempt | None = None, tell: bool = True) -> None:
        """Let all attempts go as far as they can, and call back those that have ended.

        Args:
            attempt: a new one.
            tell: whether to call back now; a caller that holds the lock does it later.
        """
        late: BaseException | None = None
        ended: AbstractAttempt | None = None
        while True:
            try:
                if ended is not None:  # Ctrl-C came before it was called, or after
                    with suppress(RuntimeError):
                        ended.call_back()
                    ended = None
                with self.lock:
                    changed = attempt is None or attempt.done or self._add(attempt)
                    if (changed or self._again) and any(self._wait_queues):
                        self._try()
                    if attempt is not None and not attempt.done and attempt.since is None:
                        self._keep(attempt)
                while tell and self._ended:
                    with self.lock:
                        if self._ended:
                            ended = self._ended[0]
                            del self._ended[0]
                    if ended is not None:
                        try:
                            ended.call_back()
                        except Exception as error:  # of an instrument: the others do not wait on
                            late = late or error
                        ended = None
                break
            except KeyboardInterrupt as error:  # first this: others wait for it
                late = error
        if late is not None:
            raise late
        if tell and self.kind and LevelEvent.wanted:
            self.tell()

    def _add(self, attempt: AbstractAttempt) -> bool:
        """Put an attempt into its wait queue; whether something may have changed for the others.

        One that need not wait, and has no callback, does not come into the wait queue.
        """
        wait_queue, moved = self._wait_queues[attempt.wait_queue], True
        if not wait_queue and not self._trying and attempt._callback is None:
            self._trying = True
            try:
                moved = self._step(attempt)
            finally:
                self._trying = False
            if attempt.done:
                return True
        wait_queue[attempt] = None
        return moved

    def _try(self) -> None:
        if self._trying:  # by a finaliser, within this very thread
            self._again = True
            return
        self._trying = moved = True
        try:
            while moved or self._again:
                moved = self._again = False
                for wait_queue in self._wait_queues:
                    while wait_queue:
                        attempt = next(iter(wait_queue))
                        if not attempt.done:
                            moved |= self._step(attempt)
                        if not attempt.done:
                            break
                        if attempt._callback is not None:  # else it is looked at when it is begun
                            self._ended += (attempt,)
                        del wait_queue[attempt]
        finally:
            self._trying = False

    def _keep(self, attempt: AbstractAttempt) -> None:
        """Note that an attempt waits from now on."""
        try:
            attempt.keep()
        except Exception as error:  # of memory there is too little
            attempt.fail_with(error)
            self.remove(attempt)
        attempt.since = perf_counter()

    def _step(self, attempt: AbstractAttempt) -> bool:
        try:
            return attempt.step()
        except Exception as error:
            attempt.fail_with(error)
            return True
