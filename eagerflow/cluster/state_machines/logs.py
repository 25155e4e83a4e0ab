"""Logs of state machines: what happened, which a new machine can go through again."""

from __future__ import annotations

from typing import Any, Protocol

from eagerflow.errors import ProtocolError

#: what happened: the time, the event, and the instructions that it led to
MachineLog = list[tuple[float, tuple[Any, ...], tuple[tuple[Any, ...], ...]]]


class Machine(Protocol):
    """A state machine that is told of events."""

    def handle(self, event: tuple[Any, ...], now: float) -> list[tuple[Any, ...]]:
        """What is to be done now that ``event`` has happened."""


def rerun(log: MachineLog, machine: Machine) -> None:
    """Let a new machine go through the events of a log; its instructions must be the same.

    Raises:
        ProtocolError: they are not.
    """
    for number, (now, event, expected) in enumerate(log):
        instructions = machine.handle(event, now)
        if tuple(instructions) != expected:
            raise ProtocolError(
                f"event {number} {event} leads to other instructions than in the log",
                given=str(instructions),
                expected=str(expected),
            )
