"""What code that runs in a thread knows of the step that the thread works for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any, Final, final

from eagerflow.errors import CancelledError

#: the number of another step, unlike that of any other in this process
next_step: Final = count(1).__next__


@final
class _StepOf(threading.local):
    """What code that runs in a thread knows of the step that the thread works for.

    Attributes:
        step: its number; 0 outside of steps, and in one that was a call of generated code, since
            no instrument listened when it began.
        frames: the loops of it that the thread is in, each with its iteration.
        caller: the thread that asked for it, 0 where that is the same one.
        runner: the name of the runner that the thread works for, if it does for one.
        stopped: tells whether the step is to end; None if that is not asked for.
        observation: how the step is observed, if it is (see `eagerflow.runtime.observed_step`).
        telling: whether the thread is telling an instrument, which is told nothing of what it runs
            meanwhile: else it would be told of that, and so on without end.
        verifies: what is checked after each op, empty for nothing: ``"compared"`` native kernels
            with the ops that they stand for, ``"finite"`` results.
        told: seconds that the thread has spent telling instruments, ever.
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


#: of this thread
step_of: Final = _StepOf()


def check_stopped() -> None:
    """Raise if the step of this thread is to end.

    Raises:
        CancelledError: it is.
    """
    stopped = step_of.stopped
    if stopped is not None and stopped():
        raise CancelledError("the step was cancelled")
