"""The simulator finds the time that the executor needs."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import SchedulerError
from eagerflow.hardware import register_backend, registry
from eagerflow.placement.automatic.rates import LinkRates
from eagerflow.placement.automatic.replay import predict
from eagerflow.placement.automatic.simulator import (
    SimulatedDevice,
    SimulatedMove,
    SimulatedOp,
    SimulatedRegion,
    SimulatedStep,
    simulate,
)
from eagerflow.runtime.scheduled.tier import ScheduledTier
from eagerflow_kernels.asynchronous import AsyncBackend
from tests.fakes.timed_devices import (
    SimulatedClock,
    TimedArray,
    TimedBackend,
    define_pause,
    forget_pause,
)
from tests.placement.automatic.random_graphs import model, random_graph, traits

GRAPHS = 200
#: of the makespan
TOLERANCE = 0.05


@pytest.fixture
def timed() -> Iterator[TimedBackend]:
    define_pause(lambda seconds: None)
    backend = TimedBackend(SimulatedClock())
    register_backend(backend)
    with ef.config(threads=os.cpu_count()):  # the thread of the step does all: no other has its clock
        yield backend
    forget_pause()
    registry._backends.pop("timed")
    for i in range(4):
        registry._devices.pop(f"timed:{i}", None)


def test_makespans_are_those_of_the_executor(timed: TimedBackend) -> None:
    devices = [ef.hardware.as_device(f"timed:{i}") for i in range(4)]
    costs = model("timed", LinkRates(timed.latency, timed.speed))
    wrong = []
    for seed in range(GRAPHS):
        graph = random_graph(random.Random(seed), devices, 1e-3)
        timed.clock, timed.last = SimulatedClock(), 0.0
        timed.free.clear()
        tier = ScheduledTier(graph, partitioned=True)
        inputs = [TimedArray(np.dtype(np.float32), (8,)) for _ in graph.inputs]
        tier.step(clock=timed.clock).run(inputs)
        predicted = predict(graph, costs, traits()).seconds
        if abs(predicted - timed.last) > TOLERANCE * timed.last:
            wrong.append((seed, predicted, timed.last))
    assert wrong == []
