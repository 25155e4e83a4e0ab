"""The loss of a task: who has answered already may still hold what it has sent there."""

from __future__ import annotations

from typing import Any

import pytest

from eagerflow.cluster.protocol.failures import write_error
from eagerflow.cluster.protocol.message_heads import step_number
from eagerflow.cluster.protocol.messages import Abort, Done, Failed, Welcome
from eagerflow.cluster.state_machines.client import ClientMachine
from eagerflow.errors import TensorValueError
from tests.cluster.state_machines.dialogues import PART
from tests.fakes.cluster import VERSIONS

TASKS = ("ps:0", "ps:1", "worker:0")
STEP = step_number(77, 1)


@pytest.fixture
def client() -> ClientMachine:
    """A client whose step runs at three tasks."""
    made = ClientMachine(77, VERSIONS, "a client")
    for task in TASKS:
        made.handle(("connect", task), 0.0)
        made.handle(("message", task, Welcome(1, VERSIONS, task, 12, (), 30.0), []), 0.0)
    made.handle(("run", "a", STEP, dict.fromkeys(TASKS, PART)), 0.0)
    return made


def aborted(out: list[Any]) -> list[tuple[str, int]]:
    """The tasks that are told to end a step, with the step."""
    return [(one[1], one[2].step) for one in out if one[0] == "send" and type(one[2]) is Abort]


def test_a_loss_is_told_to_those_that_have_answered(client: ClientMachine) -> None:
    client.handle(("message", "ps:0", Done(2, 2), []), 0.0)
    out = client.handle(("closed", "worker:0"), 0.0)
    assert aborted(out) == [("ps:0", STEP), ("ps:1", STEP)]
    (end,) = client.handle(("message", "ps:1", Done(2, 2), []), 0.0)
    assert (end[:2], end[2].kind) == (("failed", "a"), "TaskLost")
    assert client.held == 0


def test_another_failure_is_told_to_those_that_have_not(client: ClientMachine) -> None:
    """What goes to a task that lives arrives there."""
    client.handle(("message", "ps:0", Done(2, 2), []), 0.0)
    error = write_error(TensorValueError("it has failed"), "worker:0")
    out = client.handle(("message", "worker:0", Failed(2, 2, error), []), 0.0)
    assert aborted(out) == [("ps:1", STEP)]


def test_a_loss_of_two_is_told_to_the_third_once(client: ClientMachine) -> None:
    client.handle(("message", "ps:0", Done(2, 2), []), 0.0)
    first = client.handle(("closed", "worker:0"), 0.0)
    second = client.handle(("closed", "ps:1"), 0.0)
    assert aborted(first) == [("ps:0", STEP), ("ps:1", STEP)]
    assert aborted(second) == []
    assert [one[:2] for one in second if one[0] == "failed"] == [("failed", "a")]
    assert client.held == 0
