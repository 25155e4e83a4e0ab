"""Greetings of a client: answered, unanswered, and connections that break before an answer."""

from __future__ import annotations

from math import inf
from typing import Any

from eagerflow.cluster.protocol.message_heads import ErrorHead
from eagerflow.cluster.protocol.messages import Welcome
from eagerflow.cluster.protocol.timeouts import RECONNECT_SECONDS
from eagerflow.cluster.state_machines.client import ClientMachine
from tests.fakes.cluster import VERSIONS

ERROR = ErrorHead("TaskLost", "cut in its handshake")


def test_a_task_that_never_answers_is_lost() -> None:
    client = ClientMachine(77, VERSIONS, "a client")
    client.handle(("connect", "ps:0"), 0.0)
    assert ("lost", "ps:0") in client.handle(("tick",), 30.0)


def test_a_handshake_is_no_answer_to_a_greeting() -> None:
    client = ClientMachine(77, VERSIONS, "a client")
    client.handle(("connect", "ps:0"), 0.0)
    for now in range(1, 30):
        client.handle(("silent", "ps:0"), float(now))
        client.handle(("heard", "ps:0"), now + 0.1)
    told = client.handle(("tick",), 30.0)
    assert ("lost", "ps:0") in told
    assert client.links["ps:0"].wakes_at == inf


def test_a_connection_that_is_cut_in_its_handshake_is_made_again() -> None:
    client = ClientMachine(77, VERSIONS, "a client")
    client.handle(("connect", "ps:0"), 0.0)
    assert client.handle(("broken", "ps:0", ERROR), 1.0) == [("wake", 1.0 + RECONNECT_SECONDS)]
    again, (kind, _, hello, _), _ = client.handle(("tick",), 1.0 + RECONNECT_SECONDS)
    assert again == ("again", "ps:0")
    assert (kind, hello.number, hello.attempt) == ("send", 1, 2)
    welcome = Welcome(1, VERSIONS, "ps:0", 9, ("cpu:0",), 30.0)
    assert ("joined", "ps:0", welcome) in client.handle(("message", "ps:0", welcome, []), 2.0)
    assert client.handle(("broken", "ps:0", ERROR), 2.0) == []  # late, of the first connection
    client.handle(("tick",), 11.0)
    assert client.links["ps:0"].state == "ready"


def test_connections_that_are_always_cut_are_told_after_ten_seconds() -> None:
    client = ClientMachine(77, VERSIONS, "a client")
    client.handle(("connect", "ps:0"), 0.0)
    told: list[tuple[Any, ...]] = []
    now = 0.0
    while now < 9.9:
        assert not any(kind in ("refused", "lost") for kind, *_ in told)
        client.handle(("broken", "ps:0", ERROR), now)
        now += RECONNECT_SECONDS
        told = client.handle(("tick",), now)
    assert told[:2] == [("refused", "ps:0", ERROR), ("lost", "ps:0")]
