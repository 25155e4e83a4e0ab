"""Logs of state machines, which can be replayed by a new machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eagerflow.errors import EagerflowError


def go_through(
    log: Iterable[tuple[tuple[Any, ...], Sequence[Any]]],
    handle: Callable[..., Iterable[Any]],
    error: type[EagerflowError],
) -> None:
    """Replay the events of a log in a new machine, whose instructions must be the same.

    Args:
        log: for each event the arguments of the machine, the event first, and its instructions.
        handle: passes an event to the new machine, and returns its instructions.
        error: the class of the error, if instructions differ.

    Raises:
        EagerflowError: the instructions differ.

    >>> from eagerflow.errors import SchedulerError
    >>> from eagerflow.machine_logs import go_through
    >>> go_through([(("tick",), ("tock",))], lambda event: ["tock"], SchedulerError)
    """
    for number, (told, expected) in enumerate(log):
        instructions = tuple(handle(*told))
        if instructions != tuple(expected):
            raise error(
                f"event {number} {told[0]} leads to other instructions than in the log",
                given=str(list(instructions)),
                expected=str(expected),
            )
