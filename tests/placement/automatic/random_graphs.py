"""Random graphs of ops with known times, on several devices, and their cost model."""

from __future__ import annotations

import random

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.devices import move_operands
from eagerflow.hardware import Device
from eagerflow.placement.automatic.cost_model import CostModel
from eagerflow.placement.automatic.executor_steps import ExecutorTraits
from eagerflow.placement.automatic.rates import LinkRates, MachineRates, Rates
from eagerflow.placement.cut import Cut
from eagerflow.runtime.node_seconds import HEAVY_SECONDS, node_seconds
from eagerflow.runtime.scheduled.node_regions import find_regions
from eagerflow.runtime.scheduled.scheduled_tier import find_acts
from eagerflow.types import TensorType
from tests.fakes.timed_devices import FLOPS


def random_graph(
    draws: random.Random, devices: list[Device], scale: float, most: int = 40
) -> Graph:
    """A graph of at least 5 ops, each in a scope of its own, which identifies its time.

    Args:
        draws: the source of random numbers.
        devices: the devices for the ops.
        scale: maximum time of an op, in seconds.
        most: maximum number of ops.
    """
    graph = Graph("random")
    kind = TensorType(ef.float32, (8,))
    values = [graph.add_input(kind, f"x{i}", devices[i % len(devices)]) for i in range(3)]
    for i in range(draws.randint(5, most)):
        taken = draws.sample(values[-12:], draws.randint(1, 3))
        shape = (draws.choice((4, 1000, 50_000)),)
        seconds = draws.uniform(0.1, 1.0) * scale
        node = graph.add_node(
            "pause", taken, (TensorType(ef.float32, shape),),
            {"seconds": seconds, "shape": shape}, device=draws.choice(devices), scope=f"op{i}",
        )  # fmt: skip
        values += node.outputs
    used = {v for node in graph.nodes for v in node.inputs}
    graph.outputs = [v for v in values[3:] if v not in used]
    move_operands(graph)
    return graph


def traits(threads: int = 1, *, scheduled: bool = False) -> ExecutorTraits:
    """The traits of the executor here, or of the scheduler if it is to run all partitions."""
    acts = _none if scheduled else find_acts
    return ExecutorTraits(find_regions, acts, node_seconds(threads), HEAVY_SECONDS, threads)


def _none(parts: Cut, graph: Graph, *, heavy: bool, branches: bool) -> None:
    """Stands for `find_acts` where no partition is a strand."""


def model(kind: str, link: LinkRates, *, send: float = 0.0, region: float = 0.0) -> CostModel:
    """The cost model of devices whose ops take as many seconds as their attribute says."""
    rates = Rates(bytes=1e18, flops=FLOPS, matrix=1e18, call=1e-12)
    return CostModel(MachineRates({kind: rates}, {f"{kind}>{kind}": link}, region, send))
