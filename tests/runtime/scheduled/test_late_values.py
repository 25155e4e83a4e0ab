"""What the host reads off a device that takes its time holds up no thread, and no deadline."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DeadlineError
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from eagerflow.runtime.scheduled import tier
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.scheduled.tier import ScheduledTier
from eagerflow_kernels.asynchronous import AsyncBackend
from eagerflow_kernels.asynchronous.streams import Work
from tests.fakes.by_hand import device_by_hand
from tests.messages import says


@pytest.fixture
def slow() -> Iterator[AsyncBackend]:
    """A device that works only when it is told to."""
    with device_by_hand() as made, ef.config(cpu_devices=2):
        yield made


def while_there(device: str) -> Callable[[Any], Any]:
    """A loop that goes on as long as a value of the device says so."""

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
    """All of it on the device of its argument."""

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
    """A thread that never waits, and a device that works bit by bit, give what eager code gives."""
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
            assert slow.pump(1)  # else nothing could ever go on
        (found,) = step.take_result()
    (want,) = Executable(graph_of(name, "cpu:1"))(np.ones(3, np.float32))
    assert np.array_equal(found, want)


@pytest.mark.parametrize("name", ["a loop", "a branch", "a number", "a mask"])
def test_a_device_that_stops_answering_ends_by_the_deadline(
    slow: AsyncBackend, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[weakref.ref[ScheduledStep]] = []
    init = ScheduledStep.__init__

    class Noted(ScheduledStep):  # type: ignore[misc]  # final for others
        def __init__(self, *args: Any, **options: Any) -> None:
            init(self, *args, **options)
            steps.append(weakref.ref(self))

    monkeypatch.setattr(tier, "ScheduledStep", Noted)
    run = Executable(graph_of(name, f"{slow.kind}:0"))
    threads = set(threading.enumerate())
    with pytest.raises(DeadlineError) as caught, ef.deadline(0.05):
        run(np.ones(3, np.float32))
    if name != "a number":  # text has no lines
        assert "the line that waits" in str(caught.value)
    assert set(threading.enumerate()) <= threads
    del caught
    gc.collect()
    assert steps
    assert [one for one in steps if one() is not None] == []  # though the device has not answered


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
        found = other.submit(f, x)
        while not found.done():
            slow.pump(100)
    assert found.result().tolist() == [0.25, 0.25, 0.25]
