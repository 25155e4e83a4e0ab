"""Whether the step that a thread works for is to end, asked by the code that runs in it."""

from __future__ import annotations

from eagerflow.errors import CancelledError
from eagerflow.events import step_of

__all__ = ["check", "step_of"]


def check(index: int, start: float, *outputs: object) -> float:
    """Raise if the step is to end; code that is to be stopped calls it after each op."""
    stopped = step_of.stopped
    if stopped is not None and stopped():
        raise CancelledError("the step was cancelled")
    return 0.0
