"""Causes of waits in queues: in a chain of waiting stages, the one at the beginning is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import eagerflow as ef
from eagerflow.events import WaitEvent
from eagerflow.watching import Watcher
from eagerflow.watching.diagnosing.queue_causes import QueueCause, queue_causes
from eagerflow.watching.naming import name_of

#: times on the clock: the watcher opens, and is asked for causes
OPENED, NOW = 1000.0, 1010.0


class Stages:
    """A pipeline: `read` fills `raw`, `augment` moves elements to `ready`, `train` takes them."""

    def __init__(self) -> None:
        self.watcher = Watcher(lambda: OPENED)
        self.watcher._run = lambda: None  # type: ignore[method-assign]  # no thread looks
        raw, ready = ef.Queue(4, "f32[]", name="raw"), ef.Queue(4, "f32[]", name="ready")

        @ef.trace
        def read() -> None:
            raw.enqueue(ef.zeros(()))

        @ef.trace
        def augment() -> None:
            ready.enqueue(raw.dequeue())

        @ef.trace
        def train() -> ef.Tensor:
            return ready.dequeue()

        self.functions = read, augment, train  # keeps their graphs alive
        for function in self.functions:
            function()
        with self.watcher:
            for function in self.functions:
                function()
            self.watcher.collect()
        self.numbers = {name_of(number): number for number in self.watcher.log.executables}
        for times in self.watcher.log.executables.values():
            times.last = NOW

    def waited(self, who: str, operation: str, queue: str, seconds: float) -> None:
        """Add recent waits of a stage, of a tenth of a second each, ``seconds`` in total."""
        count = round(seconds * 10)
        for i in range(count):
            start = NOW - 0.2 - i * 9.0 / count
            runner = "" if who == "train" else who
            self.watcher.brief_wait(
                (queue, operation, self.numbers[who], f"queue_{operation}", runner, 0, start,
                 start + 0.1, 1)
            )  # fmt: skip
        self.watcher.collect()

    def told(self) -> list[str]:
        return [cause.text for cause in queue_causes(self.watcher, NOW)]


@pytest.fixture
def stages() -> Iterator[Stages]:
    made = Stages()
    made.watcher.opened = OPENED
    return made


def test_runners_that_wait_for_room_are_well(stages: Stages) -> None:
    stages.waited("read", "enqueue", "raw", 8)
    stages.waited("augment", "enqueue", "ready", 8)
    assert stages.told() == []


def test_a_runner_that_is_idle_is_well(stages: Stages) -> None:
    stages.waited("augment", "dequeue", "raw", 9)
    assert stages.told() == []


def test_the_stage_that_does_not_wait_is_named(stages: Stages) -> None:
    stages.waited("train", "dequeue", "ready", 8)
    (text,) = stages.told()
    assert text.startswith("ready runs empty: augment, which fills it, is too slow with ")
    assert text.endswith("train waits 80 % of the time")


def test_a_stage_that_waits_itself_is_not_the_cause(stages: Stages) -> None:
    stages.waited("train", "dequeue", "ready", 8)
    stages.waited("augment", "dequeue", "raw", 7)
    (cause,) = queue_causes(stages.watcher, NOW)
    assert cause.text.startswith("raw runs empty: read, which fills it, is too slow with ")
    assert cause.path == ("read", "raw", "augment", "ready", "train")


def test_waits_of_a_function_that_has_ended_are_not_told(stages: Stages) -> None:
    stages.waited("train", "dequeue", "ready", 8)
    assert queue_causes(stages.watcher, NOW)
    assert queue_causes(stages.watcher, NOW + 4) == []


def test_a_stage_that_has_ended_no_step_is_said_to(stages: Stages) -> None:
    stages.watcher.log.executables[stages.numbers["read"]].last = NOW - 8
    stages.waited("train", "dequeue", "ready", 8)
    stages.waited("augment", "dequeue", "raw", 7)
    (text,) = stages.told()
    assert text.startswith("raw runs empty: read, which fills it, has not ended a step for 8.0 s")


def stuck(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, waits: list[tuple[str, str, str]]
) -> QueueCause:
    """The cause while the given waits are open: stage, operation and queue of each."""
    events = []
    for who, operation, queue in waits:
        runner = "" if who == "train" else who
        event = WaitEvent(name=queue, operation=operation, executable=stages.numbers[who],
                          runner=runner, start=NOW - 6, node=f"queue_{operation}")  # fmt: skip
        events.append(event)
    monkeypatch.setattr("eagerflow.watching.activity.open_waits", lambda: events)
    ((cause),) = queue_causes(stages.watcher, NOW)
    assert cause.is_stuck
    return cause


def test_a_queue_that_nothing_empties_is_named(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [("train", "dequeue", "ready"), ("augment", "enqueue", "audit")]
    cause = stuck(stages, monkeypatch, waits)
    assert cause.path == ("", "audit", "augment", "ready", "train")
    assert cause.text == (
        "augment is stuck: enqueue of 'audit' has waited 6.0 s, and nothing takes anything out; "
        "so train waits, too"
    )


def test_stages_that_wait_for_each_other_are_a_deadlock(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [("train", "dequeue", "ready"), ("augment", "dequeue", "raw"),
             ("read", "dequeue", "ready")]  # fmt: skip
    text = stuck(stages, monkeypatch, waits).text
    assert text.startswith("read is stuck: dequeue of 'ready' has waited 6.0 s")
