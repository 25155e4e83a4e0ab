"""The state of a queue: its elements, and two wait queues, of attempts to put and to take.

The rules are TensorFlow's, case by case (docs/queues.md). Each wait queue is served in order and
only its first attempt is tried: an `enqueue_many` that waits for room keeps its elements together,
and a `dequeue_many` that waits for elements already holds those that have come. A close waits in
the queue of attempts to put, behind earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final
from weakref import ref

from eagerflow.error_messages import EagerflowError, note_failure
from eagerflow.errors import (
    EnqueueCancelledError,
    QueueClosedError,
    RunnerFailedError,
    WaitTimeoutError,
)
from eagerflow.events import LevelEvent, QueueEvent
from eagerflow.hardware import Device
from eagerflow.resources.attempt_events import tell_operation
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.queue_kinds import AbstractStore
from eagerflow.resources.requests import check_count
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.types import TensorType

_PUT: Final = 0
_TAKE: Final = 1
_NO_PRIORITY: Final = (0,)


@final
class _Enqueue(AbstractAttempt):
    """The attempt to put in elements, as there is room.

    Attributes:
        sent: the number of elements that are in.
    """

    __slots__ = ("_count", "_element", "_keep", "_priorities", "sent")

    def __init__(
        self, queue: QueueState, count: int, element: Callable[[int], Any],
        priorities: Sequence[int], what: str, keep: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(queue, _PUT, what)
        self._count = count
        self._element = element
        self._priorities = priorities
        self._keep = keep
        self.sent = 0
        self.done = not count

    def step(self) -> bool:
        queue, before, priorities = self.owner, self.sent, self._priorities
        store, closed = queue.store, queue.closed
        while self.sent < self._count and not closed and len(store.items) < queue.room:
            element = self._element(self.sent)
            priority = priorities[self.sent if len(priorities) > 1 else 0]
            store.put(self, element, priority)
        if self.sent >= self._count:
            self.done = True
        elif closed:
            what = self.what  # not self: the attempt would hold itself and its elements
            self.fail(lambda: queue.is_over(f"{what}: the queue is closed", queue.state()))
        return self.done or self.sent > before

    def keep(self) -> None:
        if self._keep is not None:
            self._keep()

    def late(self, seconds: float | None) -> Exception:
        error = super().late(seconds)
        if self.sent and isinstance(error, WaitTimeoutError):
            many = (
                f"{self.sent} of its {self._count} elements {'was' if self.sent == 1 else 'were'}"
            )
            error.reword(f"{error.wrong}; {many} put in, and stay in the queue")
        return error

    def retract(self) -> None:
        """Nothing: elements that are in stay in, as in TensorFlow; others may have taken them."""


@final
class _Dequeue(AbstractAttempt):
    """The attempt to take elements, as they come.

    Attributes:
        taken: the entries that it holds.
    """

    __slots__ = ("_count", "_partial", "taken")

    def __init__(self, queue: QueueState, count: int, partial: bool, what: str) -> None:
        super().__init__(queue, _TAKE, what)
        self._count = count
        self._partial = partial
        self.taken: list[Any] = []
        self.done = not count

    def step(self) -> bool:
        queue = self.owner
        store, count = queue.store, self._count
        if not queue.closed and not store.items:
            return False
        if queue.closed and store.available(True) + len(self.taken) < count:
            self.retract()
            if not self._partial or not store.items:
                left, what = len(store.items), self.what
                self.fail(lambda: _too_few(what, queue, count, left))
                return True
            self._count = count = len(store.items)
        before = len(self.taken)
        available = store.available(queue.closed)
        if not store.together or available >= count:
            while len(self.taken) < count and available > 0:
                store.move(self.taken)
                available -= 1
            queue.taken += len(self.taken) - before
        self.done = len(self.taken) >= count
        return self.done or len(self.taken) > before

    def retract(self) -> None:
        if self.taken:
            self.owner.taken -= len(self.taken)
            self.owner.store.restore(self)

    @property
    def value(self) -> list[Any]:
        element = self.owner.store.element
        return [element(entry) for entry in self.taken]


@final
class _Close(AbstractAttempt):
    """The attempt to close the queue, behind the attempts to put that waited before."""

    __slots__ = ()

    def step(self) -> bool:
        queue = self.owner
        if queue.closed:
            self.fail(lambda: queue.closed_already(queue.state()))
        else:
            queue.closed = True
            self.done = True
        return True

    def retract(self) -> None:
        """Nothing: the attempt holds no elements."""


@final
class _Sent:
    """The stand-in for an attempt, for an element that is put in without one."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = 0


