"""`deadline`: a time limit for the graphs that run in a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import Any, Final, final

from eagerflow.errors import CancelledError, DeadlineError, TensorValueError
from eagerflow.events import step_of
from eagerflow.resources.waiting_operations import limited

#: the reason for which a step is cancelled when its deadline has passed
LATE: Final = "its deadline has passed"

_moment: Final[ContextVar[float]] = ContextVar("deadline", default=inf)
_lock: Final = threading.Lock()


@final
class _Blocks:
    """The open blocks of all threads.

    Attributes:
        count: the number of open blocks.
    """

    count = 0


#: read by a step before it calls `active`
blocks: Final = _Blocks()


@final
class deadline:
    """Limit the runs in a ``with`` block to a number of seconds, from its beginning on.

    A traced function, a gradient of one, or `Graph.run` that has not ended by then is broken off
    between two ops and raises; a later call raises at once. A wait for a queue, an accumulator, a
    barrier or a mutex, in eager code too, ends then, and what it had taken goes back. Nothing else
    in eager code is limited. A runner that is spawned in the block has the same deadline. Of
    nested blocks the earliest deadline counts.

    Args:
        seconds: the limit.

    Raises:
        TensorValueError: the limit is no positive number.

    >>> @ef.trace
    ... def endless(x):
    ...     return ef.while_loop(lambda x: x == x, lambda x: x + 1, x)
    >>> try:
    ...     with ef.deadline(0.05):
    ...         endless(ef.tensor(1.0))
    ... except ef.errors.DeadlineError as error:
    ...     print(str(error).splitlines()[0])
    the step was cancelled: its deadline has passed
    """

    __slots__ = ("_blocks", "_seconds")

    def __init__(self, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise TensorValueError(
                "deadline: seconds must be positive", given=repr(seconds), expected="a number > 0"
            )
        self._seconds = seconds
        self._blocks: list[AbstractContextManager[None]] = []

    def __enter__(self) -> deadline:
        block = ends_at(monotonic() + self._seconds)
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *raised: object) -> None:
        self._blocks.pop().__exit__(None, None, None)


@contextmanager
def ends_at(moment: float) -> Iterator[None]:
    """As `deadline`, given the time (of ``time.monotonic``) at which the block ends."""
    end = min(_moment.get(), moment)
    token = _moment.set(end)
    _count(1)
    try:
        with limited(lambda: end - monotonic(), _late):
            yield
    finally:
        _count(-1)
        _moment.reset(token)


@contextmanager
def ends_when(stopped: Callable[[], bool]) -> Iterator[None]:
    """End the steps of this thread within the block as soon as ``stopped`` returns True.

    They ask it between two ops. A waiting step has to be woken besides.
    """
    around, step_of.stopped = step_of.stopped, stopped
    _count(1)
    try:
        yield
    finally:
        _count(-1)
        step_of.stopped = around


def _count(change: int) -> None:
    with _lock:
        blocks.count += change


def _late(attempt: Any) -> DeadlineError:
    return waited_too_long(attempt.what, attempt.owner.state())


def waited_too_long(what: str, state: str | None) -> DeadlineError:
    """The error of an operation that waited for a resource in this state."""
    return DeadlineError(f"{what}: it still waits, and {LATE}", given=state)


def active() -> bool:
    """Whether steps of this thread may have to end early; cheap where no block is open."""
    return blocks.count > 0 and (_moment.get() != inf or step_of.stopped is not None)


def moment() -> float | None:
    """The time (of ``time.monotonic``) at which steps of this thread end; None if never."""
    end = _moment.get()
    return None if end == inf else end


def check() -> None:
    """Raise if the deadline of this thread has passed.

    Raises:
        DeadlineError: the deadline has passed.
    """
    if blocks.count and monotonic() >= _moment.get():
        raise too_late()


def too_late() -> DeadlineError:
    """The error of a step that took too long."""
    return DeadlineError(f"the step was cancelled: {LATE}")


def broken_off(reason: str) -> CancelledError:
    """The error of a step that was cancelled for a reason."""
    return too_late() if reason == LATE else CancelledError(f"the step was cancelled: {reason}")
