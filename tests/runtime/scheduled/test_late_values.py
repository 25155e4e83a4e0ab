"""Host reads of values of a slow device block no thread, and hold up no deadline."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DeadlineError
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.strands.run import StrandRun
from eagerflow_kernels.asynchronous import AsyncBackend
from eagerflow_kernels.asynchronous.streams import Work
from tests.fakes.by_hand import device_by_hand
from tests.messages import says
from tests.placement.scattered import by_scheduler


@pytest.fixture
def slow() -> Iterator[AsyncBackend]:
    """A device that works only when it is pumped."""
    with device_by_hand(answers=False) as made, ef.config(cpu_devices=2):
        yield made


def while_there(device: str) -> Callable[[Any], Any]:
    """A function whose loop predicate is a value of the device."""

    def f(x: Any) -> Any:
        y = x.to(device)
        while y.sum() > 1.0:  # the line that waits
            y = (y * 0.5).to("cpu:1").to(device)
        return y.to("cpu:0")

    return f


def if_there(device: str) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        if ef.exp(x.to(device)).sum() > 1.0:  # the line that waits
            x = x * 2.0
        return x + 1.0

    return f


def mask_there(device: str) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = ef.exp(x.to(device))
        return (y * 2.0)[y > 1.0].to("cpu:0")  # the line that waits

    return f


def alone_there() -> Callable[[Any], Any]:
    """A function that runs wholly on the device of its argument."""

    def f(x: Any) -> Any:
        while x.sum() > 1.0:  # the line that waits
            x = x * 0.5
        return x

    return f


NUMBER = """graph f(%x: f32[3]@cpu:0) {{
  %there = transfer(%x) {{device=device("{0}"), source=device("cpu:0")}} : f32[3]@{0}
  %y = exp(%there) : f32[3]@{0}
  %sum = sum(%y) {{axis=(0,), keepdims=False}} : f32[]@{0}
  %n = python_item(%sum) : float on "{0}"
  %twice = python_add(%n, %n) : float
  return %twice
}}"""


def graph_of(name: str, device: str) -> Graph:
    if name == "a number":
        return Graph.parse(NUMBER.format(device))
    program = {"a loop": while_there, "a branch": if_there, "a mask": mask_there}[name]
    return ef.trace(program(device)).graph(ef.ones(3)).optimise()


@pytest.mark.parametrize("name", ["a loop", "a branch", "a number", "a mask"])
def test_no_thread_waits(slow: AsyncBackend, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are those of eager code, with a device that works bit by bit and no wait."""
    graph = graph_of(name, f"{slow.kind}:0")
    made = ScheduledTier(graph, partitioned=True)
    wait = Work.wait

    def refused(work: Work) -> None:
        assert all(other.ended for other in work.needs), "more than a copy is waited for"
        wait(work)

    with monkeypatch.context() as patched:
        patched.setattr(Work, "wait", refused)
        step = ScheduledStep(made, wake=lambda: None)
        step.begin([np.ones(3, np.float32)])
        while not step.serve():
            assert slow.pump(1)  # otherwise the step could never end
        (result,) = step.take_result()
    (want,) = Executable(graph_of(name, "cpu:1"))(np.ones(3, np.float32))
    assert np.array_equal(result, want)


