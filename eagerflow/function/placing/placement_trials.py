"""The trials of planned placements: steps of a traced function, alternately, the faster one kept.

What the cost model proposes (`placement/automatic/`) is tried: steps run alternately as planned
and where the program says. The medians decide. What was seen of nodes and moves meanwhile is
remembered with the trace, and the placement is planned once more with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final, Protocol, final

from eagerflow.autodiff.tape import Tape
from eagerflow.core.tensor import Tensor
from eagerflow.formatting import seconds_text
from eagerflow.function.derivative import Derivative
from eagerflow.function.placing.watched_steps import Seen, StepWatcher
from eagerflow.graph.edit import size_places
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.passes import optimise
from eagerflow.hardware import as_device, wait_for_data
from eagerflow.placement.apply_rules import Placement, place
from eagerflow.placement.automatic.cost_model import (
    CostModel,
    CostTable,
    ObservedTimes,
)
from eagerflow.placement.automatic.executor_steps import ExecutorTraits
from eagerflow.placement.automatic.planning import (
    GAIN,
    OWN,
    Alternative,
    PlacementPlan,
    Request,
    plan,
)
from eagerflow.placement.automatic.rates import MachineRates, load
from eagerflow.placement.rules import Rules
from eagerflow.profiling.node_statistics import median
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.background_compilation import Mode
from eagerflow.runtime.executable import Executable
from eagerflow.runtime.scheduled.node_regions import find_regions
from eagerflow.runtime.scheduled.node_seconds import (
    HEAVY_SECONDS,
    node_seconds,
    op_threads,
    worker_count,
)
from eagerflow.runtime.scheduled.scheduled_tier import find_acts

#: steps of either placement that are timed; before them are one that compiles, and watched ones
_TIMED_STEPS: Final = 9
_WATCHED: Final = 3
#: the graphs of a step with its gradient
_PARTS: Final = 2
#: how often a placement is planned
_ROUNDS: Final = 2


class PlacedTrace(Protocol):
    """A trace that is placed, as far as a trial has to do with it."""

    graph: Graph
    executable: Executable
    compile: Mode
    rules: Rules | None

    def replace(self, rules: Rules | None, placement: Placement | None) -> None:
        """Run it as rules made it from the next step on."""

    @property
    def trial(self) -> PlacementTrial | None:
        """What its steps go through now."""

    def differentiated(self, tape: Tape, inputs: Sequence[Any]) -> Sequence[Tensor] | None:
        """Run it as one step of a tape; None where the tape has to see each op."""


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
        """What the nodes and moves of a trace cost, by what is known by now."""
        return _model(self._rates, sizes, seen.observed())

    def plan(
        self, graph: Graph, sizes: Mapping[str, int], seen: Seen | None = None
    ) -> PlacementPlan:
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
        made.owner, made.seen, made.sizes = self, seen, sizes
        return made

    def rules(self, graph: Graph) -> Rules:
        """The rules for a trace. With sizes that only a call tells, it is planned again then."""
        made = self.plan(graph, {})
        made.waits_for_sizes = bool(size_places([v.type for v in graph.inputs]))
        return made.rules(self.request.source)

    def begin(self, entry: PlacedTrace, rules: Rules, placement: Placement | None = None) -> None:
        """Place a trace by a plan; its steps try that, if it is not what the program says."""
        entry.replace(rules, place(entry.graph, rules) if placement is None else placement)

    def trial(self, entry: PlacedTrace) -> PlacementTrial | None:
        """What the steps of a trace go through to try its plan; None if that was done.

        Steps that compute types alone, on null devices, say nothing of the time of others.
        """
        made: PlacementPlan | None = None if entry.rules is None else entry.rules.plan
        if made is None or made.verdict:
            return None
        tells = made.waits_for_sizes or any(device.holds_data for device in made.devices)
        return PlacementTrial(entry, made) if tells else None


def _model(rates: MachineRates, sizes: Mapping[str, int], observed: ObservedTimes) -> CostModel:
    threads = op_threads()
    cores = max(1, (os.cpu_count() or 1) // threads)
    return CostModel(rates, sizes, threads=threads, cores=cores, observed=observed)


def traits(sizes: Mapping[str, int] = MappingProxyType({})) -> ExecutorTraits:
    """What the executor does with graphs, by the settings as they are.

    Args:
        sizes: what names of sizes stand for.
    """
    weight = node_seconds(op_threads(), sizes)
    return ExecutorTraits(find_regions, find_acts, weight, HEAVY_SECONDS, worker_count())


def cost_table(name: str, rules: Rules | None, graph: Graph) -> CostTable:
    """What the nodes of a function cost that is placed by these rules, as far as is known."""
    made = None if rules is None else rules.plan
    if made is None:
        return CostTable(name, _model(load(), {}, ObservedTimes()).table(graph))
    return CostTable(name, made.owner.model(made.sizes, made.seen).table(graph))


@final
class PlacementTrial:
    """Runs the steps of a trace alternately as planned and where the program says.

    Where the plan is what the program says, or that has no room, all steps run as planned. They are
    watched and timed all the same, since what is seen of them may tell of a better plan.

    Args:
        entry: the trace.
        made: the plan.
    """

    def __init__(self, entry: PlacedTrace, made: PlacementPlan) -> None:
        self._entry = entry
        self._plan = made
        self._planned = entry.executable
        self._own: Executable | None = None
        self._lock = threading.Lock()
        alternates = made.chosen is not made.own and not made.own.too_much
        self._count = 2 if alternates else 1
        self._derivatives: list[Derivative | None] = []
        self._alone, self._with_gradient = _Times(self._count), _Times(self._count)
        self._over = False

    @property
    def executables(self) -> list[Executable]:
        """What runs the steps besides the executable of the trace."""
        own = [] if self._own is None else [self._own]
        return own + [one for d in self._derivatives if d is not None for one in d.executables]

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run a step, by the one or the other."""
        if self._plan.waits_for_sizes:
            trial = self._planned_for(inputs)
            return self._entry.executable(*inputs) if trial is None else trial(*inputs)
        if self._over:
            return self._planned(*inputs)
        with self._lock:
            if self._own is None and self._count > 1:
                graph = optimise(self._entry.graph)[0]
                self._own = Executable(graph, self._entry.compile)
            which, before = self._alone.next()
        executable = self._own if which and self._own is not None else self._planned
        graph = self._entry.graph
        wait_for(graph.inputs, inputs, graph)
        with self._watching(executable, before):
            start = perf_counter()
            results = executable(*inputs)
            wait_for(graph.outputs, results, graph)
            seconds = perf_counter() - start
        self._took(self._alone, which, before, seconds)
        return results

    def differentiated(self, tape: Tape, inputs: Sequence[Any]) -> Sequence[Tensor] | None:
        """Run a step of which a tape takes the derivative, by the one or the other.

        The step ends with its backward graph, so one that is never gone back over is not counted.

        Args:
            tape: the tape.
            inputs: tensors and numbers.

        Returns:
            The outputs; None where each op has to be seen by the tape.
        """
        if self._plan.waits_for_sizes:
            trial = self._planned_for(inputs)
            if trial is not None:
                return trial.differentiated(tape, inputs)
            return self._entry.differentiated(tape, inputs)
        with self._lock:
            if not self._derivatives:
                entry, rules = self._entry, (self._entry.rules, None)[: self._count]
                self._derivatives = [Derivative.of(entry.graph, r, entry.compile) for r in rules]
            which, before = self._with_gradient.next()
        derivative = self._derivatives[0 if self._over else which]
        if derivative is None:
            return None
        run = Executable.apply if self._over else _GradientStep(self, which, before).run
        return derivative.call(tape, inputs, run)

    def _planned_for(self, inputs: Sequence[Any]) -> PlacementTrial | None:
        """Plan for the sizes of a call; give the trial of that plan."""
        entry, owner = self._entry, self._plan.owner
        places = size_places([v.type for v in entry.graph.inputs])
        sizes = {name: inputs[i].shape[axis] for name, (i, axis) in places.items()}
        made = owner.plan(entry.graph, sizes)
        owner.begin(entry, made.rules(owner.request.source))
        return entry.trial

    def _watching(self, executable: Executable, before: int) -> AbstractContextManager[Any]:
        """What a step is run within, after so many others of its placement."""
        watched = 0 < before <= _WATCHED
        return StepWatcher(executable, self._plan.seen) if watched else nullcontext()

    def _took(self, times: _Times, which: int, before: int, seconds: float) -> None:
        """Count a step that has ended."""
        with self._lock:
            times.add(which, seconds if before > _WATCHED else None)
            if self._over or not times.enough:
                return
            self._over = True
        if self._entry.trial is self:  # else the user has placed it otherwise meanwhile
            self._decide(times)

    def _decide(self, times: _Times) -> None:
        """Keep the faster placement; plan once more by what was seen."""
        made, owner, entry = self._plan, self._plan.owner, self._entry
        winner, result = self._compared(times)
        tried = {one.assignment for one in made.alternatives if one.measured is not None}
        again = owner.plan(entry.graph, made.sizes, made.seen)
        again.round = made.round + 1
        again.recall(made)
        again.calibrate()
        new = again.chosen.assignment not in tried
        least = min(map(median, times.seconds))
        if new and again.round < _ROUNDS and again.chosen.predicted < GAIN * least:
            owner.begin(entry, again.rules(owner.request.source))
            return
        again.choose(winner.assignment)
        kind = " with their gradients" if times is self._with_gradient else ""
        again.verdict = f"tried in {sum(map(len, times.seconds))} steps{kind}: {result}"
        owner.begin(entry, again.rules(owner.request.source))

    def _compared(self, times: _Times) -> tuple[Alternative, str]:
        """Note what was measured; give the placement that is kept, and in words why."""
        made = self._plan
        planned = made.chosen.measured = median(times.seconds[0])
        without = " without" if times is self._with_gradient else ""
        took = _took_text(made.chosen, without)
        if self._count == 1:
            timed = [one for one in made.alternatives if one.measured is not None]
            fastest = min(timed, key=lambda one: one.measured or 0.0)
            return fastest, f"{made.chosen.name}: {took}"
        own = made.own.measured = median(times.seconds[1])
        kept = planned <= GAIN * own
        result = "is kept" if kept else "is not faster and was given up"
        text = f"{made.chosen.name} {result}: {took}, {OWN} {_took_text(made.own, without)}"
        return made.chosen if kept else made.own, text


