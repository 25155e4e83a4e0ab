"""The base of resources in which attempts wait: the first of each wait queue goes ahead.

Ctrl-C may come between any two calls here, too: see `eagerflow.resources.waiting_operations`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from contextlib import suppress
from itertools import count
from random import Random
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
#: draws a whole number below its argument
_draw: Final = Random(0).randrange
_UNLIMITED: Final = float("inf")


class AbstractMeeting(ABC):
    """A resource with wait queues of attempts, which wait for each other.

    Args:
        wait_queues: the number of wait queues. The first attempt of each is tried, in this order.
            Attempts of the last one take something out, those of the others put something in.
        kind: of resource, for events; empty for no events, if it has no elements.
        name: for display.

    Attributes:
        kind: the same.
        name: the same.
        identity: its name in its container.
        label: the name, or a generated unique one.
        made: the line that made it, None if not known.
        taken: the number of elements ever taken out; -1 where they are not counted.
        told_every: one change in this many, and about one wait in this many, are reported to those
            who hear of them in brief.
        room: the capacity in elements, infinity for any number.
        closed: whether new elements are refused.
        device: the device of the elements.
        types: of the parts of an element.
        lock: held during changes.
    """

    __slots__ = ("__weakref__", "_again", "_ended", "_told_wait", "_trying", "_untold",
                 "_wait_queues", "_waits", "identity", "kind", "label", "lock", "made", "name",
                 "told_every")  # fmt: skip
    taken: int = -1
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
        # reentrant: a finaliser that the garbage collector runs here may ask for the size
        self.lock: Final = threading.RLock()
        self._wait_queues: tuple[OrderedDict[AbstractAttempt, None], ...] = tuple(
            [OrderedDict() for _ in range(wait_queues)]
        )
        self._ended: deque[AbstractAttempt] = deque()  # ended attempts that wait for a callback
        self._trying = False
        self._again = False
        self.told_every = 1
        self._untold = 0  # changes to come that the last reported level stands for
        self._waits = 0  # since the last one that was reported
        self._told_wait = 1  # the number of the next one to report
        know(self)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The types with the device."""
        return tuple([kind.on(self.device) for kind in self.types])

    def called(self, what: str) -> str:
        """``what``, with the name of the resource if it has one."""
        return what if self.name is None else f"{what} {self.name!r}"

    @abstractmethod
    def state(self) -> str:
        """The state of the resource in words, for messages."""

    def size(self) -> int:
        """The number of elements."""
        return 0

    def level(self) -> Level:
        """The current level: elements, capacity and waiters."""
        with self.lock:
            return Level(*self._level())

    def _level(self) -> tuple[str, str, int, int, int, int, bool]:
        """The fields of the current level. The lock is held."""
        *puts, takes = map(len, self._wait_queues)
        room = 0 if self.room == _UNLIMITED else int(self.room)
        return self.label, self.kind, self.size(), room, sum(puts), takes, self.closed

    def tell_change(self) -> None:
        """Report the current level, unless the last report stands for this change, too."""
        if self._untold:
            self._untold -= 1
        else:
            self.tell()

    def count_wait(self) -> int:
        """The number of waits that one stands for which is over now; 0 if it is not reported.

        Which one is reported is drawn, as consumers and producers may alternate.
        """
        self._waits += 1
        if self._waits < self._told_wait:
            return 0
        waits, self._waits = self._waits, 0
        self._told_wait = 1 + _draw(2 * self.told_every - 1) if self.told_every > 1 else 1
        return waits

    def tell(self) -> None:
        """Report the current level to the instruments."""
        event: LevelEvent | None = None
        with self.lock:
            self._untold = 0 if LevelEvent.listeners else self.told_every - 1
            brief = LevelEvent.brief
            if brief is not None:
                brief((*self._level(), perf_counter(), self.taken))
            if LevelEvent.listeners:
                event = LevelEvent(**self.level()._asdict(), device=str(self.device or ""))
        if event is not None:
            event.stop = event.start
            end(event)

    def open_waits(self) -> list[WaitEvent]:
        """The events of the waits in progress."""
        with self.lock:
            events = [attempt.open_wait() for queue in self._wait_queues for attempt in queue]
        return [event for event in events if event is not None]

    def waiting(self, wait_queue: int) -> int:
        """The number of attempts that wait in one of the wait queues."""
        with self.lock:
            return sum(not attempt.done for attempt in self._wait_queues[wait_queue])

    def remove(self, attempt: AbstractAttempt) -> None:
        """Remove an attempt that has ended from its wait queue. The lock is held."""
        wait_queue = self._wait_queues[attempt.wait_queue]
        if attempt in wait_queue:
            if attempt._callback is not None:
                self._ended += (attempt,)
            del wait_queue[attempt]

    def settle(self, attempt: AbstractAttempt | None = None, tell: bool = True) -> None:
        """Let all attempts go as far as they can, and call back those that have ended.

        Args:
            attempt: a new attempt.
            tell: whether to call back now; a caller that holds the lock does it later.
        """
        late: BaseException | None = None
        ended: AbstractAttempt | None = None
        while True:
            try:
                if ended is not None:  # Ctrl-C came before its callback was called, or after
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
                        except Exception as error:  # of an instrument: the other callbacks go on
                            late = late or error
                        ended = None
                break
            except KeyboardInterrupt as error:  # raised at the end: other threads wait for this
                late = error
        if late is not None:
            raise late
        if tell and self.kind and LevelEvent.wanted:
            self.tell_change()

    def _add(self, attempt: AbstractAttempt) -> bool:
        """Put an attempt into its wait queue; returns whether others may be able to go ahead.

        An attempt that need not wait, and has no callback, does not enter the wait queue.
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
        if self._trying:  # called by a finaliser, in this thread
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
                        if attempt._callback is not None:  # else `settle` checks it when it begins
                            self._ended += (attempt,)
                        del wait_queue[attempt]
        finally:
            self._trying = False

    def _keep(self, attempt: AbstractAttempt) -> None:
        """Note that an attempt waits from now on."""
        try:
            attempt.keep()
        except Exception as error:  # such as too little memory
            attempt.fail_with(error)
            self.remove(attempt)
        attempt.since = perf_counter()

    def _step(self, attempt: AbstractAttempt) -> bool:
        try:
            return attempt.step()
        except Exception as error:
            attempt.fail_with(error)
            return True
