from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerflow.errors import GraphError, SchedulerError
from eagerflow.runtime.scheduled.plan import ENTER, EXIT, MERGE, RUN, SWITCH, Plan, ScheduledNode
from eagerflow.runtime.scheduled.scheduler import (
    Scheduler,
    cancel,
    chose,
    done,
    failed,
    rerun,
    start,
)
from tests.exploring import examples
from tests.runtime.scheduled.flows import Builder, Flow, choice, expected


class Driver:
    """Answers a scheduler in a random order, and checks each instruction on the way."""

    def __init__(self, flow: Flow, seed: int, log: bool = True) -> None:
        self.flow = flow
        self.plan = flow.plan()
        self.random = random.Random(seed)
        self.step = Scheduler(self.plan, log=log)
        self.open: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}  # frame and path, by tag
        self.owed: list[tuple[int, int]] = []
        self.ran: Counter[tuple[int, tuple[int, ...]]] = Counter()
        self.values: set[tuple[int, int]] = set()  # (tag, node) that have a value
        self.finished = ""
        self.stopped: set[tuple[int, int]] = set()

    def node(self, tag: int, number: int) -> int:
        return self.plan.frames[self.open[tag][0]].nodes[number]

    def take(self, instructions: list[Any]) -> None:
        for kind, *rest in instructions:
            assert not self.finished, "an instruction after the end"
            getattr(self, f"on_{kind}")(*rest)

    def on_run(self, tag: int, number: int) -> None:
        node = self.node(tag, number)
        self.owed.append((tag, number))
        self.ran[node, self.open[tag][1]] += 1

    def on_open(self, tag: int, parent: int, frame: int, iteration: int) -> None:
        assert tag not in self.open
        self.open[tag] = (frame, (*self.open[parent][1], iteration))
        limit = self.flow.parallel[frame - 1]
        together = [t for t, (f, path) in self.open.items()
                    if f == frame and path[:-1] == self.open[parent][1]]  # fmt: skip
        assert len(together) <= limit + 1  # one more while the oldest hands its values on

    def on_move(self, tag: int, number: int, to: int, port: int) -> None:
        assert tag in self.open
        assert to in self.open
        self.values.add((to, number))

    def on_close(self, tag: int) -> None:
        assert all(t != tag for t, _ in self.owed), "an iteration ended with nodes running"
        del self.open[tag]

    def on_stop(self, tag: int, number: int) -> None:
        assert (tag, number) in self.owed
        self.stopped.add((tag, number))

    def on_finish(self, outcome: str) -> None:
        assert not self.owed, "the end came while nodes were running"
        self.finished = outcome

    def answer(self) -> None:
        tag, number = self.owed.pop(self.random.randrange(len(self.owed)))
        node = self.node(tag, number)
        if self.flow.nodes[node].kind == SWITCH:
            port = choice(self.flow, node, self.open[tag][1])
            self.take(self.step.handle(chose(tag, number, port)))
        else:
            self.take(self.step.handle(done(tag, number)))

    def run(self) -> None:
        self.take(self.step.handle(start()))
        while self.owed:
            self.answer()


def check(seed: int) -> Driver:
    flow = Builder(seed).build()
    driver = Driver(flow, seed + 1)
    driver.run()
    assert driver.finished == "done"
    assert set(driver.open) == {0}, "iterations were not closed"
    assert driver.ran == expected(flow)
    return driver


