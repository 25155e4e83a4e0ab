"""Closing of queues and barriers at the end of runners, so that no reader waits for ever."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, final

from eagerflow.error_messages import shown_frames
from eagerflow.errors import QueueClosedError, RunnerFailedError, TraceError
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.resources_at_tasks import ResourceAtTask

_lock: Final = threading.Lock()
_users: Final[Counter[int]] = Counter()  # number of runners, by the identity of the object to close


class RunnerFailure(NamedTuple):
    """The failure of a runner, as the readers of its queues are told of it.

    Attributes:
        text: the runner, its error and its line.
        cause: the error, without the objects of its frames; None if it has no copy, or is of
            another process.
    """

    text: str
    cause: BaseException | None


def failure_of(runner: str, error: BaseException) -> RunnerFailure:
    """The failure of a runner; of one that the failure of another has ended, that of the other.

    Args:
        runner: the name of the runner.
        error: its error.
    """
    before = failure_behind(error)
    if before is not None:
        return before
    first, where = str(error).partition("\n")[0], _line(error)
    text = f"the runner {runner} ended with {type(error).__name__}{first and f': {first}'}"
    text += f"\n    at: {where}" if where else ""
    return RunnerFailure(text, _without_frames(error))


def failure_behind(error: BaseException | None) -> RunnerFailure | None:
    """The failure that closed a queue, by the error of an operation on it; None if none did."""
    if not isinstance(error, QueueClosedError | RunnerFailedError) or error.origin is None:
        return None
    return RunnerFailure(error.origin, error.__cause__)


@final
class Closing:
    """The objects that a runner closes when it fails, or when no other runner still shares them.

    Args:
        closes: queues, barriers, or other objects with ``close``; or one of them.

    Raises:
        TraceError: an object has no ``close``.
    """

    __slots__ = ("_held",)

    def __init__(self, closes: Any) -> None:
        several = isinstance(closes, Iterable) and not hasattr(closes, "close")
        held = tuple({id(one): one for one in (closes if several else (closes,))}.values())
        for one in held:
            if not callable(getattr(one, "close", None)):
                raise TraceError(
                    "spawn: closes contains an object that cannot be closed",
                    given=repr(one),
                    expected="queues, barriers, or other objects with a method close",
                )
        self._held = held
        with _lock:
            _users.update(map(id, held))

    def __bool__(self) -> bool:
        return bool(self._held)

    def close(self, failure: RunnerFailure | None) -> None:
        """Close at the end of the runner.

        Args:
            failure: None if it ended well. A failure cancels pending puts, and is quoted in the
                errors of waiting threads.
        """
        text, cause = failure or (None, None)
        for one in self.leave(failure is not None):
            state = getattr(one, "resource", None)
            # no end waits for pending puts of others
            if isinstance(state, QueueState | BarrierState):
                state.end(text, cause)
            elif isinstance(state, ResourceAtTask):
                state.end(text)
            else:
                one.close()

    def leave(self, failed: bool = False) -> list[Any]:
        """Stop counting the runner; gives the objects to close."""
        held, self._held = self._held, ()
        with _lock:
            _users.subtract(map(id, held))
            unused = [one for one in held if not _users[id(one)]]
            for one in unused:
                del _users[id(one)]
        return list(held) if failed else unused


def _without_frames(error: BaseException) -> BaseException | None:
    """A copy of the error with a note on its line in place of frames; None if it has no copy."""
    try:
        made: object = copy.copy(error)
    except Exception:  # of the user's class
        return None
    if not isinstance(made, BaseException) or made is error:
        return None
    made.__notes__ = list(getattr(error, "__notes__", ()))
    if getattr(error, "source", None) is None:
        where = _line(error)
        if where:
            made.add_note(f"  at: {where}")
    return made


def _line(error: BaseException) -> str:
    """The user's line that an error is about; empty if none is known."""
    source = getattr(error, "source", None)
    if source is not None:
        return str(source)
    frames = shown_frames(error)
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename}:{last.lineno} in {last.name}: {last.line}"