@final
class _Times:
    """How long steps of the placements of a trial took.

    Args:
        count: of placements.

    Attributes:
        seconds: of each placement those of the steps that are compared.
    """

    def __init__(self, count: int) -> None:
        self.seconds: list[list[float]] = [[] for _ in range(count)]
        self._ended = [0] * count

    def next(self) -> tuple[int, int]:
        """Which placement has had fewer steps, and how many.

        Only steps that have ended count: one that fails is tried again.
        """
        before = min(self._ended)
        return self._ended.index(before), before

    def add(self, which: int, seconds: float | None) -> None:
        """Count a step that has ended; None of one that is not compared."""
        self._ended[which] += 1
        if seconds is not None:
            self.seconds[which].append(seconds)

    @property
    def enough(self) -> bool:
        """Whether so many were timed that the placements can be compared."""
        return min(map(len, self.seconds)) >= _TIMED_STEPS


@final
class _GradientStep:
    """One step of a trial under a tape: its forward graph, and later its backward graph.

    Args:
        trial: the trial.
        which: of its placements.
        before: how many steps of that placement have ended.
    """

    def __init__(self, trial: PlacementTrial, which: int, before: int) -> None:
        self._trial = trial
        self._which, self._before = which, before
        self._parts: list[float] = []

    def run(self, executable: Executable, values: Sequence[Any]) -> list[Any]:
        """Run one of the two graphs on tensors and numbers; gives the same."""
        trial = self._trial
        _wait_for_tensors(values)
        with trial._watching(executable, self._before):
            start = perf_counter()
            results = executable.apply(values)
            _wait_for_tensors(results)
            self._parts.append(perf_counter() - start)
        if len(self._parts) == _PARTS:  # of one that is gone back over twice the first time counts
            trial._took(trial._with_gradient, self._which, self._before, sum(self._parts))
        return results


def _took_text(one: Alternative, gradients: str) -> str:
    """What was measured of a placement, and what the plan had predicted for it before.

    Args:
        one: the placement.
        gradients: that what was predicted is without those that were measured, in words.
    """
    measured = seconds_text(one.measured or 0.0, precise=True)
    return f"{measured} (predicted {seconds_text(one.predicted, precise=True)}{gradients})"


def wait_for(values: Sequence[Value], arrays: Sequence[Any], graph: Graph) -> None:
    """Wait until values of a graph are there, and those of its variables.

    A device that works later has done nothing yet when its step has been issued. What has failed
    is there, too: whoever reads it gets the error.
    """
    states = [s for s in graph.resources.values() if type(s) is VariableState]
    pairs = [(as_device(v.device), x) for v, x in zip(values, arrays, strict=True) if v.device]
    pairs += [(s.device, s.read()) for s in states if not s.device.is_ready_at_once]
    for device, data in pairs:
        wait_for_data(data, device)


def _wait_for_tensors(values: Sequence[Any]) -> None:
    """Wait until the tensors among ``values`` are there."""
    for x in values:
        if type(x) is Tensor:
            wait_for_data(x._data, x._lane.device)
