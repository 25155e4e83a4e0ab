"""Trials of planned placements: steps run by two placements alternately, the faster is kept.

The plan by the cost model (`placement/automatic/`) is tried: steps run alternately as planned and
where the program says. The medians decide. Times of nodes and moves seen meanwhile are kept with
the trace, and the placement is planned once more with them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from eagerflow.autodiff.tape import Tape
from eagerflow.core.tensor import Tensor
from eagerflow.errors import EagerflowError, PlacementWarning
from eagerflow.formatting import seconds_text
from eagerflow.function.derivative import Derivative
from eagerflow.function.placing.trial_steps import TrialStep, TrialTimes, arrays_among, arrays_of
from eagerflow.graph.edit import size_places
from eagerflow.graph.ir import Graph
from eagerflow.graph.passes import optimise
from eagerflow.placement.apply_rules import Placement, place
from eagerflow.placement.automatic.planning import GAIN, OWN, Alternative
from eagerflow.placement.rules import Rules
from eagerflow.profiling.node_statistics import median
from eagerflow.runtime.background_compilation import Mode
from eagerflow.runtime.executable import Executable
from eagerflow.source import warn

if TYPE_CHECKING:
    from eagerflow.function.placing.automatic import PlannedTrace

#: maximum number of plans
_ROUNDS: Final = 2


class PlacedTrace(Protocol):
    """The interface of a placed trace that a trial uses."""

    graph: Graph
    executable: Executable
    compile: Mode
    rules: Rules | None

    def replace(self, rules: Rules | None, placement: Placement | None) -> None:
        """Run the placed graph from the next step on."""

    @property
    def trial(self) -> PlacementTrial | None:
        """The trial that runs its steps now."""

    def differentiated(self, tape: Tape, inputs: Sequence[Any]) -> Sequence[Tensor] | None:
        """Run it as one step of a tape; None where the tape has to record each op."""


@final
class PlacementTrial:
    """Runs the steps of a trace alternately as planned and where the program says.

    If the plan is the program's own placement, or that exceeds the memory, all steps run as
    planned. They are watched and timed all the same, since their times may lead to a better plan.

    Args:
        entry: the trace.
        planned: its plan.
    """

    def __init__(self, entry: PlacedTrace, planned: PlannedTrace) -> None:
        self._entry = entry
        self._planned = planned
        self._executable = entry.executable
        self._programs: Executable | None = None  # runs the graph where the program says
        self._lock = threading.Lock()
        plan = planned.plan
        alternates = plan.chosen is not plan.own and not plan.own.too_much
        self._placements = 2 if alternates else 1
        self._derivatives: list[Derivative | None] = []
        self._results_alone, self._with_gradients = (TrialTimes(self._placements) for _ in range(2))
        self._decides = False  # whether a thread is deciding or has decided

    @property
    def executables(self) -> list[Executable]:
        """The executables besides that of the trace."""
        own = [] if self._programs is None else [self._programs]
        return own + [one for d in self._derivatives if d is not None for one in d.executables]

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run a step by one of the placements."""
        if self._planned.waits_for_sizes:
            trial = self._planned_for(inputs)
            return self._entry.executable(*inputs) if trial is None else trial(*inputs)
        if self._decides:
            return self._executable(*inputs)
        graph = self._entry.graph
        with self._lock:
            if self._programs is None and self._placements > 1:
                self._programs = Executable(optimise(graph)[0], self._entry.compile)
            step = TrialStep(self._results_alone, 1, self._planned.seen, self._ended)
        executable = (self._executable, self._programs)[step.which] or self._executable
        return step.part(
            executable, lambda: executable(*inputs), arrays_of(graph, graph.inputs, inputs),
            lambda results: arrays_of(graph, graph.outputs, results),
        )  # fmt: skip

    def differentiated(self, tape: Tape, inputs: Sequence[Any]) -> Sequence[Tensor] | None:
        """Run a step of which a tape takes the derivative, by one of the placements.

        The step ends with its backward graph, so a step without a backward pass is not counted.

        Args:
            tape: the tape.
            inputs: tensors and numbers.

        Returns:
            The outputs; None where the tape has to record each op.
        """
        entry = self._entry
        if self._planned.waits_for_sizes:
            trial = self._planned_for(inputs)
            return (entry if trial is None else trial).differentiated(tape, inputs)
        with self._lock:
            if not self._derivatives:
                rules = (entry.rules, None)[: self._placements]
                self._derivatives = [Derivative.of(entry.graph, r, entry.compile) for r in rules]
            step = TrialStep(self._with_gradients, 2, self._planned.seen, self._ended)
        derivative = self._derivatives[0 if self._decides else step.which]
        if derivative is None:
            return None

        def run(executable: Executable, values: Sequence[Any]) -> list[Any]:
            given = arrays_among(values)
            return step.part(executable, lambda: executable.apply(values), given, arrays_among)

        return derivative.call(tape, inputs, Executable.apply if self._decides else run)

    def _planned_for(self, inputs: Sequence[Any]) -> PlacementTrial | None:
        """Plan for the sizes of a call, and return the trial of that plan."""
        entry = self._entry
        places = size_places([v.type for v in entry.graph.inputs])
        sizes = {name: inputs[i].shape[axis] for name, (i, axis) in places.items()}
        planned = self._planned.owner.plan(entry.graph, sizes)
        if entry.trial is self:  # else the trace was placed otherwise meanwhile
            begin(entry, planned.rules())
        return entry.trial

    def _ended(self, times: TrialTimes, which: int, seconds: float | None) -> None:
        """Count a step that has ended; the last step decides."""
        with self._lock:
            times.add(which, seconds)
            if self._decides or not times.enough:
                return
            self._decides = True
        try:
            if self._entry.trial is self:  # else the user has placed it otherwise meanwhile
                self._decide(times)
        except BaseException:  # Ctrl-C: a later step decides
            self._decides = False
            raise

    def _decide(self, times: TrialTimes) -> None:
        """Keep the faster placement, and plan once more by the times seen.

        An error here, as when the limit of a device was lowered meanwhile, is not raised, since the
        step itself has succeeded: the function then runs where the program says.
        """
        try:
            begin(self._entry, self._next(times).rules())
        except EagerflowError as error:
            self._entry.replace(None, None)
            name = self._planned.owner.name
            warn(f"{name}: automatic placement was given up: {error.wrong}", PlacementWarning)

    def _next(self, times: TrialTimes) -> PlannedTrace:
        """The plan to be tried next, or the plan with the kept placement and its verdict."""
        winner, result = self._compared(times)
        alternatives = self._planned.plan.alternatives
        tried = {one.assignment for one in alternatives if one.measured is not None}
        again = self._planned.again(self._entry.graph)
        plan = again.plan
        new = plan.chosen.assignment not in tried
        least = min(map(median, times.seconds))
        if new and again.round < _ROUNDS and plan.chosen.predicted < GAIN * least:
            return again
        plan.choose(winner.assignment)
        kind = " with their gradients" if times is self._with_gradients else ""
        plan.verdict = f"tried in {sum(map(len, times.seconds))} steps{kind}: {result}"
        return again

    def _compared(self, times: TrialTimes) -> tuple[Alternative, str]:
        """Note the measured times; return the kept placement, and a text of the comparison."""
        made = self._planned.plan
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


def begin(entry: PlacedTrace, rules: Rules, placement: Placement | None = None) -> None:
    """Place a trace by a plan, which its next steps try."""
    entry.replace(rules, place(entry.graph, rules) if placement is None else placement)


def _took_text(one: Alternative, of: str) -> str:
    """Text of the measured and the predicted time of a placement.

    Args:
        one: the placement.
        of: text on the part that was predicted, if less than was measured.
    """
    measured = seconds_text(one.measured or 0.0, precise=True)
    return f"{measured} (predicted {seconds_text(one.predicted, precise=True)}{of})"
