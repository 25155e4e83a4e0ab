"""Logs of state machines: what happened, which a new machine can go through again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eagerflow.errors import EagerflowError


def go_through(
    log: Iterable[tuple[tuple[Any, ...], Sequence[Any]]],
    handle: Callable[..., Iterable[Any]],
    error: type[EagerflowError],
) -> None:
    """Let a new machine go through the events of a log; its instructions must be the same.

    Args:
        log: for each event what the machine was told, the event first, and its instructions.
        handle: tells the new machine, and gives its instructions.
        error: the class of the error, if they are others.

    Raises:
        EagerflowError: they are not the same.

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
