"""What is closed when runners end, so that no reader waits for ever."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, final

from eagerflow.errors import TraceError
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.queue_state import QueueState

_lock: Final = threading.Lock()
_users: Final[Counter[int]] = Counter()  # of how many runners, by the identity of what is closed


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
        held = tuple({id(one): one for one in (closes if several else (closes,))}.values())
        for one in held:
            if not callable(getattr(one, "close", None)):
                raise TraceError(
                    "spawn: closes has something that cannot be closed",
                    given=repr(one),
                    expected="queues, barriers, or anything that has a method close",
                )
        self._held = held
        with _lock:
            _users.update(map(id, held))

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
        for one in self.leave(error is not None):
            state = getattr(one, "resource", None)
            if isinstance(state, (QueueState, BarrierState)):
                state.end(failure)  # it does not wait until others have put in what they have
            else:
                one.close()

    def leave(self, failed: bool = False) -> list[Any]:
        """The runner counts no more; what is to be closed."""
        held, self._held = self._held, ()
        with _lock:
            _users.subtract(map(id, held))
            unused = [one for one in held if not _users[id(one)]]
            for one in unused:
                del _users[id(one)]
        return list(held) if failed else unused
