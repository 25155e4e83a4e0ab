"""The trials of planned placements: steps of a traced function, alternately, the faster one kept.

What the cost model proposes (`placement/automatic/`) is tried: steps run alternately as planned
and where the program says. The medians decide. What was seen of nodes and moves meanwhile is
remembered with the trace, and the placement is planned once more with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar, final

from eagerflow.autodiff.tape import Tape
from eagerflow.core.tensor import Tensor
from eagerflow.errors import EagerflowError, PlacementWarning
from eagerflow.formatting import seconds_text
from eagerflow.function.derivative import Derivative
from eagerflow.function.placing.watched_steps import Seen, StepWatcher
from eagerflow.graph.edit import size_places
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.passes import optimise
from eagerflow.hardware import Device, as_device, wait_for_data
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
from eagerflow.source import warn

#: steps of either placement that are timed; before them are one that compiles, and watched ones
_TIMED_STEPS: Final = 9
_WATCHED: Final = 3
#: how often a placement is planned
_ROUNDS: Final = 2


_Results = TypeVar("_Results", bound=Sequence[Any])
#: an array, with the device that it is on
_Placed = tuple[Device, Any]


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
        self._programs: Executable | None = None  # runs it where the program says
        self._lock = threading.Lock()
        alternates = made.chosen is not made.own and not made.own.too_much
        self._placements = 2 if alternates else 1
        self._derivatives: list[Derivative | None] = []
        self._results_alone, self._with_gradients = (_Times(self._placements) for _ in range(2))
        self._decides = False  # a thread is at it, or it is decided

    @property
    def executables(self) -> list[Executable]:
        """What runs the steps besides the executable of the trace."""
        own = [] if self._programs is None else [self._programs]
        return own + [one for d in self._derivatives if d is not None for one in d.executables]

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run a step, by the one or the other."""
        if self._plan.waits_for_sizes:
            trial = self._planned_for(inputs)
            return self._entry.executable(*inputs) if trial is None else trial(*inputs)
        if self._decides:
            return self._planned(*inputs)
        graph = self._entry.graph
        with self._lock:
            if self._programs is None and self._placements > 1:
                self._programs = Executable(optimise(graph)[0], self._entry.compile)
            step = _TrialStep(self, self._results_alone, parts=1)
        executable = (self._planned, self._programs)[step.which] or self._planned
        return step.part(
            executable, lambda: executable(*inputs), _arrays_of(graph, graph.inputs, inputs),
            lambda results: _arrays_of(graph, graph.outputs, results),
        )  # fmt: skip

    def differentiated(self, tape: Tape, inputs: Sequence[Any]) -> Sequence[Tensor] | None:
        """Run a step of which a tape takes the derivative, by the one or the other.

        The step ends with its backward graph, so one that is never gone back over is not counted.

        Args:
            tape: the tape.
            inputs: tensors and numbers.

        Returns:
            The outputs; None where each op has to be seen by the tape.
        """
        entry = self._entry
        if self._plan.waits_for_sizes:
            trial = self._planned_for(inputs)
            return (entry if trial is None else trial).differentiated(tape, inputs)
        with self._lock:
            if not self._derivatives:
                rules = (entry.rules, None)[: self._placements]
                self._derivatives = [Derivative.of(entry.graph, r, entry.compile) for r in rules]
            step = _TrialStep(self, self._with_gradients, parts=2)
        derivative = self._derivatives[0 if self._decides else step.which]
        if derivative is None:
            return None

        def run(executable: Executable, values: Sequence[Any]) -> list[Any]:
            given = _arrays_among(values)
            return step.part(executable, lambda: executable.apply(values), given, _arrays_among)

        return derivative.call(tape, inputs, Executable.apply if self._decides else run)

    def _planned_for(self, inputs: Sequence[Any]) -> PlacementTrial | None:
        """Plan for the sizes of a call; give the trial of that plan."""
        entry, owner = self._entry, self._plan.owner
        places = size_places([v.type for v in entry.graph.inputs])
        sizes = {name: inputs[i].shape[axis] for name, (i, axis) in places.items()}
        made = owner.plan(entry.graph, sizes)
        if entry.trial is self:  # else it was placed otherwise meanwhile
            owner.begin(entry, made.rules(owner.request.source))
        return entry.trial

    def watching(self, executable: Executable, before: int) -> AbstractContextManager[Any]:
        """What a step is run within, after so many others of its placement."""
        watched = 0 < before <= _WATCHED
        return StepWatcher(executable, self._plan.seen) if watched else nullcontext()

    def took(self, times: _Times, which: int, before: int, seconds: float) -> None:
        """Count a step that has ended; the last one decides."""
        with self._lock:
            times.add(which, seconds if before > _WATCHED else None)
            if self._decides or not times.enough:
                return
            self._decides = True
        try:
            if self._entry.trial is self:  # else the user has placed it otherwise meanwhile
                self._decide(times)
        except BaseException:  # Ctrl-C: a later step decides
            self._decides = False
            raise

    def _decide(self, times: _Times) -> None:
        """Keep the faster placement; plan once more by what was seen.

        What fails there, as since the limit of a device was lowered meanwhile, fails for a step
        that has ended well: the function then runs where the program says.
        """
        owner, entry = self._plan.owner, self._entry
        try:
            owner.begin(entry, self._next_plan(times).rules(owner.request.source))
        except EagerflowError as error:
            entry.replace(None, None)
            text = f"{owner.name}: automatic placement was given up: {error.wrong}"
            warn(text, PlacementWarning)

    def _next_plan(self, times: _Times) -> PlacementPlan:
        """What is tried next, or the placement that is kept, with the verdict."""
        made, owner = self._plan, self._plan.owner
        winner, result = self._compared(times)
        tried = {one.assignment for one in made.alternatives if one.measured is not None}
        again: PlacementPlan = owner.plan(self._entry.graph, made.sizes, made.seen)
        again.round = made.round + 1
        again.recall(made)
        again.calibrate()
        new = again.chosen.assignment not in tried
        least = min(map(median, times.seconds))
        if new and again.round < _ROUNDS and again.chosen.predicted < GAIN * least:
            return again
        again.choose(winner.assignment)
        kind = " with their gradients" if times is self._with_gradients else ""
        again.verdict = f"tried in {sum(map(len, times.seconds))} steps{kind}: {result}"
        return again

    def _compared(self, times: _Times) -> tuple[Alternative, str]:
        """Note what was measured; give the placement that is kept, and in words why."""
        made = self._plan
        planned = made.chosen.measured = median(times.seconds[0])
        of = " of the results alone" if times is self._with_gradients else ""
        took = _took_text(made.chosen, of)
        if self._placements == 1:
            timed = [one for one in made.alternatives if one.measured is not None]
            fastest = min(timed, key=lambda one: one.measured or 0.0)
            return fastest, f"{made.chosen.name}: {took}"
        own = made.own.measured = median(times.seconds[1])
        kept = planned <= GAIN * own
        result = "is kept" if kept else "is not faster and was given up"
        text = f"{made.chosen.name} {result}: {took}, {OWN} {_took_text(made.own, of)}"
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
class _TrialStep:
    """One step of a trial: one graph, or a forward graph and later a backward graph.

    Args:
        trial: the trial.
        times: where it counts.
        parts: how many graphs it has.

    Attributes:
        which: the number of the placement that it runs as.
    """

    def __init__(self, trial: PlacementTrial, times: _Times, parts: int) -> None:
        self.which, self._before = times.next()
        self._trial, self._times, self._parts = trial, times, parts
        self._seconds: list[float] = []

    def part(
        self, executable: Executable, run: Callable[[], _Results], given: Iterable[_Placed],
        made: Callable[[_Results], Iterable[_Placed]],
    ) -> _Results:  # fmt: skip
        """Run one of the graphs.

        Args:
            executable: of the graph.
            run: runs it.
            given: the arrays that it takes, for which is waited before.
            made: those among the results, which count as there only when they are.
        """
        _wait_for(given)
        with self._trial.watching(executable, self._before):
            start = perf_counter()
            results = run()
            _wait_for(made(results))
            self._seconds.append(perf_counter() - start)
        if len(self._seconds) == self._parts:  # a second backward pass is not timed
            self._trial.took(self._times, self.which, self._before, sum(self._seconds))
        return results


