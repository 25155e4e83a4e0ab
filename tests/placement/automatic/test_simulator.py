"""The simulator's makespans, compared with those of the executor."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import SchedulerError
from eagerflow.graph import Graph
from eagerflow.hardware import Device, register_backend, registry
from eagerflow.placement.automatic.executor_steps import predict
from eagerflow.placement.automatic.rates import LinkRates
from eagerflow.placement.automatic.simulated_step import (
    GIVEN,
    SimulatedAct,
    SimulatedDevice,
    SimulatedMove,
    SimulatedOp,
    SimulatedRegion,
    SimulatedStep,
)
from eagerflow.placement.automatic.simulator import simulate
from eagerflow.placement.automatic.sites import site_of
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow_kernels.asynchronous import AsyncBackend
from tests.fakes.timed_devices import (
    SimulatedClock,
    TimedArray,
    TimedBackend,
    define_pause,
    forget_pause,
    forget_timed,
)
from tests.placement.automatic.random_graphs import model, random_graph, traits

#: number of graphs, fewer than in the slow test, which runs these in real time
GRAPHS = 40
#: relative to the makespan
TOLERANCE = 0.05


@pytest.fixture
def timed() -> Iterator[TimedBackend]:
    define_pause(lambda seconds: None)
    backend = TimedBackend(SimulatedClock())
    register_backend(backend)
    with ef.config(
        threads=os.cpu_count()
    ):  # the thread of the step does all work, as it has the clock
        yield backend
    forget_pause()
    forget_timed()


@pytest.mark.parametrize("scheduled", [False, True], ids=["strands", "scheduler"])
def test_makespans_are_those_of_the_executor(timed: TimedBackend, scheduled: bool) -> None:
    assert _wrong(timed, range(GRAPHS), scheduled=scheduled) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheduled", [False, True], ids=["strands", "scheduler"])
def test_makespans_are_those_of_200_graphs(timed: TimedBackend, scheduled: bool) -> None:
    assert _wrong(timed, range(GRAPHS, 200), scheduled=scheduled) == []


def _wrong(
    timed: TimedBackend, seeds: range, *, scheduled: bool
) -> list[tuple[int, float, float]]:  # fmt: skip
    """The seeds of graphs whose makespan is predicted wrong, with predicted and measured times."""
    devices = [ef.hardware.as_device(f"timed:{i}") for i in range(4)]
    costs = model("timed", LinkRates(timed.latency, timed.speed))
    wrong = []
    for seed in seeds:
        graph = random_graph(random.Random(seed), devices, 1e-3)
        measured = _makespan(timed, graph, scheduled=scheduled)
        predicted = predict(graph, costs, traits(scheduled=scheduled)).seconds
        if abs(predicted - measured) > TOLERANCE * measured:
            wrong.append((seed, predicted, measured))
    return wrong


def _makespan(timed: TimedBackend, graph: Graph, *, scheduled: bool) -> float:
    """The time at which the devices have done all work that the executor issues."""
    timed.clock, timed.last = SimulatedClock(), 0.0
    timed.free.clear()
    tier = ScheduledTier(graph, partitioned=True)
    inputs = [TimedArray(np.dtype(np.float32), (8,)) for _ in graph.inputs]
    if scheduled:
        tier.step(clock=timed.clock).run(inputs)
    else:
        assert tier.strands is not None
        tier.run(inputs)
    return timed.last


@pytest.mark.slow
def test_makespans_in_real_time() -> None:
    """Ops that sleep, on asynchronous devices, by strands.

    A sleep is longer than asked on a busy machine: each op records its beginning and end.
    The model gets the times of the ops in this very step, and predicts the end of the last op.
    The time of threads and copies is not in the model: such a graph has more than one try.
    """
    spans: dict[float, tuple[float, float]] = {}

    def pause(seconds: float) -> None:
        begin = time.perf_counter()
        time.sleep(seconds)
        spans[seconds] = begin, time.perf_counter()  # the seconds of each op are unique

    define_pause(pause)
    register_backend(AsyncBackend("sleepy", devices=4))
    devices = [ef.hardware.as_device(f"sleepy:{i}") for i in range(4)]
    try:
        with ef.config(threads=os.cpu_count()):
            off = [seed for seed in range(200) if not _is_close(seed, devices, spans)]
    finally:
        forget_pause()
        registry._backends.pop("sleepy")
        for device in devices:
            registry._devices.pop(device.name)
    assert off == []


def _is_close(seed: int, devices: list[Device], spans: dict[float, tuple[float, float]]) -> bool:
    return any(abs(_ratio(seed, devices, spans) - 1) <= TOLERANCE for _ in range(4))


def _ratio(seed: int, devices: list[Device], spans: dict[float, tuple[float, float]]) -> float:
    """The predicted time of a step, divided by the time from its first op to its last."""
    graph = random_graph(random.Random(seed), devices, 0.1)
    tier = ScheduledTier(graph, partitioned=True)
    spans.clear()
    tier.run([ef.ones(8, device=v.device)._data for v in tier.graph.inputs])
    for device in devices:
        ef.hardware.synchronize(device)
    costs = model("sleepy", LinkRates(2e-4))
    for node in graph.nodes:
        if node.op == "pause":
            begin, end = spans[node.attrs["seconds"]]
            costs.observed.nodes[site_of(node), "sleepy"] = end - begin
    begins, ends = zip(*spans.values(), strict=True)
    measured: float = max(ends) - min(begins)
    return predict(graph, costs, traits()).seconds / measured


def _step(
    ops: list[SimulatedOp], regions: list[SimulatedRegion], *, later: bool, threads: int = 1,
    moves: tuple[SimulatedMove, ...] = (), strands: Sequence[str] = (),
) -> SimulatedStep:  # fmt: skip
    """A step on two devices; strands are written as ``run 0, send 0``."""
    devices = [SimulatedDevice("a", later), SimulatedDevice("b", later)]
    acts = [[_act(text) for text in strand.split(", ")] for strand in strands]
    return SimulatedStep(devices, ops, regions, moves, (), threads, acts)


def _act(text: str) -> SimulatedAct:
    what, number = text.split()
    return SimulatedAct(what, int(number))  # type: ignore[arg-type]


def test_virtual_cpus_share_the_threads_of_the_host() -> None:
    ops = [SimulatedOp(1.0), SimulatedOp(1.0), SimulatedOp(1.0)]
    regions = [SimulatedRegion(i % 2, (i,), heavy=True) for i in range(3)]
    seconds = [simulate(_step(ops, regions, later=False, threads=n)).seconds for n in (1, 2, 3)]
    assert seconds == [3.0, 2.0, 1.0]
    assert simulate(_step(ops, regions, later=True)).seconds == 2.0  # two ops of the first device


def test_ops_take_longer_while_other_threads_work() -> None:
    ops = [SimulatedOp(1.0, crowding=1.5), SimulatedOp(1.0, crowding=1.5)]
    regions = [SimulatedRegion(i, (i,), heavy=True) for i in range(2)]
    assert simulate(_step(ops, regions, later=False, threads=2)).seconds == 1.5
    assert simulate(_step(ops, regions, later=False)).seconds == 2.0  # one after the other
    assert simulate(_step(ops, regions, later=True, threads=2)).seconds == 1.0  # beside the host


def test_light_regions_are_of_the_thread_of_the_step() -> None:
    ops = [SimulatedOp(1.0), SimulatedOp(1.0)]
    regions = [SimulatedRegion(i, (i,)) for i in range(2)]
    assert simulate(_step(ops, regions, later=False, threads=2)).seconds == 2.0


def test_copies_to_one_device_queue_and_run_beside_kernels() -> None:
    ops = [SimulatedOp(1.0), SimulatedOp(1.0), SimulatedOp(1.0, needs=(3, 4))]
    regions = [SimulatedRegion(0, (0, 1)), SimulatedRegion(1, (2,), receives=(0, 1))]
    moves = tuple(SimulatedMove(i, 0, 0, 1, seconds=2.0) for i in range(2))
    simulation = simulate(_step(ops, regions, later=True, moves=moves))
    assert simulation.spans[3:] == [(1.0, 3.0), (3.0, 5.0)]
    assert simulation.seconds == 6.0


def test_the_host_reads_values_of_its_own_region_as_it_comes_to_them() -> None:
    ops = [SimulatedOp(3.0, call=0.5), SimulatedOp(1.0, call=0.5, reads=(0,)), SimulatedOp(1.0)]
    simulation = simulate(_step(ops, [SimulatedRegion(0, (0, 1, 2))], later=True))
    assert simulation.spans == [(0.5, 3.5), (4.0, 5.0), (5.0, 6.0)]


def test_regions_that_wait_for_each_other_are_seen() -> None:
    regions = [SimulatedRegion(0, (0,), after=(1,)), SimulatedRegion(0, (1,), after=(0,))]
    with pytest.raises(SchedulerError, match="wait for each other"):
        simulate(_step([SimulatedOp(1.0), SimulatedOp(1.0)], regions, later=False))


def test_strands_give_ops_to_a_device_in_the_order_of_the_program() -> None:
    """The scheduler issues what has its operand first; a strand waits for what comes first."""
    ops = [SimulatedOp(3.0), SimulatedOp(1.0, needs=(3,)), SimulatedOp(1.0)]
    regions = [
        SimulatedRegion(0, (0,)), SimulatedRegion(1, (1,), receives=(0,)), SimulatedRegion(1, (2,))
    ]  # fmt: skip
    moves = (SimulatedMove(0, 0, 0, 1, seconds=1.0),)
    strands = ["run 0, send 0", "receive 0, run 1, run 2"]
    by_strands = simulate(_step(ops, regions, later=True, moves=moves, strands=strands))
    assert by_strands.spans[1:3] == [(4.0, 5.0), (5.0, 6.0)]
    scheduled = simulate(_step(ops, regions, later=True, moves=moves))
    assert scheduled.spans[1:3] == [(4.0, 5.0), (0.0, 1.0)]


def test_the_host_reads_a_value_when_it_is_there_and_another_strand_goes_on() -> None:
    ops = [SimulatedOp(3.0), SimulatedOp(1.0), SimulatedOp(1.0)]
    regions = [SimulatedRegion(0, (0,)), SimulatedRegion(0, (1,)), SimulatedRegion(1, (2,))]
    strands = ["run 0, wait 0, run 1", "run 2"]
    simulation = simulate(_step(ops, regions, later=True, strands=strands))
    assert simulation.spans == [(0.0, 3.0), (3.0, 4.0), (0.0, 1.0)]


def test_a_value_for_another_kind_of_device_goes_when_it_is_there() -> None:
    ops = [SimulatedOp(2.0), SimulatedOp(1.0, needs=(2,))]
    regions = [SimulatedRegion(0, (0,)), SimulatedRegion(1, (1,))]
    moves = (SimulatedMove(0, 0, 0, 1, seconds=0.5, waits=True),)
    devices = [SimulatedDevice("gpu:0", later=True), SimulatedDevice("cpu:0", later=False)]
    acts = [[_act("run 0"), _act("send 0")], [_act("receive 0"), _act("run 1")]]
    simulation = simulate(SimulatedStep(devices, ops, regions, moves, strands=acts))
    assert simulation.spans == [(0.0, 2.0), (2.5, 3.5), (2.0, 2.5)]


def test_heavy_regions_of_strands_run_at_once_where_threads_are_idle() -> None:
    ops = [SimulatedOp(2.0, crowding=1.5), SimulatedOp(2.0, crowding=1.5)]
    regions = [SimulatedRegion(i, (i,), heavy=True) for i in range(2)]
    strands = ["run 0", "run 1"]
    times = [
        simulate(_step(ops, regions, later=False, threads=n, strands=strands)).seconds
        for n in (1, 2)
    ]
    assert times == [4.0, 3.0]


def test_strands_that_wait_for_each_other_are_seen() -> None:
    moves = (SimulatedMove(GIVEN, GIVEN, 0, 1, 1.0), SimulatedMove(GIVEN, GIVEN, 1, 0, 1.0))
    strands = ["receive 1, send 0", "receive 0, send 1"]
    with pytest.raises(SchedulerError, match="wait for each other"):
        simulate(_step([], [], later=True, moves=moves, strands=strands))
