"""Runs a step in the thread that asks for it, no longer than its `ef.deadline` allows."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from eagerflow.errors import CancelledError, DeadlineError
from eagerflow.events import step_of
from eagerflow.runtime.generated.float_warnings import QUIET, error_state
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.deadline import blocks

_Result = TypeVar("_Result")


def run_in_time(run: Callable[[], _Result]) -> _Result:
    """Run a step, whose code asks between ops whether to go on (`step_of`).

    Raises:
        DeadlineError: it took longer than its `ef.deadline` allowed.
    """
    end = deadline.moment() if blocks.count and deadline.active() else None
    around = step_of.stopped

    def stopped() -> bool:
        late = end is not None and monotonic() >= end
        return late or (around is not None and around())

    if end is not None:
        if stopped():
            raise deadline.too_late()
        step_of.stopped = stopped
    token = error_state.set(QUIET)
    try:
        return run()
    except DeadlineError:
        raise
    except CancelledError as error:
        if end is None or monotonic() < end:
            raise
        failed = deadline.too_late()
        for note in getattr(error, "__notes__", ()):
            failed.add_note(note)
    finally:
        error_state.reset(token)
        step_of.stopped = around
    raise failed
