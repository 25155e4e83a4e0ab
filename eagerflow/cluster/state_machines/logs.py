"""Logs of servers and clients, which new ones can go through again."""

from __future__ import annotations

from typing import Any, Protocol

from eagerflow.errors import ProtocolError
from eagerflow.machine_logs import go_through

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
    told = (((event, now), expected) for now, event, expected in log)
    go_through(told, machine.handle, ProtocolError)
