"""Requests to machines of servers and clients, and what they answer."""

from __future__ import annotations

from typing import Any

from eagerflow.cluster.protocol.message_heads import ErrorHead, NumberHead
from eagerflow.cluster.protocol.messages import Hello, Register
from eagerflow.cluster.state_machines import logs
from eagerflow.cluster.state_machines.client import ClientMachine
from eagerflow.cluster.state_machines.server import ServerMachine
from tests.fakes.cluster import VERSIONS, FakeCluster

ERROR = ErrorHead("CancelledError", "enough", source="here")
PART = (1, (NumberHead(5),), [], (), 0)


def registered(cluster: FakeCluster, session: int = 77) -> FakeCluster:
    for name in cluster.names:
        message = Register(0, 1, {}, {}, {})
        cluster.ask(session, f"register {name}", "ask", f"register {name}", name, message, [])
    return cluster


def run(cluster: FakeCluster, request: Any, session: int = 77) -> None:
    step = cluster.next_step(session)
    cluster.ask(session, request, "run", request, step, dict.fromkeys(cluster.names, PART))


def answer(cluster: FakeCluster, request: Any, session: int = 77) -> tuple[Any, ...]:
    (one,) = cluster.answers[session, request]
    return one


def ready(tasks: tuple[str, ...] = ("ps:0", "worker:0"), **options: Any) -> FakeCluster:
    """A cluster in which partition 1 is registered everywhere."""
    cluster = FakeCluster(0, tasks, **options)
    cluster.run(5)
    registered(cluster)
    cluster.run(5)
    return cluster


def rerun(cluster: FakeCluster) -> None:
    """Check that a replay of all logs leads to the same instructions."""
    for name, task in cluster.tasks.items():
        again = ServerMachine(name, task.incarnation, VERSIONS, ("cpu:0",), lease=cluster._lease)
        logs.rerun(task.machine.log, again)
    for session, client in cluster.clients.items():
        logs.rerun(client.log, ClientMachine(session, VERSIONS, f"client {session}"))


def greeted(**options: Any) -> ServerMachine:
    server = ServerMachine("ps:0", 12, VERSIONS, ("cpu:0",), log=True, **options)
    server.handle(("message", "a", "client", Hello(1, VERSIONS, 77, 1, "a client"), []), 0.0)
    return server


def said(server: ServerMachine, message: Any, peer: str = "a", role: str = "client") -> list[Any]:
    return [one for one in server.handle(("message", peer, role, message, []), 0.0)
            if one[0] not in ("count", "wake")]  # fmt: skip