@pytest.mark.parametrize("around", [nullcontext, by_scheduler])
@pytest.mark.parametrize("name", ["a loop", "a branch", "a number", "a mask"])
def test_a_device_that_stops_answering_ends_by_the_deadline(
    slow: AsyncBackend, name: str, around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[weakref.ref[Any]] = []
    for kind in (ScheduledStep, StrandRun):
        monkeypatch.setattr(kind, "__init__", noting(kind, steps))
    with around():
        run = Executable(graph_of(name, f"{slow.kind}:0"))
    threads = set(threading.enumerate())
    with pytest.raises(DeadlineError) as caught, ef.deadline(0.15):
        run(np.ones(3, np.float32))
    if name != "a number":  # graphs from text have no lines
        assert "the line that waits" in str(caught.value)
    assert set(threading.enumerate()) <= threads
    del caught
    gc.collect()
    assert len(steps) == 1
    assert steps[0]() is None  # though the device has not answered


def noting(kind: type[Any], made: list[weakref.ref[Any]]) -> Callable[..., None]:
    """A constructor of a class that records the objects made."""
    init = kind.__init__

    def noted(one: Any, *args: Any, **options: Any) -> None:
        made.append(weakref.ref(one))
        init(one, *args, **options)

    return noted


@pytest.mark.parametrize("around", [nullcontext, by_scheduler])
@pytest.mark.parametrize("name", ["a loop", "a branch", "a number", "a mask"])
def test_a_step_that_waits_does_the_work_of_a_device_that_works_for_those_who_wait(
    name: str, around: Any
) -> None:
    with device_by_hand() as made, ef.config(cpu_devices=2), around():
        run = Executable(graph_of(name, f"{made.kind}:0"))
        for limit in (nullcontext(), ef.deadline(60)):
            with limit:
                (result,) = run(np.ones(3, np.float32))
            (want,) = Executable(graph_of(name, "cpu:1"))(np.ones(3, np.float32))
            assert np.array_equal(result, want)


def test_a_step_that_no_caller_waits_for_does_that_work_too() -> None:
    with device_by_hand() as made:
        masked, queue = mask_there(f"{made.kind}:0"), ef.Queue(2, "f32[3]")
        with ef.spawn(ef.trace(lambda x: queue.enqueue(masked(x))), ef.ones(3)):
            results = [queue.dequeue().tolist() for _ in range(2)]
        assert results == [masked(ef.ones(3)).tolist()] * 2


def test_iterations_overlap(slow: AsyncBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the host decides the number of iterations, all are issued before any work is done.

    If a value of the device decides, an iteration is issued when that value is there; its sends
    elsewhere are not waited for.
    """
    device = f"{slow.kind}:0"

    def counted(x: Any) -> Any:
        y, total, i = x.to(device), x.to("cpu:1"), ef.tensor(0)
        while i < 12:
            y = ef.sin(y)
            total = total + y.to("cpu:1")
            i = i + 1
        return total

    def decided(x: Any) -> Any:
        y, total = x.to(device), x.to("cpu:1")
        while y.sum() > 1.0:
            y = y * 0.5
            total = total + y.to("cpu:1")
        return total

    issued, issue = [], AsyncBackend._issued

    def counts(self: AsyncBackend, *given: Any, **rest: Any) -> Any:
        issued.append(given)
        return issue(self, *given, **rest)

    x = np.full(3, 8.0, np.float32)
    for f, at_first, in_all in ((counted, 12, 12), (decided, 2, 17)):
        graph = ef.trace(f).graph(ef.tensor(x)).optimise()
        step = ScheduledStep(ScheduledTier(graph, partitioned=True), wake=lambda: None)
        with monkeypatch.context() as patched:
            issued.clear()
            patched.setattr(AsyncBackend, "_issued", counts)
            step.begin([x])
            step.serve()
            assert len(issued) == at_first  # of `decided`, the sum and the test before the loop
            while not step.serve():
                assert slow.pump(1)
            assert len(issued) == in_all
        (result,) = step.take_result()
        assert np.array_equal(result, f(ef.tensor(x)).numpy())


def test_a_loop_on_one_such_device_alone(slow: AsyncBackend) -> None:
    f = ef.trace(alone_there())
    x = ef.ones(3, device=f"{slow.kind}:0")
    while slow.pump(100):
        pass
    f.graph(x)
    with (
        pytest.raises(DeadlineError, check=says("its deadline has passed")) as caught,
        ef.deadline(0.3),
    ):
        f(x)
    assert "the line that waits" in str(caught.value)
    while slow.pump(100):
        pass
    with ThreadPoolExecutor(1) as other:
        future = other.submit(f, x)
        while not future.done():
            slow.pump(100)
    assert future.result().tolist() == [0.25, 0.25, 0.25]