@pytest.mark.parametrize("part", range(examples(2)))
def test_thousands_of_programs_run_what_they_must(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        try:
            check(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@given(st.integers(10**6, 10**9))
def test_a_log_repeats_its_step(seed: int) -> None:
    driver = check(seed)
    assert driver.step.log is not None
    again = rerun(driver.plan, driver.step.log)
    assert again.outcome == "done"


def test_a_log_that_does_not_fit_is_refused() -> None:
    driver = check(7)
    log = list(driver.step.log or [])
    log[-1] = (log[-1][0], ())
    with pytest.raises(SchedulerError, match="other instructions than in the log"):
        rerun(driver.plan, log)


@given(st.integers(0, 10**6), st.integers(0, 40), st.sampled_from(("failed", "cancelled")))
def test_a_step_that_is_broken_off_ends(seed: int, after: int, how: str) -> None:
    driver = Driver(Builder(seed).build(), seed)
    driver.take(driver.step.handle(start()))
    while driver.owed and after:
        driver.answer()
        after -= 1
    if not driver.owed:
        return
    ran = sum(driver.ran.values())
    if how == "failed":
        tag, number = driver.owed.pop()
        driver.take(driver.step.handle(failed(tag, number)))
    else:
        driver.take(driver.step.handle(cancel("Ctrl-C")))
    assert driver.stopped == set(driver.owed)
    while driver.owed:
        tag, number = driver.owed.pop()
        answer = failed(tag, number) if driver.random.random() < 0.5 else done(tag, number)
        if driver.flow.nodes[driver.node(tag, number)].kind == SWITCH:
            answer = chose(tag, number, 0)
        driver.take(driver.step.handle(answer))
    assert driver.finished == how
    assert sum(driver.ran.values()) == ran, "something new was run"


# --- single steps -------------------------------------------------------------------------


def chain(*kinds: int) -> list[ScheduledNode]:
    nodes = [ScheduledNode(kind) for kind in kinds]
    for i, node in enumerate(nodes[:-1]):
        node.edges.append((0, i + 1, 0))
    return nodes


def test_an_empty_step_is_done_at_once() -> None:
    assert Scheduler(Plan([])).handle(start()) == [("finish", "done")]


def test_edges_that_are_there_twice_count_twice() -> None:
    a, b = ScheduledNode(RUN), ScheduledNode(RUN)
    a.edges += [(0, 1, 0), (0, 1, 0)]
    step = Scheduler(Plan([a, b]))
    step.handle(start())
    assert step.handle(done(0, 0)) == [("run", 0, 1)]


def test_the_branch_that_is_not_taken_does_not_run() -> None:
    switch, yes, no, merge = (
        ScheduledNode(SWITCH),
        ScheduledNode(RUN),
        ScheduledNode(RUN),
        ScheduledNode(MERGE),
    )
    switch.edges += [(0, 2, 0), (1, 1, 0)]
    yes.edges.append((0, 3, 0))
    no.edges.append((0, 3, 1))
    step = Scheduler(Plan([switch, yes, no, merge]))
    step.handle(start())
    assert step.handle(chose(0, 0, 1)) == [("run", 0, 1)]
    assert step.handle(done(0, 1)) == [("move", 0, 3, 0, 0), ("finish", "done")]


@pytest.mark.parametrize(
    "event",
    [done(0, 1), done(3, 0), chose(0, 0, 1), failed(0, 1), start(), ("noise", 0, 0)],
    ids=str,
)
def test_what_cannot_have_happened_is_refused_and_changes_nothing(event: Any) -> None:
    step = Scheduler(Plan(chain(RUN, RUN)), log=True)
    step.handle(start())
    with pytest.raises(SchedulerError, match="does not fit the state of the step"):
        step.handle(event)
    assert step.handle(done(0, 0)) == [("run", 0, 1)]
    assert step.handle(done(0, 1)) == [("finish", "done")]


def test_the_error_tells_the_story_of_the_scheduled_node() -> None:
    step = Scheduler(Plan(chain(RUN, RUN)), log=True)
    step.handle(start())
    step.handle(done(0, 0))
    with pytest.raises(SchedulerError) as caught:
        step.handle(done(0, 0))
    assert "event 0 led to ('run', 0, 0); event 1 ('done', 0, 0)" in str(caught.value)


def test_two_live_tokens_at_a_merge_are_an_error() -> None:
    a, b, merge = ScheduledNode(RUN), ScheduledNode(RUN), ScheduledNode(MERGE)
    a.edges.append((0, 2, 0))
    b.edges.append((0, 2, 1))
    step = Scheduler(Plan([a, b, merge]))
    step.handle(start())
    step.handle(done(0, 0))
    with pytest.raises(SchedulerError, match="two live tokens reach merge 2"):
        step.handle(done(0, 1))


def test_plans_are_checked() -> None:
    with pytest.raises(GraphError, match="is in no loop"):
        Plan([ScheduledNode(EXIT)])
    with pytest.raises(GraphError, match="not inside its own"):
        Plan([ScheduledNode(ENTER, into=2)], parents=[0])
    with pytest.raises(GraphError, match="in another frame"):
        Plan([ScheduledNode(RUN, edges=[(0, 1, 0)]), ScheduledNode(RUN, frame=1)], parents=[0])
    with pytest.raises(GraphError, match="waits for no token"):
        Plan([ScheduledNode(RUN, frame=1)], parents=[0])
