"""Automatic placement of the traces of a function: plans, and the data for their trials."""

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
from eagerflow.runtime.node_seconds import (
    HEAVY_SECONDS,
    node_seconds,
    op_threads,
    worker_count,
)
from eagerflow.runtime.scheduled.node_regions import find_regions
from eagerflow.runtime.scheduled.scheduled_tier import find_acts

_NO_SIZES: Mapping[str, int] = MappingProxyType({})


@final
@dataclass(slots=True)
class PlannedTrace:
    """The plan of a trace, and the data for its trials.

    Attributes:
        owner: makes the plans.
        plan: the plan.
        sizes: the values of symbolic sizes.
        seen: the times seen in steps of the trace.
        waits_for_sizes: whether the sizes are unknown until a call.
        round: number of plans before.
    """

    owner: Automatic
    plan: PlacementPlan
    sizes: Mapping[str, int]
    seen: Seen
    waits_for_sizes: bool = False
    round: int = 0

    def rules(self) -> Rules:
        """The rules that place the trace and its derivatives by the plan."""
        return replace(self.plan.rules(self.owner.request.source), planned=self)

    def model(self) -> CostModel:
        """The cost model of the nodes and moves of the trace, by the times seen so far."""
        return self.owner.model(self.sizes, self.seen)

    def trial(self, entry: PlacedTrace) -> PlacementTrial | None:
        """The trial of the plan, which runs the steps of the trace; None if it was tried.

        Steps on null devices compute types alone, so their times say nothing of other devices.
        """
        if self.plan.verdict:
            return None
        tells = self.waits_for_sizes or any(device.holds_data for device in self.plan.devices)
        return PlacementTrial(entry, self) if tells else None

    def again(self, graph: Graph) -> PlannedTrace:
        """Plan the graph of the trace once more, by the times seen and measured since.

        Raises:
            PlacementError: the graph fits nowhere.
        """
        made = self.owner.plan(graph, self.sizes, self.seen)
        made.round = self.round + 1
        made.plan.recall(self.plan)
        made.plan.calibrate()
        return made


@final
class Automatic:
    """Automatic placement of the traces of one function.

    Args:
        name: of the function.
        request: the request of the user.

    Attributes:
        request: the same.
    """

    def __init__(self, name: str, request: Request) -> None:
        self.name = name
        self.request = request
        self._rates = load()

    def model(self, sizes: Mapping[str, int], seen: Seen) -> CostModel:
        """The cost model of the nodes and moves of a trace, by the times seen."""
        return _model(self._rates, sizes, seen.observed())

    def plan(
        self, graph: Graph, sizes: Mapping[str, int], seen: Seen | None = None
    ) -> PlannedTrace:
        """Plan the placement of a graph.

        Args:
            graph: of a trace.
            sizes: the values of symbolic sizes.
            seen: the times seen in steps of that trace.

        Raises:
            PlacementError: the graph fits nowhere.
        """
        seen = seen or Seen()
        made = plan(graph, self.request, self.model(sizes, seen), traits(sizes), self.name)
        return PlannedTrace(self, made, sizes, seen)

    def rules(self, graph: Graph) -> Rules:
        """The rules for a trace. With symbolic sizes it is planned again at the first call."""
        made = self.plan(graph, {})
        made.waits_for_sizes = bool(size_places([v.type for v in graph.inputs]))
        return made.rules()


def _model(rates: MachineRates, sizes: Mapping[str, int], observed: ObservedTimes) -> CostModel:
    threads = op_threads()
    cores = max(1, (os.cpu_count() or 1) // threads)
    return CostModel(rates, sizes, threads=threads, cores=cores, observed=observed)


def traits(sizes: Mapping[str, int] = _NO_SIZES) -> ExecutorTraits:
    """Properties of the executor with the present settings.

    Args:
        sizes: the values of symbolic sizes.
    """
    weight = node_seconds(op_threads(), sizes)
    return ExecutorTraits(find_regions, find_acts, weight, HEAVY_SECONDS, worker_count())


def cost_table(name: str, rules: Rules | None, graph: Graph) -> CostTable:
    """The cost table of the nodes of a function placed by these rules, by the times known."""
    planned: PlannedTrace | None = None if rules is None else rules.planned
    model = _model(load(), {}, ObservedTimes()) if planned is None else planned.model()
    return CostTable(name, model.table(graph))