def _took_text(one: Alternative, of: str) -> str:
    """What was measured of a placement, and what the plan had predicted for it before.

    Args:
        one: the placement.
        of: of what it was predicted, if not of all that was measured, in words.
    """
    measured = seconds_text(one.measured or 0.0, precise=True)
    return f"{measured} (predicted {seconds_text(one.predicted, precise=True)}{of})"


# --- waiting ----------------------------------------------------------------------------------


def _wait_for(arrays: Iterable[_Placed]) -> None:
    """Wait until arrays are there, each with its device.

    A device that works later has done nothing yet when its step has been issued. What has failed
    is there, too: whoever reads it gets the error.
    """
    for device, data in arrays:
        wait_for_data(data, device)


def _arrays_of(graph: Graph, values: Sequence[Value], arrays: Sequence[Any]) -> list[_Placed]:
    """What values of a graph are, and its variables."""
    pairs = zip(values, arrays, strict=True)
    placed = [(as_device(value.device), data) for value, data in pairs if value.device]
    states = [s for s in graph.resources.values() if type(s) is VariableState]
    return placed + [(s.device, s.read()) for s in states if not s.device.is_ready_at_once]


def _arrays_among(values: Sequence[Any]) -> list[_Placed]:
    """The arrays of the tensors among values."""
    return [(x._lane.device, x._data) for x in values if type(x) is Tensor]
