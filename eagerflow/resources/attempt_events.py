"""Events of operations on queues and their like, and of the waits in them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from threading import Lock
from typing import Any, Final, Protocol, final
from weakref import WeakValueDictionary

from eagerflow import events
from eagerflow.events import LevelEvent, QueueEvent, WaitEvent, step_of
from eagerflow.graph_position import GraphPosition, graph_position, thread_position
from eagerflow.hardware import Device
from eagerflow.resources.levels import Level


class _Resource(Protocol):
    """A queue or its like."""

    device: Device | None

    @property
    def kind(self) -> str: ...
    @property
    def label(self) -> str: ...


def operation_event(resource: _Resource, operation: str) -> QueueEvent:
    """The event of an operation that this thread does now."""
    return QueueEvent(**_described(resource, operation))


def wait_event(resource: _Resource, operation: str) -> WaitEvent:
    """The event of a wait of this thread, which begins now."""
    return WaitEvent(**_described(resource, operation))


def end_wait(event: WaitEvent, done: bool, failure: Callable[[], Exception] | None) -> None:
    """Tell that a wait is over: the attempt is done, or was given up by Ctrl-C."""
    if failure is not None:
        event.error = events.describe(failure())
    elif not done:
        event.error = KeyboardInterrupt.__name__
    events.end(event)


def level_event(level: Level, device: Device | None) -> LevelEvent:
    """The event of how a resource stands now."""
    event = LevelEvent(
        name=level.name, device="" if device is None else str(device), resource=level.kind,
        depth=level.depth, capacity=level.capacity, producers=level.producers,
        consumers=level.consumers, closed=level.closed,
    )  # fmt: skip
    event.stop = event.start
    return event


def _described(resource: _Resource, operation: str) -> dict[str, Any]:
    at = graph_position(3)
    return {**_at(resource, operation, at), "frames": (*step_of.frames, *at.frames)}


def _at(resource: _Resource, operation: str, at: GraphPosition) -> dict[str, Any]:
    return {
        "name": resource.label,
        "device": "" if resource.device is None else str(resource.device),
        "resource": resource.kind,
        "operation": operation,
        "executable": at.executable,
        "node": at.node,
        "source": at.source,
        "frames": at.frames,
    }


# --- waits that began when nobody listened ------------------------------------------------------


class _Waiting(Protocol):
    """An attempt that waits."""

    owner: Any
    what: str
    since: float | None

    @property
    def waiter(self) -> int | Callable[[], dict[str, Any]] | None: ...


def late_event(attempt: _Waiting) -> WaitEvent:
    """The event of a wait that goes on, made on request; its beginning is not told."""
    if callable(attempt.waiter):
        known = attempt.waiter()
    else:
        thread = attempt.waiter or 0
        known = {**_at(attempt.owner, attempt.what, thread_position(thread)), "thread": thread,
                 "caller": 0, "runner": "", "step": 0}  # fmt: skip
    event = WaitEvent(**known)
    assert attempt.since is not None
    event.start = attempt.since
    events.tell_nobody(event)
    return event


class _Meeting(Protocol):
    def open_waits(self) -> list[WaitEvent]: ...


_serial: Final = count(1)
#: by number; it needs no lock, as each access of it is one operation of a dictionary
_meetings: Final[WeakValueDictionary[int, _Meeting]] = WeakValueDictionary()


def know(meeting: _Meeting) -> None:
    """Ask a resource, as long as it lives, for the waits that go on in it."""
    _meetings[next(_serial)] = meeting


def _open_waits() -> list[WaitEvent]:
    meetings = [meeting() for meeting in _meetings.valuerefs()]
    return [event for one in meetings if one is not None for event in one.open_waits()]


events.ask_for_waits(_open_waits)


def tell_operation(resource: _Resource, operation: str) -> None:
    """Tell of an operation that does not wait: of its beginning and its end at once."""
    event = operation_event(resource, operation)
    event.stop = event.start
    try:
        events.begin(event)
    finally:
        events.end(event)


class _Attempt(Protocol):
    """An attempt that was not begun yet."""

    owner: Any
    what: str
    since: float | None
    event: WaitEvent | None

    @property
    def failure(self) -> Callable[[], Exception] | None: ...
    def begin(self, callback: Callable[[], object] | None = None) -> None: ...


def begin_told(attempt: _Attempt, callback: Callable[[], object]) -> None:
    """Begin an attempt that this thread will wait for by itself, and tell of it.

    Args:
        attempt: such as `QueueState.dequeue` gives.
        callback: called once it has ended.

    >>> from eagerflow.extending.pipelines import FifoStore, QueueState, begin_told
    >>> queue = QueueState(1, FifoStore(), name="squares")
    >>> begin_told(queue.dequeue(), lambda: print("there is one"))
    >>> queue.put_at_once(9)
    there is one
    True
    """
    owner, what = attempt.owner, attempt.what
    told = ToldAttempt(
        operation_event(owner, what) if QueueEvent.listeners else None,
        wait_event(owner, what) if WaitEvent.listeners else None,
    )

    def ended() -> None:
        try:
            told.end("" if attempt.failure is None else events.describe(attempt.failure()))
        finally:
            callback()

    told.begin(attempt, ended)


@final
class ToldAttempt:
    """Tells of an attempt that holds no thread while it waits.

    Any thread may end it, also before the one that has begun it could tell that it waits: then that
    one tells both.

    Args:
        operation: the event of it; None if no instrument wants it.
        wait: the event of its wait, if there will be one; None if no instrument wants it.
    """

    __slots__ = ("_ended", "_error", "_lock", "_operation", "_ready", "_wait")

    def __init__(self, operation: QueueEvent | None, wait: WaitEvent | None) -> None:
        self._operation = operation
        self._wait = wait
        self._lock = Lock()
        self._ready = False  # whether the beginnings were told
        self._ended = False
        self._error = ""

    def begin(self, attempt: _Attempt, callback: Callable[[], object]) -> None:
        """Begin the attempt; ``callback``, which calls `end`, is called once it has ended."""
        try:
            if self._operation is not None:
                events.begin(self._operation)
            attempt.event = self._wait
            attempt.begin(callback)
            if attempt.since is not None and self._wait is not None:
                events.begin(self._wait)
        except BaseException as error:
            self.end(events.describe(error))
            raise
        finally:
            with self._lock:
                self._ready = True
                ended = self._ended
            if ended:
                self._tell_end()

    def end(self, error: str = "") -> None:
        """It has ended; what comes later than the first call is ignored."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._error = error
            ready = self._ready
        if ready:
            self._tell_end()

    def _tell_end(self) -> None:
        for event in (self._wait, self._operation):
            if event is not None and event.was_told:
                event.error = self._error
                events.end(event)
