"""The context of a thread: the step that it works for, and settings of that step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any, Final, final

from eagerflow.errors import CancelledError

#: gives the next number of a step, unique in this process
next_step: Final = count(1).__next__


@final
class _StepOf(threading.local):
    """The state of a thread with respect to the step that it works for.

    Attributes:
        step: the number of the step; 0 outside of steps, and in a step that was a call of generated
            code, since no instrument listened when it began.
        frames: the loops of the step that the thread is in, each with its iteration.
        caller: the thread that asked for the step, 0 if that is the same thread.
        runner: the name of the runner that the thread works for; empty for none.
        stopped: says whether the step is to end; None if it cannot be stopped.
        observation: the observation of the step, if there is one (see
            `eagerflow.runtime.observed_step`).
        telling: whether the thread is calling an instrument; ops that the instrument runs are not
            reported, or reports would never end.
        verifies: the check after each op, empty for none: ``"compared"`` of native kernels with the
            ops that they stand for, ``"finite"`` of results.
        told: seconds that the thread has spent in instruments so far.
    """

    step: int = 0
    frames: tuple[tuple[str, int], ...] = ()
    caller: int = 0
    runner: str = ""
    stopped: Callable[[], bool] | None = None
    observation: Any = None
    telling: bool = False
    verifies: str = ""
    told: float = 0.0


#: the state of this thread
step_of: Final = _StepOf()


def check_stopped() -> None:
    """Raise if the step of this thread is to end.

    Raises:
        CancelledError: the step is to end.
    """
    stopped = step_of.stopped
    if stopped is not None and stopped():
        raise CancelledError("the step was cancelled")
