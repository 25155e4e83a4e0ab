"""Events of operations on queues and other meetings, and of the waits in them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from itertools import count
from threading import Lock, get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakValueDictionary

from eagerflow import events
from eagerflow.events import QueueEvent, WaitEvent, step_of
from eagerflow.events.instruments import ask_for_waits, call_after_changes, tell_nobody
from eagerflow.resources.queue_levels import Level
from eagerflow.running_node import RunningNode, brief_node, node_of_thread, running_node

if TYPE_CHECKING:
    from eagerflow.resources.meetings import AbstractMeeting
    from eagerflow.resources.waiting_operations import AbstractAttempt


def operation_event(resource: AbstractMeeting, operation: str) -> QueueEvent:
    """The event of an operation that begins now in this thread."""
    return QueueEvent(**_described(resource, operation))


def wait_event(resource: AbstractMeeting, operation: str) -> WaitEvent:
    """The event of a wait of this thread, which begins now."""
    return WaitEvent(**_described(resource, operation))


def end_wait(event: WaitEvent, done: bool, failure: Callable[[], Exception] | None) -> None:
    """Report the end of a wait: the attempt is done, or was interrupted by Ctrl-C."""
    if failure is not None:
        event.error = events.describe(failure())
    elif not done:
        event.error = KeyboardInterrupt.__name__
    events.end(event)


def note_wait(resource: AbstractMeeting, operation: str, start: float) -> None:
    """Report a wait of this thread that is over to those who hear of waits in brief.

    Args:
        resource: the resource.
        operation: the name of the operation.
        start: when it began.
    """
    brief = WaitEvent.brief
    if brief is not None and (waits := resource.count_wait()):
        executable, node = brief_node(3)
        brief(
            (resource.label, operation, executable, node, step_of.runner, get_ident(), start,
             perf_counter(), waits)
        )  # fmt: skip


def noting(
    attempt: AbstractAttempt, callback: Callable[[], object],
    place: Callable[[], tuple[int, str, str, int]],
) -> Callable[[], object]:  # fmt: skip
    """A callback of an attempt for which no thread sleeps, which reports the wait in brief first.

    Args:
        attempt: the attempt.
        callback: called once the attempt has ended.
        place: gives the executable, the node, the runner and the thread, as in a `BriefWait`.
    """
    if WaitEvent.brief is None:
        return callback

    def ended() -> None:
        brief = WaitEvent.brief
        since, owner = attempt.since, attempt.owner
        if brief is not None and since is not None and (waits := owner.count_wait()):
            brief((owner.label, attempt.what, *place(), since, perf_counter(), waits))
        callback()

    return ended


def _place(known: Mapping[str, Any]) -> tuple[int, str, str, int]:
    return known["executable"], known["node"], known["runner"], known["thread"]


def _described(resource: AbstractMeeting, operation: str) -> dict[str, Any]:
    at = running_node(3)
    return {**_at(resource, operation, at), "frames": (*step_of.frames, *at.frames)}


def _at(resource: AbstractMeeting, operation: str, at: RunningNode) -> dict[str, Any]:
    return {
        "name": resource.label,
        "device": str(resource.device or ""),
        "resource": resource.kind,
        "operation": operation,
        "executable": at.executable,
        "node": at.node,
        "source": at.source,
        "frames": at.frames,
    }


# --- waits that began without a listener --------------------------------------------------------


def late_event(attempt: AbstractAttempt) -> WaitEvent:
    """The event of a wait in progress, made on request; its beginning is not reported."""
    if callable(attempt.waiter):
        known = attempt.waiter()
    else:
        thread = attempt.waiter or 0
        known = {**_at(attempt.owner, attempt.what, node_of_thread(thread)), "thread": thread,
                 "caller": 0, "runner": attempt.runner, "step": 0}  # fmt: skip
    event = WaitEvent(**known)
    assert attempt.since is not None
    event.start = attempt.since
    tell_nobody(event)
    return event


_serial: Final = count(1)
#: the living meetings by number; no lock is needed, as each access is one dictionary operation
_meetings: Final[WeakValueDictionary[int, AbstractMeeting]] = WeakValueDictionary()


def know(meeting: AbstractMeeting) -> None:
    """Register a resource, as long as it lives, to be asked for its waits in progress."""
    _meetings[next(_serial)] = meeting


def levels_of(names: Container[str]) -> list[Level]:
    """The levels of the queues and other meetings of these names.

    >>> from eagerflow.resources.attempt_events import levels_of
    >>> letters = ef.Queue(4, ef.tensor(0), name="unused")
    >>> [(level.name, level.elements) for level in levels_of(["unused"])]
    [('unused', '0 of 4')]
    """
    return [one.level() for one in _living() if one.kind and one.label in names]


def flows_of_queues() -> dict[str, tuple[int, int]]:
    """By the name of each queue, the numbers of elements ever put in and ever taken out.

    >>> from eagerflow.resources.attempt_events import flows_of_queues
    >>> letters = ef.Queue(4, ef.tensor(0), name="read")
    >>> letters.enqueue_many([1, 2, 3])
    >>> int(letters.dequeue()), flows_of_queues()["read"]
    (1, (3, 1))
    """
    flows = {}
    for one in _counting():
        with one.lock:
            flows[one.label] = one.taken + one.size(), one.taken
    return flows


def thin_out(every: Mapping[str, int]) -> None:
    """Let one reported level of a queue stand for several changes, and report the present one.

    Args:
        every: the number of changes, by the name of the queue.
    """
    for one in _counting():
        changes = every.get(one.label)
        if changes is not None:
            one.told_every = changes
            one.tell()


def _counting() -> list[AbstractMeeting]:
    """The living meetings that count the elements taken out."""
    return [one for one in _living() if one.kind and one.taken >= 0]


def _living() -> list[AbstractMeeting]:
    return [one for ref in _meetings.valuerefs() if (one := ref()) is not None]


def _open_waits() -> list[WaitEvent]:
    return [event for one in _living() for event in one.open_waits()]


def _report_each() -> None:
    """Have all meetings report each change, as an instrument has come or gone."""
    for one in _living():
        one.told_every, one._untold, one._told_wait = 1, 0, 1


ask_for_waits(_open_waits)
call_after_changes(_report_each)


def tell_operation(resource: AbstractMeeting, operation: str) -> None:
    """Report an operation that does not wait: its beginning and its end at once."""
    event = operation_event(resource, operation)
    event.stop = event.start
    try:
        events.begin(event)
    finally:
        events.end(event)


def begin_told(
    attempt: AbstractAttempt, callback: Callable[[], object],
    described: Callable[[], dict[str, Any]] | None = None,
) -> None:  # fmt: skip
    """Begin an attempt for which no thread sleeps, with events if an instrument wants them.

    Args:
        attempt: the attempt, such as the result of `QueueState.dequeue`.
        callback: called once the attempt has ended.
        described: gives the fields of the events; by default those of this thread.

    >>> from eagerflow.extending import FifoStore, QueueState, begin_told
    >>> queue = QueueState(1, FifoStore(), name="squares")
    >>> begin_told(queue.dequeue(), lambda: print("there is one"))
    >>> queue.put_at_once(9)
    there is one
    True
    """
    is_heard = QueueEvent.listeners or WaitEvent.listeners
    if not is_heard and WaitEvent.brief is None:
        attempt.begin(callback)
        return
    if described is None:
        here = {"runner": attempt.runner or step_of.runner, "thread": get_ident()}
        known = {**here, **_described(attempt.owner, attempt.what)}
    else:
        known = described()
    callback = noting(attempt, callback, lambda: _place(known))
    if is_heard:
        _Told(attempt, known).begin(callback)
    else:
        attempt.begin(callback)


@final
class _Told:
    """The events of an attempt for which no thread sleeps.

    Any thread may end the attempt, even before the thread that began it has reported the wait: then
    the latter reports both.

    Args:
        attempt: an attempt that was not begun yet.
        known: the fields of its events.
    """

    __slots__ = ("_attempt", "_ended", "_error", "_lock", "_operation", "_ready", "_wait")

    def __init__(self, attempt: AbstractAttempt, known: dict[str, Any]) -> None:
        self._attempt = attempt
        self._operation = QueueEvent(**known) if QueueEvent.listeners else None
        self._wait = WaitEvent(**known) if WaitEvent.listeners else None
        self._lock = Lock()
        self._ready = False  # whether the beginnings were reported
        self._ended = False
        self._error = ""

    def begin(self, callback: Callable[[], object]) -> None:
        """Begin the attempt."""
        attempt = self._attempt

        def ended() -> None:
            try:
                self._end("" if attempt.failure is None else events.describe(attempt.failure()))
            finally:
                callback()

        try:
            if self._operation is not None:
                events.begin(self._operation)
            attempt.event = self._wait
            attempt.begin(ended)
            if attempt.since is not None and self._wait is not None:
                events.begin(self._wait)
        except BaseException as error:
            self._end(events.describe(error))
            raise
        finally:
            with self._lock:
                self._ready = True
                over = self._ended
            if over:
                self._tell_end()

    def _end(self, error: str) -> None:
        """Note that the attempt has ended; calls after the first are ignored."""
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
