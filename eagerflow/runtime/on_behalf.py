"""What code that runs in a thread knows of the step that the thread works for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, final

from eagerflow.errors import CancelledError

__all__ = ["check", "step_of"]


@final
class _StepOf(threading.local):
    """Of each thread.

    Attributes:
        stopped: tells whether the step is to end; None if nobody wants to know.
        caller: the thread that asked for the step, 0 where that is the same one.
        runner: the name of the runner that the thread works for, if it does for one.
    """

    stopped: Callable[[], bool] | None = None
    caller: int = 0
    runner: str = ""


#: of this thread
step_of: Final = _StepOf()


def check(index: int, start: float, *outputs: Any) -> float:
    """Raise if the step is to end; code that is to be stopped calls it after each op."""
    stopped = step_of.stopped
    if stopped is not None and stopped():
        raise CancelledError("the step was cancelled")
    return 0.0
