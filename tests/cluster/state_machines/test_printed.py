"""Printed lines of a task: sent only to the client that caused them, among other messages."""

from __future__ import annotations

from eagerflow.cluster.protocol.messages import Hello, Printed, Renew, Welcome
from eagerflow.cluster.state_machines.client import ClientMachine
from eagerflow.cluster.state_machines.server import ServerMachine
from tests.fakes.cluster import VERSIONS


def test_a_server_tells_the_session_whose_it_is() -> None:
    server = ServerMachine("ps:0", 12, VERSIONS, ("cpu:0",))
    for peer, session in (("a", 77), ("b", 78)):
        hello = Hello(1, VERSIONS, session, 1, "a client")
        server.handle(("message", peer, "client", hello, []), 0.0)
    (told,) = server.handle(("printed", 78, ("a line",), 2), 0.0)
    assert told == ("send", "b", Printed(2, ("a line",), 2), [])
    answer, *_ = server.handle(("message", "b", "client", Renew(2), []), 0.0)
    assert answer[2].number == 3
    assert server.handle(("printed", 79, ("a line",), 0), 0.0) == []


def test_what_the_task_says_itself_goes_to_the_only_client() -> None:
    server = ServerMachine("ps:0", 12, VERSIONS, ("cpu:0",))
    said = ("said", ("a warning",), 3)
    assert server.handle(said, 0.0) == []
    hello = Hello(1, VERSIONS, 77, 1, "a client")
    server.handle(("message", "a", "client", hello, []), 0.0)
    (told,) = server.handle(said, 0.0)
    assert told == ("send", "a", Printed(2, ("a warning",), 3, own=True), [])
    server.handle(("message", "b", "client", Hello(1, VERSIONS, 78, 1, "another"), []), 0.0)
    assert server.handle(said, 0.0) == []  # of two clients, the cause is unknown


def test_a_client_hears_it_between_answers() -> None:
    client = ClientMachine(77, VERSIONS, "a client")
    client.handle(("connect", "ps:0"), 0.0)
    client.handle(("message", "ps:0", Welcome(1, VERSIONS, "ps:0", 9, ("cpu:0",), 30.0), []), 0.0)
    printed = Printed(2, ("a line",), 2)
    assert client.handle(("message", "ps:0", printed, []), 1.0) == [
        ("printed", "ps:0", ("a line",), 2, False)
    ]
    told = client.handle(("message", "ps:0", printed, []), 1.0)
    assert ("lost", "ps:0") in told  # its number repeats an earlier one
