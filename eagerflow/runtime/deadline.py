"""`deadline`: how long the graphs that are run in a block may take."""

from __future__ import annotations

import threading
from contextvars import ContextVar, Token
from math import inf
from time import monotonic
from types import TracebackType
from typing import Final, final

from eagerflow.errors import DeadlineError, TensorValueError

__all__ = ["LATE", "active", "deadline", "moment", "too_late"]

#: why a step was cancelled whose deadline has passed
LATE: Final = "its deadline has passed"

_moment: Final[ContextVar[float]] = ContextVar("deadline", default=inf)
_lock: Final = threading.Lock()
_blocks = 0  # of all threads


@final
class deadline:  # noqa: N801 - used like a function
    """Give what runs in a ``with`` block so many seconds, from its beginning on.

    A traced function, a gradient of one, or `Graph.run` that has not ended by then is broken off
    between two ops and raises; one that is called later does so at once. What eager code does
    between them is not watched. Of blocks in each other the first deadline counts.

    Args:
        seconds: how many.

    Raises:
        TensorValueError: it is no positive number.

    >>> @ef.trace
    ... def endless(x):
    ...     return ef.while_loop(lambda x: x == x, lambda x: x + 1, x)
    >>> with ef.deadline(0.05):
    ...     endless(ef.tensor(1.0))
    Traceback (most recent call last):
    eagerflow.errors.DeadlineError: the step was cancelled: its deadline has passed
    ...
    """

    __slots__ = ("_seconds", "_tokens")

    def __init__(self, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise TensorValueError(
                "deadline: seconds must be positive", given=repr(seconds), expected="a number > 0"
            )
        self._seconds = seconds
        self._tokens: list[Token[float]] = []

    def __enter__(self) -> deadline:
        global _blocks
        self._tokens.append(_moment.set(min(_moment.get(), monotonic() + self._seconds)))
        with _lock:
            _blocks += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _blocks
        with _lock:
            _blocks -= 1
        _moment.reset(self._tokens.pop())


def active() -> bool:
    """Whether there may be a deadline; ask before `moment`, which takes longer."""
    return _blocks > 0


def moment() -> float | None:
    """The time (of ``time.monotonic``) at which steps of this thread end; None if never."""
    found = _moment.get()
    return None if found == inf else found


def too_late() -> DeadlineError:
    """The error of a step that took too long."""
    return DeadlineError(f"the step was cancelled: {LATE}")
