"""Automatic placement of the traces of a function: plans, and what their trials go by."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import final

from eagerflow.function.placing.placement_trials import PlacedTrace, PlacementTrial
from eagerflow.function.placing.watched_steps import Seen
from eagerflow.graph.edit import size_places
from eagerflow.graph.ir import Graph
from eagerflow.placement.automatic.cost_model import CostModel, CostTable, ObservedTimes
from eagerflow.placement.automatic.executor_steps import ExecutorTraits
from eagerflow.placement.automatic.planning import PlacementPlan, plan
from eagerflow.placement.automatic.rates import MachineRates, load
from eagerflow.placement.automatic.requests import Request
from eagerflow.placement.rules import Rules
from eagerflow.runtime.scheduled.node_regions import find_regions
from eagerflow.runtime.scheduled.node_seconds import (
    HEAVY_SECONDS,
    node_seconds,
    op_threads,
    worker_count,
)
from eagerflow.runtime.scheduled.scheduled_tier import find_acts

_NO_SIZES: Mapping[str, int] = MappingProxyType({})


@final
@dataclass(slots=True)
class PlannedTrace:
    """The plan of a trace, and what its trials go by.

    Attributes:
        owner: what made the plan, and plans again.
        plan: the plan.
        sizes: what names of sizes stood for.
        seen: what was seen of steps of the trace.
        waits_for_sizes: whether a call has to tell them first.
        round: how many plans there were before.
    """

    owner: Automatic
    plan: PlacementPlan
    sizes: Mapping[str, int]
    seen: Seen
    waits_for_sizes: bool = False
    round: int = 0

    def rules(self) -> Rules:
        """What places the trace so, and its derivatives."""
        return replace(self.plan.rules(self.owner.request.source), planned=self)

    def model(self) -> CostModel:
        """What the nodes and moves of the trace cost, by what is known by now."""
        return self.owner.model(self.sizes, self.seen)

    def trial(self, entry: PlacedTrace) -> PlacementTrial | None:
        """What the steps of the trace go through to try the plan; None if that was done.

        Steps that compute types alone, on null devices, say nothing of the time of others.
        """
        if self.plan.verdict:
            return None
        tells = self.waits_for_sizes or any(device.holds_data for device in self.plan.devices)
        return PlacementTrial(entry, self) if tells else None

    def again(self, graph: Graph) -> PlannedTrace:
        """Plan the graph of the trace once more, by what was seen and measured since.

        Raises:
            PlacementError: it fits nowhere.
        """
        made = self.owner.plan(graph, self.sizes, self.seen)
        made.round = self.round + 1
        made.plan.recall(self.plan)
        made.plan.calibrate()
        return made


@final
class Automatic:
    """Decides where the traces of one function run.

    Args:
        name: of the function.
        request: what was asked for.

    Attributes:
        request: the same.
    """

    def __init__(self, name: str, request: Request) -> None:
        self.name = name
        self.request = request
        self._rates = load()

    def model(self, sizes: Mapping[str, int], seen: Seen) -> CostModel:
        """What the nodes and moves of a trace cost, by what was seen of it."""
        return _model(self._rates, sizes, seen.observed())

    def plan(
        self, graph: Graph, sizes: Mapping[str, int], seen: Seen | None = None
    ) -> PlannedTrace:
        """Where the nodes of a graph are best.

        Args:
            graph: of a trace.
            sizes: what names of sizes stand for.
            seen: what was seen of steps of that trace.

        Raises:
            PlacementError: it fits nowhere.
        """
        seen = seen or Seen()
        made = plan(graph, self.request, self.model(sizes, seen), traits(sizes), self.name)
        return PlannedTrace(self, made, sizes, seen)

    def rules(self, graph: Graph) -> Rules:
        """The rules for a trace. With sizes that only a call tells, it is planned again then."""
        made = self.plan(graph, {})
        made.waits_for_sizes = bool(size_places([v.type for v in graph.inputs]))
        return made.rules()


def _model(rates: MachineRates, sizes: Mapping[str, int], observed: ObservedTimes) -> CostModel:
    threads = op_threads()
    cores = max(1, (os.cpu_count() or 1) // threads)
    return CostModel(rates, sizes, threads=threads, cores=cores, observed=observed)


def traits(sizes: Mapping[str, int] = _NO_SIZES) -> ExecutorTraits:
    """What the executor does with graphs, by the settings as they are.

    Args:
        sizes: what names of sizes stand for.
    """
    weight = node_seconds(op_threads(), sizes)
    return ExecutorTraits(find_regions, find_acts, weight, HEAVY_SECONDS, worker_count())


def cost_table(name: str, rules: Rules | None, graph: Graph) -> CostTable:
    """What the nodes of a function cost that is placed by these rules, as far as is known."""
    planned: PlannedTrace | None = None if rules is None else rules.planned
    model = _model(load(), {}, ObservedTimes()) if planned is None else planned.model()
    return CostTable(name, model.table(graph))
