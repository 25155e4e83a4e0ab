"""State machines of servers and clients: each request is answered once, and nothing leaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.failures import write_error
from eagerflow.cluster.protocol.message_heads import NumberHead, step_number
from eagerflow.cluster.protocol.messages import Hello, Register, RunStep
from eagerflow.cluster.protocol.timeouts import UNTOLD_SECONDS
from eagerflow.errors import TraceError
from tests.cluster.state_machines.dialogues import (
    ERROR,
    answer,
    greeted,
    ready,
    registered,
    rerun,
    run,
)
from tests.exploring import examples
from tests.fakes.cluster import FakeCluster

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
