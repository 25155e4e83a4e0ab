"""Logs of state machines, which a new machine can run again."""

from __future__ import annotations

from typing import Any, Protocol

from eagerflow.errors import ProtocolError
from eagerflow.machine_logs import go_through

#: for each event its time, the event, and the instructions that it led to
MachineLog = list[tuple[float, tuple[Any, ...], tuple[tuple[Any, ...], ...]]]


class Machine(Protocol):
    """A state machine driven by events."""

    def handle(self, event: tuple[Any, ...], now: float) -> list[tuple[Any, ...]]:
        """The instructions that follow from an event."""


def rerun(log: MachineLog, machine: Machine) -> None:
    """Feed the events of a log to a new machine, which must give the same instructions.

    Raises:
        ProtocolError: the instructions differ.
    """
    told = (((event, now), expected) for now, event, expected in log)
    go_through(told, machine.handle, ProtocolError)
