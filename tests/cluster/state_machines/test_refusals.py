"""What a server refuses, and what ends a session."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from eagerflow.cluster.protocol.message_heads import NumberHead, step_number
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.messages import (
    Abort,
    Done,
    Failed,
    Fetch,
    Goodbye,
    Hello,
    PacketMessage,
    Peers,
    Register,
    Release,
    RunStep,
    Versions,
    Welcome,
)
from eagerflow.cluster.state_machines import logs
from eagerflow.cluster.state_machines.client import ClientMachine
from eagerflow.cluster.state_machines.server import ServerMachine
from eagerflow.errors import ProtocolError
from tests.cluster.state_machines.dialogues import ERROR, answer, greeted, ready, run, said
from tests.fakes.cluster import VERSIONS


@pytest.mark.parametrize("field", ["protocol", "graph_text", "byte_order"])
def test_other_versions_are_refused_with_both(field: str) -> None:
    value: Any = {"protocol": 2, "graph_text": 3, "byte_order": "big"}[field]
    theirs = replace(VERSIONS, **{field: value, "eagerflow": "9.9"})
    server = ServerMachine("ps:0", 12, VERSIONS, ("cpu:0",))
    ((_, _, answer, _),) = said(server, Hello(1, theirs, 77, 1, "a client"))
    assert isinstance(answer, Failed)
    assert answer.error.given == f"{value}, of eagerflow 9.9"
    assert answer.error.expected.endswith("of eagerflow 0.1 at ps:0")
    assert server.held == 0


def test_other_packages_are_a_warning() -> None:
    theirs = Versions(1, 2, "little", "0.2", "native", "3.12", "2.5")
    client = ClientMachine(77, VERSIONS, "a client")
    client.handle(("connect", "ps:0"), 0.0)
    welcome = Welcome(1, theirs, "ps:0", 12, ("cpu:0",), 30.0)
    out = client.handle(("message", "ps:0", welcome, []), 0.0)
    assert [text for kind, text, *_ in out if kind == "warn"] == [
        "ps:0 has eagerflow 0.2, this process 0.1",
        "ps:0 has kernels native, this process portable",
        "ps:0 has python 3.12, this process 3.11",
        "ps:0 has numpy 2.5, this process 2.4",
    ]


def test_a_message_that_comes_again_does_nothing() -> None:
    server = greeted()
    register = Register(2, 1, {}, {}, {})
    assert said(server, register) == [("do", 77, register, [])]
    assert said(server, register) == []
    assert said(server, Hello(1, VERSIONS, 77, 1, "again")) != []  # refused, but the session stays
    server.handle(("did", 77, 2, (), [], None), 0.0)
    run = RunStep(3, step_number(77, 1), 1)
    assert said(server, run) == [("do", 77, run, [])]
    assert said(server, run) == []
    (refused,) = said(server, replace(run, number=4))
    assert "is not the next one of its session" in refused[2].error.wrong
    assert server.counts["a message that came before"] == 2


def test_a_step_that_is_not_run_lets_go_of_what_it_was_to() -> None:
    server = greeted()
    refused = RunStep(2, step_number(77, 1), 5, free=(8,))
    assert said(server, refused)[0] == ("let go", 77, (8,))
    said(server, Register(3, 1, {}, {}, {}))
    for number in (4, 5):
        assert said(server, RunStep(number, step_number(77, number), 1, free=(number,))) == []
    said(server, Abort(6, step_number(77, 4), ERROR))
    out = server.handle(("did", 77, 3, (), [], ERROR), 0.0)
    assert [one[2] for one in out if one[0] == "let go"] == [(4,), (5,)]


def test_a_recorded_session_cannot_be_repeated() -> None:
    cluster = ready()
    run(cluster, "a")
    cluster.run(5)
    wire = cluster.wires[77, "ps:0"]
    recorded = list(cluster.sent[wire])
    task = cluster.tasks["ps:0"]
    held, log = task.machine.held, len(task.machine.log)
    for frames in recorded:
        cluster.replay("ps:0", 999, frames)
        cluster.replay("ps:0", wire, frames)
    done = [kind for _, _, out in task.machine.log[log:] for kind, *_ in out]
    assert "do" not in done
    assert task.machine.held == held
    cluster.cut(77, "ps:0")
    cluster.run(5)
    for frames in recorded:
        cluster.replay("ps:0", 1000, frames)
    assert task.machine.held == 0


def test_a_gap_ends_the_session() -> None:
    server = greeted()
    out = said(server, Fetch(3, 1, 0))
    assert [one[0] for one in out] == ["send", "close", "free"]


def test_sessions_are_apart() -> None:
    server = greeted()
    said(server, Hello(1, VERSIONS, 78, 1, "another"), "b")
    said(server, Register(2, 1, {}, {}, {}), "a")
    server.handle(("did", 77, 2, (), [], None), 0.0)
    (answer,) = said(server, RunStep(2, step_number(78, 1), 1), "b")
    assert answer[2].error.wrong == "there is no partition 1"
    (answer,) = said(server, RunStep(3, step_number(77, 1), 1), "b")
    assert "is not the next one of its session" in answer[2].error.wrong
    assert said(server, Hello(1, VERSIONS, 77, 2, "a thief"), "c")[0][2].error.wrong == (
        "session 77 is open already"
    )


def test_who_has_no_session_is_answered_so_often_and_no_more() -> None:
    server = ServerMachine("ps:0", 12, VERSIONS, (), Limits(unknown=3))
    out = [said(server, Fetch(i, 1, 0), f"peer {i}") for i in range(1, 10)]
    assert [len(one) for one in out] == [1] * 3 + [0] * 6


def test_limits() -> None:
    server = greeted(limits=Limits(partitions=1, steps=1, sessions=1))
    (refused,) = said(server, Hello(1, VERSIONS, 78, 1, "another"), "b")
    assert refused[2].error.wrong == "ps:0 has as many sessions as it takes"
    said(server, Register(2, 1, {}, {}, {}))
    server.handle(("did", 77, 2, (), [], None), 0.0)
    assert said(server, Register(3, 1, {}, {}, {}))[0][2].error.wrong.endswith("before")
    assert said(server, Register(4, 2, {}, {}, {}))[0][2].error.wrong == "too many partitions"
    said(server, RunStep(5, step_number(77, 1), 1))
    (refused,) = said(server, RunStep(6, step_number(77, 2), 1))
    assert refused[2].error.wrong == "too many steps"


def test_roles() -> None:
    server = greeted()
    said(server, Peers(2, {"ps:1": ("ipc:///x", 5, "")}))
    packet = PacketMessage(1, "ps:1", 5, 12, "ack", None, 0, 0, (), 0, 0, 0)
    wrong = server.wrong_of_packet
    assert wrong("task", packet) is None
    assert wrong("client", packet) == "a packet that no task has sent"
    assert wrong("task", replace(packet, incarnation=4)) == "a packet of another incarnation"
    assert wrong("task", replace(packet, receiver=11)) == "a packet for an earlier incarnation"
    assert wrong("task", replace(packet, sender="ps:2")) == "a packet of another incarnation"
    assert said(server, Hello(1, VERSIONS, 78, 1, "a task"), "p", "task") == []
    assert said(server, Done(3, 1)) == []
    out = said(server, Peers(3, {"ps:1": ("ipc:///y", 9, ""), "ps:0": ("ipc:///z", 99, "")}))
    assert out[:2] == [("lost", "ps:1", 5), ("connect", "ps:1", "ipc:///y", 9, "")]
    assert len(out) == 3
    assert said(server, Peers(4, {"ps:1": ("ipc:///old", 7, "")}))[0][0] == "send"


def test_what_is_no_message_ends_the_session() -> None:
    server = greeted()
    out = server.handle(("malformed", "a", ERROR), 0.0)
    assert [kind for kind, *_ in out] == ["count", "send", "close", "free"]
    assert server.handle(("malformed", "b", ERROR), 0.0) == [("count", "a malformed message")]


def test_other_requests() -> None:
    server = greeted()
    fetch = Fetch(2, 1, 0)
    assert said(server, fetch) == [("do", 77, fetch, [])]
    out = server.handle(("did", 77, 2, (NumberHead(1),), [], None), 0.0)
    assert out == [("send", "a", Done(2, 2, (NumberHead(1),)), [])]
    assert said(server, Release(3, 1))[0][2].error.wrong == "there is no such partition"
    said(server, Register(4, 1, {}, {}, {}))
    server.handle(("did", 77, 4, (), [], None), 0.0)
    assert said(server, Release(5, 1))[0] == ("release", 77, 1)
    assert said(server, Abort(6, step_number(77, 9), ERROR)) == []
    assert [one[0] for one in said(server, Goodbye(7))] == ["send", "close", "free"]
    with pytest.raises(ProtocolError, match="was not under way"):
        server.handle(("did", 77, 2, (), [], None), 0.0)


@pytest.mark.parametrize("message", [
    Done(5, 1), Done(2, 9), Failed(2, 0, ERROR), Welcome(2, VERSIONS, "ps:0", 12, (), 30.0),
    Hello(2, VERSIONS, 1, 1, "x"),
])  # fmt: skip
def test_a_server_that_says_what_it_should_not_is_lost(message: Any) -> None:
    client = ClientMachine(77, VERSIONS, "a client")
    client.handle(("connect", "ps:0"), 0.0)
    client.handle(("message", "ps:0", Welcome(1, VERSIONS, "ps:0", 12, (), 30.0), []), 0.0)
    client.handle(("ask", "a", "ps:0", Fetch(0, 1, 0), []), 0.0)
    out = client.handle(("message", "ps:0", message, []), 0.0)
    assert ("lost", "ps:0") in out
    assert client.held == 0
    assert client.handle(("message", "ps:0", message, []), 0.0) == []


def test_requests_are_for_one_thing_at_a_time() -> None:
    cluster = ready(stuck=1.0)
    run(cluster, "a")
    with pytest.raises(ProtocolError, match="in use"):
        run(cluster, "a")
    cluster.ask(77, "nothing", "run", "nothing", 0, {})
    assert answer(cluster, "nothing") == ("done", "nothing", {})


def test_logs_that_do_not_fit_are_seen() -> None:
    cluster = ready()
    log = list(cluster.clients[77].log)
    now, event, out = log[-1]
    log[-1] = (now, event, (*out, ("wake", 1.0)))
    with pytest.raises(ProtocolError, match="other instructions"):
        logs.rerun(log, ClientMachine(77, VERSIONS, "client 77"))