def rest_hint(what: str, count: int) -> str | None:
    """The call that takes fewer elements at the end, for an operation that takes ``count``.

    Args:
        what: the operation.
        count: the number of elements.
    """
    return {
        "dequeue_many": f"dequeue_up_to({count}) takes what is left",
        "take_many": f"take_many({count}, allow_small_batch=True) takes what is ready",
    }.get(what)


#: the operations that any element would satisfy, and what is told where there is none any more
_ENDS: Final = ("dequeue", "dequeue_up_to")
_END: Final = "so the data of a queue ends; a loop, for x in queue, ends without an error"


def _too_few(what: str, queue: QueueState, count: int, left: int) -> EagerflowError:
    """The error for ``what``, an operation that takes ``count`` elements where so many are left."""
    if not left and what in _ENDS:
        expected = "an element" if count == 1 else f"1 to {count} elements"
        return queue.is_over(
            f"{what}: the queue is closed and empty", queue.state(), expected, _END
        )  # fmt: skip
    error = queue.is_over(
        f"{what}: the queue is closed and has too few elements",
        queue.state(),
        f"{count} element{'s' * (count != 1)}, of which there are {left}",
        rest_hint(what, count) if left else None,
    )
    if left and what == "dequeue_many" and isinstance(error, QueueClosedError):
        error.rest = RestOfQueue(queue, count)
    return error


@final
class RestOfQueue:
    """The elements that stay in a closed queue, as a `dequeue_many` waits for more.

    Args:
        queue: the queue, which this does not keep.
        count: the number of elements that the operation waits for.

    Attributes:
        count: the same.
        name: the queue in words.
    """

    __slots__ = ("_queue", "count", "name")

    def __init__(self, queue: QueueState, count: int) -> None:
        self._queue = ref(queue)
        self.count = count
        self.name = queue.called("closed queue")

    def __reduce__(self) -> tuple[object, ...]:
        return type(None), ()  # in another process it is no such queue

    def size(self) -> int:
        """The number of elements that are in the queue now."""
        queue = self._queue()
        return 0 if queue is None else queue.size()


