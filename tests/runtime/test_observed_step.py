"""An observed step runs the same code as other steps, with the same results."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.events import RegionEvent, StepEvent, WaitEvent
from eagerflow.runtime.executable import find_executable
from eagerflow.runtime.observed_step import Observation


class Brief:
    """An instrument that hears of steps in brief."""

    kinds = frozenset({WaitEvent})

    def __init__(self):
        self.steps, self.regions, self.told = [], [], []
        self.brief_step, self.brief_region = self.steps.append, self.regions.append
        self.begin = self.end = self.told.append

    def __enter__(self):
        events.add_instrument(self)
        return self

    def __exit__(self, *raised):
        events.remove_instrument(self)


class Full:
    kinds = frozenset({StepEvent})

    def __init__(self):
        self.steps = []

    def begin(self, event):
        pass

    def end(self, event):
        self.steps.append(event)


@ef.trace
def lstm_like(x):
    """A loop with a gradient, whose values go onto lists."""

    def total(x):
        for _ in range(3):
            x = ef.tanh(x) * 0.9
        return ef.sum(ef.while_loop(lambda y: ef.sum(y) < 50.0, lambda y: y * 1.5 + ef.exp(-y), x))

    return ef.grad(total)(x)


def observe(f, x, values=None):
    """The observation of one step of ``f(x)``, and the result of the step."""
    f(x)
    with Brief() as brief:
        f(x)
        number = brief.steps[-1][0]
        seen = []
        find_executable(number).observe(Observation(number, seen.append, values))
        result = f(x)
        count = len(brief.steps)
        f(x)
    told = [step[0] for step in brief.steps[count:]]
    assert told.count(number) == 1  # the observed step is reported by its observation alone
    (observation,) = seen
    return observation, result


def test_steps_are_told_in_brief() -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1)
    x = ef.ones(2)
    f(x)
    with Brief() as brief:
        f(x)
        f(x)
    f(x)
    assert len(brief.steps) == 2
    numbers, starts, stops, threads, counts = zip(*brief.steps, strict=True)
    assert len(set(numbers)) == 1
    assert starts[0] <= stops[0] <= starts[1] <= stops[1]
    assert set(threads) == {threading.get_ident()}
    assert set(counts) == {1}


def test_a_step_that_fails_is_told_too() -> None:
    f = ef.trace(lambda x: ef.py_call(lambda y: 1 // 0, "f32[2]", x))
    with Brief() as brief, pytest.raises(ZeroDivisionError):
        f(ef.ones(2))
    assert len(brief.steps) == 1


def test_whoever_wants_more_hears_of_steps_with_their_numbers() -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1)
    f(ef.ones(2))
    full = Full()
    with Brief() as brief:
        events.add_instrument(full)
        try:
            f(ef.ones(2))
        finally:
            events.remove_instrument(full)
        f(ef.ones(2))
    assert len(full.steps) == 1
    assert full.steps[0].step > 0
    assert len(brief.steps) == 2


def test_several_hear_in_brief() -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1)
    f(ef.ones(2))
    with Brief() as one, Brief() as other:
        f(ef.ones(2))
    assert one.steps == other.steps
    assert len(one.steps) == 1
    assert StepEvent.brief is None
    assert RegionEvent.brief is None


def test_an_observed_step_gives_the_same() -> None:
    x = ef.tensor(np.linspace(0.1, 1, 8))
    expected = lstm_like(x).numpy()
    observation, result = observe(lstm_like, x)
    assert np.array_equal(result.numpy(), expected)
    (times,) = observation.regions.values()
    took = observation.stop - observation.start
    assert 0 < sum(times.seconds) <= took
    counts = {}
    for line, runs in zip(times.instructions, times.runs, strict=True):
        if line.node is not None and runs:
            counts[line.node.op] = max(counts.get(line.node.op, 0), runs)
    assert counts["exp"] > 1  # exp is in a loop


def test_chains_stay_whole() -> None:
    """Otherwise the observed code would differ from the code that runs."""

    mean, weight = (ef.Variable(ef.ones((100, 100))) for _ in range(2))

    @ef.trace
    def f(x):
        new = mean.assign_add((x - mean.value) * 0.1)
        weight.assign_sub(ef.sqrt(ef.square(new) + 1) * 0.01)

    observation, _ = observe(f, ef.ones((100, 100)))
    (times,) = observation.regions.values()
    (members,) = times.chains.values()
    assert len(members) > 4
    assert sum(times.runs) < len(members)


def test_values_are_shown() -> None:
    @ef.trace
    def f(x):
        y = ef.exp(x)
        return ef.sum(y * 2.0)

    x = ef.tensor([0.0, 1.0])
    node = next(n for n in f.graph(x).nodes if n.op == "exp")
    values = []
    observation, _ = observe(f, x, {node.name: lambda outputs: values.append(outputs[0].copy())})
    assert np.allclose(values, np.exp([[0.0, 1.0]]))
    assert observation.regions == {}


def test_nodes_of_another_graph_that_runs_within_are_not_counted() -> None:
    inner = ef.trace(lambda x: ef.exp(x) + 2.0)
    f = ef.trace(lambda x: ef.py_call(lambda y: inner(y), "f32[2]", x) * 3.0)
    observation, _ = observe(f, ef.ones(2))
    (times,) = observation.regions.values()
    assert len(times.runs) == len(times.instructions)
    assert sum(times.runs) <= len(times.runs)


def test_an_observation_is_used_once_and_can_be_taken_back() -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1)
    x = ef.ones(2)
    f(x)
    with Brief() as brief:
        f(x)
        executable = find_executable(brief.steps[-1][0])
        seen = []
        executable.observe(Observation(executable.number, seen.append))
        executable.observe(None)
        f(x)
        assert seen == []
        executable.observe(Observation(executable.number, seen.append))
        f(x)
        f(x)
        assert len(seen) == 1


def test_a_later_step_may_be_observed() -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1)
    x = ef.ones(2)
    f(x)
    with Brief() as brief:
        f(x)
        executable = find_executable(brief.steps[-1][0])
        seen: list[Observation] = []
        executable.observe(Observation(executable.number, seen.append, after=2))
        before, counts = len(brief.steps), []
        for _ in range(4):
            f(x)
            counts.append(len(seen))
    assert counts == [0, 0, 1, 1]
    assert len(brief.steps) - before == 3  # those that are passed over are reported as usual


def test_waits_within_nodes_are_told_apart() -> None:
    queue = ef.Queue(1, "f32[2]")
    f = ef.trace(lambda: queue.dequeue() * 2.0)
    queue.enqueue(ef.ones(2))
    f()
    with Brief() as brief:
        queue.enqueue(ef.ones(2))
        f()
        executable = find_executable(brief.steps[-1][0])
        seen = []
        executable.observe(Observation(executable.number, seen.append))
        thread = threading.Thread(target=f)
        thread.start()
        while not events.open_waits():
            pass
        queue.enqueue(ef.ones(2))
        thread.join()
    assert len(seen) == 1
    waited = sum(sum(times.waited) for times in seen[0].regions.values())
    assert waited >= 0.0


def test_a_step_that_no_caller_waits_for_is_observed_too() -> None:
    queue = ef.Queue(100, "f32[2]")
    out = ef.Queue(100, "f32[2]")

    @ef.trace
    def work():
        out.enqueue(ef.exp(queue.dequeue()) * 2.0)

    seen = []
    with Brief() as brief, ef.spawn(work) as runner:
        for i in range(6):
            queue.enqueue(ef.ones(2))
            out.dequeue()
            if brief.steps and not i % 2:
                number = next(step[0] for step in brief.steps if not step[3])
                find_executable(number).observe(Observation(number, seen.append))
        runner.stop()
    assert seen
    nodes = [
        line.node.op
        for times in seen[0].regions.values()
        for line, runs in zip(times.instructions, times.runs, strict=True)
        if runs and line.node is not None
    ]
    assert "exp" in nodes
