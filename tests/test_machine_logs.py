"""Replay of the logs of state machines."""

from __future__ import annotations

import pytest

from eagerflow.errors import SchedulerError
from eagerflow.machine_logs import go_through

LOG = [(("add", 2), ("sum", 2)), (("add", 3), ("sum", 5))]


class Adder:
    """A machine that adds up the numbers of its events."""

    def __init__(self, start: int = 0) -> None:
        self.total = start

    def handle(self, event: str, x: int) -> list[object]:
        self.total += x
        return ["sum", self.total]


def test_a_machine_goes_through_the_whole_log() -> None:
    machine = Adder()
    go_through(LOG, machine.handle, SchedulerError)
    assert machine.total == 5


def test_other_instructions_are_refused_at_their_event() -> None:
    with pytest.raises(SchedulerError) as caught:
        go_through([LOG[0], (("add", 3), ("sum", 6))], Adder().handle, SchedulerError)
    assert caught.value.wrong == "event 1 add leads to other instructions than in the log"
    assert caught.value.given == "['sum', 5]"
    assert caught.value.expected == "('sum', 6)"