@final
class QueueState(AbstractMeeting):
    """A queue of elements between producers and consumers.

    Elements may be any objects; those of `eagerflow.Queue` are tuples of arrays.

    Args:
        capacity: the greatest number of elements; None for any number.
        store: the store of the elements.
        kind: of queue.
        types: of the parts of an element.
        device: the device of the parts.
        name: for display.

    Attributes:
        store: the same.
        failure: the error of the producer that closed it, if any; a text.
        cause: that error, without its frames, if it is of this process.

    >>> from eagerflow.extending import FifoStore, QueueState
    >>> queue = QueueState(2, FifoStore(), name="words")
    >>> queue.put_at_once("first"), queue.put_at_once("second"), queue.put_at_once("third")
    (True, True, False)
    >>> queue.dequeue().wait()
    ['first']
    >>> print(queue.level())
    1 of 2
    """

    __slots__ = ("cause", "closed", "device", "failure", "room", "store", "taken", "types")

    def __init__(
        self,
        capacity: int | None,
        store: AbstractStore,
        kind: str = "fifo",
        types: Sequence[TensorType] = (),
        device: Device | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(2, kind, name)
        self.room = float("inf") if capacity is None else capacity
        self.store = store
        self.types = tuple(types)
        self.device = device
        self.closed = False
        self.taken = 0
        self.failure: str | None = None
        self.cause: BaseException | None = None

    def __repr__(self) -> str:
        kind = self.kind if self.kind == "barrier" else f"{self.kind} queue"
        return f"{self.called(kind)} of {', '.join(map(str, self.specs)) or 'elements'}"

    def state(self) -> str:
        return f"{self!r} with {self.level()}"

    def size(self) -> int:
        """The number of elements, without those that a waiting dequeue already holds."""
        return len(self.store.items)

    def enqueue(self, element: object, priority: int = 0) -> AbstractAttempt:
        """Put in one element."""
        return _Enqueue(self, 1, lambda _: element, (priority,), "enqueue")

    def enqueue_many(
        self, count: int, element: Callable[[int], Any], priorities: Sequence[int] = _NO_PRIORITY,
        keep: Callable[[], object] | None = None,
    ) -> AbstractAttempt:  # fmt: skip
        """Put in elements, one after the other as there is room.

        Args:
            count: the number of elements.
            element: gives an element by its number, when it is put in.
            priorities: one for each element, or one for all.
            keep: called when elements have to wait, to fix the later results of ``element``.
        """
        return _Enqueue(self, count, element, priorities, "enqueue_many", keep)

    def dequeue(self) -> AbstractAttempt:
        """Take one element; the value is a list of one."""
        return _Dequeue(self, 1, False, "dequeue")

    def dequeue_many(self, count: int, partial: bool = False) -> AbstractAttempt:
        """Take elements; the value is a list of them.

        Args:
            count: the number of elements.
            partial: whether fewer elements, but at least one, will do once the queue is closed.
        """
        what = "dequeue_up_to" if partial else "dequeue_many"
        check_count(what, count)
        return _Dequeue(self, count, partial, what)

    def put_at_once(self, element: object, priority: int = 0) -> bool:
        """Put in one element if it need not wait; returns whether it was put in.

        It makes no attempt. Ctrl-C may lose the answer: for callers that can do without it.
        """
        puts, takes = self._wait_queues
        with self.lock:
            if self.closed or puts or self._trying or len(self.store.items) >= self.room:
                return False
            self.store.put(_Sent(), element, priority)
        if takes:
            self.settle()
        elif LevelEvent.wanted:
            self.tell_change()
        if QueueEvent.listeners:
            tell_operation(self, "enqueue")
        return True

    def take_at_once(self) -> list[Any]:
        """A list of the next element, empty if it would have to wait; see `put_at_once`."""
        puts, takes = self._wait_queues
        store, taken = self.store, list[Any]()
        if not store.items:
            return taken
        with self.lock:
            if takes or self._trying or store.available(self.closed) < 1:
                return taken
            store.move(taken)
            self.taken += 1
        if puts:
            self.settle()
        elif LevelEvent.wanted:
            self.tell_change()
        if QueueEvent.listeners:
            tell_operation(self, "dequeue")
        return [store.element(taken[0])]

    def close(self) -> AbstractAttempt:
        """Refuse new elements, after the attempts that wait already."""
        return _Close(self, _PUT, "close")

    def end(self, failure: str | None = None, cause: BaseException | None = None) -> None:
        """Close the queue, without a wait; it may be closed already.

        Args:
            failure: the failure of the producer, quoted in later errors. It cancels the attempts
                to put that wait; without a failure these come first.
            cause: the error of the producer, the cause of later errors.
        """
        self.cause = self.cause or cause
        if failure is None:
            self.close().begin()
        else:
            self.cancel_and_close(failure=failure)

    def is_over(
        self, wrong: str, given: str, expected: str | None = None, hint: str | None = None
    ) -> EagerflowError:
        """The error of an operation that the end of the queue leaves undone.

        Args:
            wrong: the mistake.
            given: the state of the queue, or of what reads it.
            expected: what the operation needs.
            hint: the advice where the data have ended; a reader should expect no failure.
        """
        if self.failure is None:
            return QueueClosedError(wrong, given=given, expected=expected, hint=hint)
        return self._explained(
            RunnerFailedError(f"{wrong}, as a runner failed", given=given, expected=expected)
        )

    def was_cancelled(self, what: str) -> EagerflowError:
        """The error of an enqueue that waited as the queue was closed at once.

        Args:
            what: the operation.
        """
        wrong = f"{what}: the queue was closed while it waited"
        if self.failure is None:
            return EnqueueCancelledError(wrong, given=self.state())
        return self.is_over(wrong, self.state())

    def closed_already(self, given: str, what: str = "queue") -> EagerflowError:
        """The error of a second close: what it asks for is so, also where a runner has failed.

        Args:
            given: the state of the queue, or of what it is part of.
            what: the kind of what is closed.
        """
        error = QueueClosedError(f"close: the {what} is already closed", given=given)
        return self._explained(error)

    def _explained(self, error: EagerflowError) -> EagerflowError:
        """The error with the failure that closed the queue in its text, and its cause, if any."""
        if self.failure is not None:
            note_failure(error, self.failure)
            error.__cause__ = self.cause
        return error

    def cancel_and_close(self, drop: bool = False, failure: str | None = None) -> None:
        """Refuse new elements from now on, and cancel the attempts to put that wait.

        Args:
            drop: whether to drop the elements of the queue, too.
            failure: the failure of the producer, quoted in later errors.
        """
        self.failure = self.failure or failure
        if QueueEvent.listeners:
            tell_operation(self, "cancel_and_close")
        with self.lock:
            self.closed = True
            if drop:
                self.taken += len(self.store.items)
                self.store.items.clear()
            for attempt in list(self._wait_queues[_PUT]):
                if type(attempt) is _Close:
                    attempt.done = True
                else:
                    attempt.fail(partial(self.was_cancelled, attempt.what))
                self.remove(attempt)
        self.settle()
