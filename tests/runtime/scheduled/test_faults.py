"""A kernel fails while other devices compute, wait and send: no hang, and nothing is left."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.errors import KernelError
from eagerflow.graph.ir import Node
from eagerflow.runtime.scheduled import scheduled_tier
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.strands.run import StrandRun
from eagerflow.runtime.threads.workers import shared
from eagerflow_kernels.asynchronous import AsyncBackend
from tests.fakes.by_hand import device_by_hand
from tests.messages import points_at
from tests.placement.scattered import by_scheduler
from tests.runtime.scheduled.scheduled_graphs import Ops, ops

__all__ = ["ops"]  # the fixture

PATIENCE = 20.0  # seconds after which a test that hangs fails
X = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def _four_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scheduled_tier, "worker_count", lambda: 4)
    with ef.config(cpu_devices=4):
        yield


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """Weak references to all steps made."""
    references: list[weakref.ref[Any]] = []

    def noting(kind: type[Any]) -> Callable[..., None]:
        init = kind.__init__

        def noted(instance: Any, *args: Any, **options: Any) -> None:
            references.append(weakref.ref(instance))
            init(instance, *args, **options)

        return noted

    for kind in (ScheduledStep, StrandRun):
        monkeypatch.setattr(kind, "__init__", noting(kind))
    return references


class Site:
    """A program at work on four devices when a kernel fails.

    Attributes:
        queue: the queue that one device waits for.
        counts: variables on the first and the third device, which count passing steps.
        computing: set as soon as one device computes.
        burnt: set when the kernel of the second device fails.
        fails: whether the kernel of the second device fails.
    """

    def __init__(self, ops: Ops, there: str) -> None:
        self.queue = ef.Queue(4, "f32[3]", device="cpu:3")
        self.counts = [
            ef.Variable(0.0, name="here"),
            ef.Variable(0.0, device="cpu:2", name="beside"),
        ]
        self.computing = threading.Event()
        self.burnt = threading.Event()
        self.fails = True
        self.there = there
        ops.add("heavy_long", self.long)
        ops.add("heavy_burning", self.burning)

    def long(self, x: Any) -> Any:
        """A kernel that is still running when the other kernel fails."""
        self.computing.set()
        if self.fails:
            assert self.burnt.wait(PATIENCE)
        return x + 1.0

    def burning(self, x: Any) -> Any:
        assert self.computing.wait(PATIENCE)
        if self.fails:
            self.burnt.set()
            raise FloatingPointError("the device is on fire")
        return x

    def step(self, x: Any) -> Any:
        here, beside = self.counts
        here.assign_add(1.0)
        total = x
        for _ in ef.arange(1):
            sent = (x.to(self.there) * 2.0).to("cpu:0")
            long = bind(get_op("heavy_long"), x.to("cpu:2"))
            burnt = bind(get_op("heavy_burning"), x.to("cpu:1"))  # the line that fails
            total = sent + self.queue.dequeue().to("cpu:0") + long.to("cpu:0") + burnt.to("cpu:0")
        beside.assign_add(1.0)
        return total

    def tier(self) -> ScheduledTier:
        def seconds(node: Node) -> float:
            return float(node.op.startswith("heavy"))

        graph = ef.trace(self.step).graph(ef.ones(3)).optimise()
        return ScheduledTier(graph, partitioned=True, seconds=seconds)

    def begin(self, *, fails: bool) -> None:
        self.fails = fails
        self.computing.clear()
        self.burnt.clear()


@pytest.mark.parametrize("by", ["strands", "scheduler"])
def test_a_kernel_fails_while_others_compute_wait_and_send(
    ops: Ops, made: list[weakref.ref[Any]], by: str
) -> None:
    shared.close()
    threads = set(threading.enumerate())
    with device_by_hand(answers=False) as slow:
        site = Site(ops, f"{slow.kind}:0")
        if by == "strands":
            tier = site.tier()
        else:
            with by_scheduler():
                tier = site.tier()
        assert (tier.strands is not None) == (by == "strands")
        for _ in range(5):
            site.begin(fails=True)
            with pytest.raises(KernelError, check=points_at("# the line that fails")) as caught:
                tier.run([X])
            notes = "\n".join(caught.value.__notes__)
            assert "this step had already written: variable 'here'" in notes
            assert "'beside'" not in notes
            del caught
            assert site.queue.resource.waiting(1) == 0
        assert [count.item() for count in site.counts] == [5.0, 0.0]
        shared.close()
        assert set(threading.enumerate()) <= threads
        gc.collect()
        assert len(made) == 5
        assert [
            reference for reference in made if reference() is not None
        ] == []  # though a device has not answered
        site.queue.enqueue(ef.ones(3, device="cpu:3"))
        assert site.queue.size().item() == 1  # no abandoned waiter has taken it
        site.begin(fails=False)
        with answering(slow):
            (result,) = tier.run([X])
        assert result.tolist() == [6.0, 6.0, 6.0]
        assert [count.item() for count in site.counts] == [6.0, 1.0]


@contextmanager
def answering(slow: AsyncBackend) -> Iterator[None]:
    """Within this block, the device works again, in a thread of its own."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.001):
            slow.pump(100)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        ended.set()
        worker.join(PATIENCE)
