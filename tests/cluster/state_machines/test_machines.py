"""State machines of servers and clients: each request is answered once, and nothing leaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace

from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.failures import write_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, NumberHead, step_number
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
from eagerflow.cluster.protocol.timeouts import UNTOLD_SECONDS
from eagerflow.cluster.state_machines import logs
from eagerflow.cluster.state_machines.client import ClientMachine
from eagerflow.cluster.state_machines.server import ServerMachine
from eagerflow.errors import ProtocolError, TraceError
from tests.exploring import examples
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


# --- steps -------------------------------------------------------------------------------------


def test_a_step_gives_the_results_of_all_tasks() -> None:
    cluster = ready()
    run(cluster, "a")
    cluster.run(5)
    kind, _, results = answer(cluster, "a")
    assert kind == "done"
    assert results == {name: ((NumberHead(1), NumberHead(5)), []) for name in cluster.names}
    assert cluster.clients[77].held == 0
    rerun(cluster)


def test_many_steps_run_at_once() -> None:
    cluster = ready()
    for i in range(100):
        run(cluster, i)
    cluster.run(60)
    assert {answer(cluster, i)[0] for i in range(100)} == {"done"}


def test_steps_wait_for_their_partition() -> None:
    cluster = FakeCluster(0, ("ps:0",))
    cluster.run(5)
    registered(cluster)
    run(cluster, "a")
    cluster.run(10)
    assert answer(cluster, "a")[0] == "done"


def test_a_partition_that_is_refused_fails_the_steps_that_wait_for_it() -> None:
    cluster = FakeCluster(0, ("ps:0",), failing=1.0)
    cluster.run(5)
    registered(cluster)
    run(cluster, "a")
    cluster.run(10)
    for request in ("register ps:0", "a"):
        kind, _, error = answer(cluster, request)
        assert (kind, error.wrong) == ("failed", "ps:0 has failed")
    run(cluster, "b")
    cluster.run(10)
    assert answer(cluster, "b")[2].wrong == "there is no partition 1"


def test_an_error_on_one_task_ends_the_step_on_all() -> None:
    cluster = ready(stuck=1.0)
    run(cluster, "a")
    cluster.run(5)
    assert cluster.answers[77, "a"] == []
    task = cluster.tasks["ps:0"]
    step = step_number(77, 1)
    number = task.running.pop((77, step))
    head = write_error(TraceError("no", source="cell:1"), "ps:0")
    cluster._tell_server("ps:0", task, ("did", 77, number, (), [], head))
    cluster.run(5)
    assert answer(cluster, "a") == ("failed", "a", head)
    assert all(not task.running for task in cluster.tasks.values())


def test_a_step_can_be_aborted() -> None:
    cluster = ready(stuck=1.0)
    run(cluster, "a")
    cluster.run(5)
    cluster._tell_client(77, ("abort", "a", ERROR))
    cluster.run(5)
    assert answer(cluster, "a") == ("failed", "a", ERROR)
    assert all(not task.running for task in cluster.tasks.values())
    cluster._tell_client(77, ("abort", "a", ERROR))  # the step is over
    rerun(cluster)


@pytest.mark.parametrize("after", [0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 2.0])
def test_an_abort_may_come_at_any_time(after: float) -> None:
    cluster = ready()
    run(cluster, "a")
    cluster.run(after)
    cluster._tell_client(77, ("abort", "a", ERROR))
    cluster.run(5)
    assert answer(cluster, "a")[0] in ("done", "failed")
    assert all(task.machine.held == 2 for task in cluster.tasks.values())


# --- loss --------------------------------------------------------------------------------------


def test_a_task_that_ends_fails_its_steps() -> None:
    cluster = ready(stuck=1.0)
    run(cluster, "a")
    cluster.run(5)
    cluster.kill("ps:0")
    cluster.run(5)
    kind, _, error = answer(cluster, "a")
    assert (kind, error.kind, error.task) == ("failed", "TaskLost", "ps:0")
    assert f"in step {step_number(77, 1)}" in error.wrong
    assert not cluster.tasks["worker:0"].running
    assert cluster.told["lost", 77, "ps:0"] == 1
    run(cluster, "b")
    assert answer(cluster, "b")[2].wrong == "ps:0 is lost"


def test_a_task_comes_back_with_another_incarnation() -> None:
    cluster = ready()
    cluster.kill("ps:0")
    cluster.run(5)
    cluster.start("ps:0")
    cluster.connect(77, "ps:0")
    cluster.run(5)
    assert cluster.told["warn", 77, "ps:0 was restarted: the values it held are lost"] == 1
    run(cluster, "a")
    cluster.run(5)
    assert answer(cluster, "a")[2].wrong == "there is no partition 1"
    cluster.ask(77, "again", "ask", "again", "ps:0", Register(0, 1, {}, {}, {}), [])
    run(cluster, "b")
    cluster.run(5)
    assert answer(cluster, "b")[0] == "done"
    rerun(cluster)


def test_silence_is_suspect_and_then_a_loss() -> None:
    cluster = ready(stuck=1.0)
    run(cluster, "a")
    cluster.run(3)
    cluster.freeze("ps:0")
    cluster.run(9)
    assert cluster.clients[77].links["ps:0"].state == "suspect"
    assert cluster.answers[77, "a"] == []
    cluster.run(5)
    assert answer(cluster, "a")[2].kind == "TaskLost"


@pytest.mark.parametrize("later", [(), (("heard", "ps:0"),), (("closed", "ps:0"),)])
def test_silence_is_told_when_it_lasts(later: tuple[tuple[str, str], ...]) -> None:
    cluster = ready()
    machine = cluster.clients[77]
    machine.handle(("silent", "ps:0"), 100.0)
    for event in later:
        machine.handle(event, 100.1)
    told = machine.handle(("tick",), 100.1 + UNTOLD_SECONDS)
    assert (("suspect", "ps:0") in told) == (not later)


def test_whoever_is_heard_again_is_not_lost() -> None:
    cluster = ready()
    cluster.freeze("ps:0")
    cluster._tell_client(77, ("heard", "ps:0"))
    cluster.thaw("ps:0")
    cluster.run(60)
    assert cluster.clients[77].links["ps:0"].state == "ready"
    cluster.freeze("ps:0")
    run(cluster, "a")
    cluster.run(5)
    assert cluster.answers[77, "a"] == []
    cluster.thaw("ps:0")
    cluster.run(5)
    assert answer(cluster, "a")[0] == "done"
    cluster.run(60)
    assert cluster.clients[77].links["ps:0"].state == "ready"


def test_a_connection_that_breaks_can_be_made_again() -> None:
    cluster = ready()
    cluster.cut(77, "ps:0")
    cluster.run(5)
    assert cluster.clients[77].links["ps:0"].state == "lost"
    assert cluster.tasks["ps:0"].freed == [77]
    cluster.connect(77, "ps:0")
    cluster.run(5)
    assert cluster.clients[77].links["ps:0"].state == "ready"


# --- clients that leave --------------------------------------------------------------------------


def test_a_client_that_ends_leaves_nothing() -> None:
    cluster = FakeCluster(0, ("ps:0",), (77, 78), stuck=0.5)
    cluster.run(5)
    for session in (77, 78):
        registered(cluster, session)
        for i in range(5):
            run(cluster, i, session)
    cluster.run(5)
    cluster.leave(77)
    cluster.run(5)
    task = cluster.tasks["ps:0"]
    assert task.freed == [77]
    assert {session for session, _ in task.running} <= {78}
    run(cluster, "more", 78)
    cluster.leave(78)
    cluster.run(5)
    assert task.machine.held == 0
    assert task.freed == [77, 78]
    rerun(cluster)


def test_a_session_is_freed_after_its_steps_have_ended() -> None:
    server = greeted()
    server.handle(("message", "a", "client", Register(2, 1, {}, {}, {}), []), 0)
    server.handle(("did", 77, 2, (), [], None), 0)
    step = step_number(77, 1)
    server.handle(("message", "a", "client", RunStep(3, step, 1), []), 0)
    out = server.handle(("closed", "a"), 0)
    assert [kind for kind, *_ in out] == ["abort", "close"]
    assert server.handle(("did", 77, 3, (), [], ERROR), 0) == [("free", 77)]


def test_a_lease_is_renewed_and_ends() -> None:
    cluster = ready()
    cluster.run(300)
    assert [task.machine.held for task in cluster.tasks.values()] == [2, 2]
    assert cluster.told["lost", 77, "ps:0"] == 0
    server = greeted()
    send, close, free = server.handle(("tick",), 30.0)[1:4]
    assert (send[0], close, free) == ("send", ("close", "a"), ("free", 77))
    assert send[2].answers == 0


# --- refusals of a server ------------------------------------------------------------------------


def greeted(**options: Any) -> ServerMachine:
    server = ServerMachine("ps:0", 12, VERSIONS, ("cpu:0",), log=True, **options)
    server.handle(("message", "a", "client", Hello(1, VERSIONS, 77, 1, "a client"), []), 0.0)
    return server


def said(server: ServerMachine, message: Any, peer: str = "a", role: str = "client") -> list[Any]:
    return [one for one in server.handle(("message", peer, role, message, []), 0.0)
            if one[0] not in ("count", "wake")]  # fmt: skip


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


# --- random sequences of events ------------------------------------------------------------------


class Chaos(RuleBasedStateMachine):
    """Tasks are killed and started, connections cut and made, steps run, aborted and repeated."""

    @initialize(seed=st.integers(0, 2**32), failing=st.sampled_from([0.0, 0.2]),
                stuck=st.sampled_from([0.0, 0.3]))  # fmt: skip
    def begin(self, seed: int, failing: float, stuck: float) -> None:
        self.cluster = FakeCluster(
            seed, ("ps:0", "ps:1", "worker:0"), (77, 78), failing=failing, stuck=stuck
        )  # fmt: skip
        self.requests = 0

    def request(self) -> int:
        self.requests += 1
        return self.requests

    @rule(session=st.sampled_from([77, 78]))
    def run_step(self, session: int) -> None:
        run(self.cluster, self.request(), session)

    @rule(session=st.sampled_from([77, 78]), task=st.integers(0, 2), partition=st.integers(1, 2))
    def register(self, session: int, task: int, partition: int) -> None:
        request, message = self.request(), Register(0, partition, {}, {}, {})
        name = self.cluster.names[task]
        self.cluster.ask(session, request, "ask", request, name, message, [])

    @rule(session=st.sampled_from([77, 78]), back=st.integers(0, 3))
    def abort(self, session: int, back: int) -> None:
        self.cluster._tell_client(session, ("abort", self.requests - back, ERROR))

    @rule(seconds=st.sampled_from([0.1, 0.5, 2.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.run(seconds)

    @rule(task=st.integers(0, 2))
    def kill(self, task: int) -> None:
        self.cluster.kill(self.cluster.names[task])

    @rule(task=st.integers(0, 2))
    def start(self, task: int) -> None:
        name = self.cluster.names[task]
        if name not in self.cluster.tasks:
            self.cluster.start(name)

    @rule(session=st.sampled_from([77, 78]), task=st.integers(0, 2))
    def connect(self, session: int, task: int) -> None:
        name = self.cluster.names[task]
        if self.cluster.clients[session].links[name].state == "lost":
            self.cluster.connect(session, name)

    @rule(session=st.sampled_from([77, 78]), task=st.integers(0, 2))
    def cut(self, session: int, task: int) -> None:
        self.cluster.cut(session, self.cluster.names[task])

    @rule(task=st.integers(0, 2))
    def freeze(self, task: int) -> None:
        self.cluster.freeze(self.cluster.names[task])

    @rule(task=st.integers(0, 2))
    def thaw(self, task: int) -> None:
        self.cluster.thaw(self.cluster.names[task])

    @precondition(lambda self: self.cluster.sent)
    @rule(task=st.integers(0, 2), data=st.data(), mine=st.booleans())
    def replay(self, task: int, data: Any, mine: bool) -> None:
        wire = data.draw(st.sampled_from(sorted(self.cluster.sent)))
        if self.cluster.sent[wire]:
            frames = data.draw(st.sampled_from(self.cluster.sent[wire]))
            if type(codec.read(frames)[0]) is not Hello or wire in self.cluster.wires.values():
                place = wire if mine else 10_000 + wire
                self.cluster.replay(self.cluster.names[task], place, frames)

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        for name in cluster.names:
            cluster.thaw(name)
        for request in range(1, self.requests + 1):
            for session in (77, 78):
                cluster._tell_client(session, ("abort", request, ERROR))
        cluster.run(200)
        for (session, request), answers in cluster.answers.items():
            assert len(answers) == 1, (session, request, answers)
        for client in cluster.clients.values():
            assert client.held == 0
        rerun(cluster)
        for session in (77, 78):
            cluster.leave(session)
        cluster.run(200)
        for task in cluster.tasks.values():
            assert not task.running
            assert task.machine.held == 0


TestChaos = Chaos.TestCase
TestChaos.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
