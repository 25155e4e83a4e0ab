"""What is closed when runners end, so that no reader waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final, final

from eagerflow.errors import TraceError
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.queue_state import QueueState

_lock: Final = threading.Lock()
_users: Final[dict[int, int]] = {}  # of how many runners, by the identity of what is closed


@final
class Closing:
    """What a runner closes at its end: with the last of those that share it, or if one fails.

    Args:
        closes: queues, barriers, or anything that has ``close``; or one of them.

    Raises:
        TraceError: something cannot be closed.
    """

    __slots__ = ("_held",)

    def __init__(self, closes: Any) -> None:
        several = isinstance(closes, Iterable) and not hasattr(closes, "close")
        held = tuple(closes) if several else (closes,)
        for one in held:
            if not callable(getattr(one, "close", None)):
                raise TraceError(
                    "spawn: closes has something that cannot be closed",
                    given=repr(one),
                    expected="queues, barriers, or anything that has a method close",
                )
        self._held = held
        with _lock:
            for one in held:
                _users[id(one)] = _users.get(id(one), 0) + 1

    def leave(self) -> None:
        """The runner has never begun: nothing is closed."""
        self._count()

    def close(self, runner: str, error: BaseException | None) -> None:
        """The runner has ended.

        Args:
            runner: its name.
            error: with which error, if with one. What others wait to put in is cancelled then, and
                waiting threads are told; nothing keeps the error itself, nor what its frames hold.
        """
        failure = None
        if error is not None:
            first = str(error).partition("\n")[0]
            failure = (
                f"the runner {runner} ended with {type(error).__name__}{first and f': {first}'}"
            )
        for one in self._count(error is not None):
            state = getattr(one, "resource", None)
            if isinstance(state, (QueueState, BarrierState)):
                state.end(failure)  # it does not wait until others have put in what they have
            else:
                one.close()

    def _count(self, failed: bool = False) -> list[Any]:
        """The runner counts no more; what is to be closed."""
        held, self._held = self._held, ()
        to_close = []
        with _lock:
            for one in held:
                left = _users[id(one)] - 1
                if left:
                    _users[id(one)] = left
                else:
                    del _users[id(one)]
                if failed or not left:
                    to_close.append(one)
        return to_close
