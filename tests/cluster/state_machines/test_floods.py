"""A client that asks for more than a server takes: it is told so, and memory is bounded."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from eagerflow.cluster.protocol.message_heads import step_number
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.messages import Abort, Goodbye, Hello, Register, Release, RunStep
from eagerflow.cluster.state_machines import server as servers
from eagerflow.cluster.state_machines import sessions
from eagerflow.cluster.state_machines.server import ServerMachine
from tests.cluster.state_machines.dialogues import ERROR, greeted, said
from tests.fakes.cluster import VERSIONS

MANY = 1_000


def wrongs(out: list[Any]) -> list[str]:
    """What is wrong, of all answers that say so."""
    return [one[2].error.wrong for one in out if one[0] == "send"]


def test_registrations_are_counted_before_they_are_read() -> None:
    server, numbers = greeted(limits=Limits(partitions=3)), count(2)
    out = [one for i in range(MANY) for one in said(server, Register(next(numbers), i, {}, {}, {}))]
    assert [one[0] for one in out].count("do") == 3
    assert set(wrongs(out)) == {"too many partitions"}
    assert server.held == 1 + 2 * 3  # the session, partitions, and requests not answered yet
    server.handle(("did", 77, 2, (), [], None), 0.0)
    server.handle(("did", 77, 3, (), [], ERROR), 0.0)  # was no graph
    said(server, Release(next(numbers), 0))
    out = [
        one for i in range(MANY, 2 * MANY)
        for one in said(server, Register(next(numbers), i, {}, {}, {}))
    ]  # fmt: skip
    assert [one[0] for one in out].count("do") == 2
    assert server.held == 1 + 2 * 3


def test_steps_that_wait_for_a_partition_are_limited() -> None:
    server = greeted(limits=Limits(steps=3))
    said(server, Register(2, 1, {}, {}, {}))
    out = [
        one for i in range(MANY)
        for one in said(server, RunStep(3 + i, step_number(77, 1 + i), 1))
    ]  # fmt: skip
    assert wrongs(out) == ["too many steps"] * (MANY - 3)
    ran = server.handle(("did", 77, 2, (), [], None), 0.0)
    assert [one[0] for one in ran].count("do") == 3


@pytest.mark.parametrize("partition", [1, 2**62])
def test_steps_of_unknown_partitions_leave_nothing(partition: int) -> None:
    server = greeted()
    out = [
        one for i in range(MANY)
        for one in said(server, RunStep(2 + i, step_number(77, 1 + i), partition))
    ]  # fmt: skip
    assert wrongs(out) == [f"there is no partition {partition}"] * MANY
    assert server.held == 1


def test_aborts_of_steps_that_have_not_begun_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_REMEMBERED", 5)
    server = greeted()
    said(server, Register(2, 1, {}, {}, {}))
    server.handle(("did", 77, 2, (), [], None), 0.0)
    for i in range(MANY):
        assert said(server, Abort(3 + i, step_number(77, 1 + i), ERROR)) == []
    (session,) = server._sessions.values()
    assert list(session.aborts) == [step_number(77, 1 + i) for i in range(MANY - 5, MANY)]
    (first,) = said(server, RunStep(3 + MANY, step_number(77, 1), 1))  # its abort was forgotten
    (last,) = said(server, RunStep(4 + MANY, step_number(77, MANY), 1))
    assert (first[0], last[2].error) == ("do", ERROR)


@pytest.mark.parametrize("session", [76, 78])
def test_steps_of_others_cannot_be_aborted(session: int) -> None:
    server = greeted()
    said(server, Hello(1, VERSIONS, 78, 1, "another"), "b")
    for i in range(MANY):
        assert said(server, Abort(2 + i, step_number(session, 1 + i), ERROR)) == []
    assert not any(one.aborts for one in server._sessions.values())


def test_sessions_that_come_and_go_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_REMEMBERED", 5)
    server = ServerMachine("ps:0", 12, VERSIONS, ())
    for i in range(1, MANY):
        said(server, Hello(1, VERSIONS, i, 1, "a client"), f"peer {i}")
        said(server, Goodbye(2), f"peer {i}")
    assert (server.held, len(server._over), len(server._by_peer)) == (0, 5, 0)
