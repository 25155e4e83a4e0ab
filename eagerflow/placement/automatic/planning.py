"""The plan of a graph's automatic placement: alternatives, and the choice among them.

The alternatives are the program's own placement, all on one device, stages along the graph, a list
schedule, and the results of local search from the best of these. The simulator judges each as the
executor would run it. The program's own placement stays unless another one is clearly faster, or
the own placement exceeds a memory limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final, final

from eagerflow.errors import PlacementError
from eagerflow.formatting import seconds_text
from eagerflow.graph.edit import devices_in, inner_nodes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes import optimise
from eagerflow.hardware import Device, devices, memory
from eagerflow.placement.automatic.cost_model import CostModel, where
from eagerflow.placement.automatic.executor_steps import ExecutorTraits, Prediction, predict
from eagerflow.placement.automatic.requests import Request
from eagerflow.placement.automatic.search import (
    Assignment,
    Estimate,
    Problem,
    contiguous,
    improve,
    schedule,
)
from eagerflow.placement.memory_need import Peak, peaks, states_of
from eagerflow.placement.placed_graph import is_movable, placed
from eagerflow.placement.rules import Rules, forward_of, here, line_of
from eagerflow.source import Source

#: the fraction of the own placement's time that another one must stay below
GAIN: Final = 0.97
_JUDGED: Final = 5  # placements that are simulated, besides the own
_LARGE: Final = 2_000  # nodes from which on fewer are simulated
_SHOWN: Final = 4  # values in a message
OWN: Final = "where the program says"


@final
@dataclass(slots=True)
class Alternative:
    """A placement that was weighed.

    Attributes:
        name: the name of the method that found it.
        assignment: the device of each unit.
        predicted: seconds of a step.
        peaks: the peak memory of each device that has a limit.
        too_much: the devices over their limits, as text; empty if it fits.
        measured: median seconds of timed steps; None if none was timed.
    """

    name: str
    assignment: Assignment
    predicted: float
    peaks: Mapping[Device, Peak] = field(default_factory=dict)
    too_much: str = ""
    measured: float | None = None


@final
@dataclass(slots=True)
class PlacementPlan:
    """The automatic placement of a graph.

    Attributes:
        alternatives: the placements weighed, the best first.
        own: the program's own placement.
        chosen: the alternative in force.
        devices: the devices on which nodes may be put.
        choice: the device of each node that can be placed.
        choices: returns the same for another assignment.
        verdict: the result of the trial, as text; empty until it is known.
    """

    alternatives: list[Alternative]
    own: Alternative
    chosen: Alternative
    devices: list[Device]
    choice: dict[Node, Device]
    choices: Callable[[Assignment], dict[Node, Device]]
    verdict: str = ""

    def choose(self, assignment: Assignment) -> None:
        """Take the alternative with this assignment."""
        self.chosen = next(one for one in self.alternatives if one.assignment == assignment)
        self.choice = {} if self.chosen is self.own else self.choices(assignment)

    def calibrate(self) -> None:
        """Scale predictions to measured times, as watched nodes take longer than others.

        All alternatives get the same factor, so their order stays.
        """
        known = [one for one in self.alternatives if one.measured and one.predicted]
        if known:
            product = prod([(one.measured or 0.0) / one.predicted for one in known])
            factor = product ** (1 / len(known))
            for one in self.alternatives:
                one.predicted *= factor

    def recall(self, before: PlacementPlan) -> None:
        """Take over the measured times of alternatives of an earlier plan for the same graph."""
        known = {one.assignment: one for one in self.alternatives}
        for old in before.alternatives:
            one = known.get(old.assignment)
            if one is None and old.measured is not None:
                self.alternatives.append(old)
            elif one is not None:
                one.measured = old.measured

    def rules(self, source: Source | None) -> Rules:
        """The rules that place the graph and its derivatives by the chosen alternative."""
        choice = self.choice

        def auto(node: Node) -> Device | None:
            return choice.get(node)

        return Rules({}, auto, False, source, self)

    def lines(self) -> Iterator[str]:
        """The lines of a text about the alternatives."""
        yield f"automatic placement on {', '.join(map(str, self.devices))}: {self.chosen.name}"
        for one in self.alternatives:
            times = f"predicted {seconds_text(one.predicted, precise=True)}"
            if one.measured is not None:
                times += f", measured {seconds_text(one.measured, precise=True)}"
            mark = "*" if one is self.chosen else " "
            more = f"; {one.too_much}" if one.too_much else ""
            yield f"  {mark} {one.name}: {times}{more}"
        if self.verdict:
            yield f"  {self.verdict}"


def plan(
    graph: Graph, request: Request, model: CostModel, executor: ExecutorTraits, name: str = ""
) -> PlacementPlan:
    """Decide where the nodes of a graph run.

    Args:
        graph: the graph, as traced. It stays as it is.
        request: the user's request.
        model: the costs of nodes and moves.
        executor: the properties of the executor.
        name: the name of the function, for messages.

    Raises:
        PlacementError: no placement fits, or no device that was named can run any of its nodes.
    """
    return _Planner(graph, request, model, executor, name).run()


@final
class _Planner:
    """Plans one graph."""

    def __init__(
        self, graph: Graph, request: Request, model: CostModel, executor: ExecutorTraits, name: str
    ) -> None:  # fmt: skip
        self.graph, self.request = graph, request
        self.model, self.executor, self.name = model, executor, name
        self.devices = _devices(graph, request)
        used = {d for d in devices_in(graph.nodes) if isinstance(d, Device) and d.task is None}
        self.limits = _limits({*self.devices, *used}, request)
        self.problem = Problem(
            graph, self.devices, model, self.limits, self.held(), mixed=request.devices is not None
        )

    def held(self) -> dict[Device, int]:
        """The bytes of variables and inputs, which are live throughout."""
        held: Counter[Device] = Counter()
        for value in self.graph.inputs:
            if isinstance(value.device, Device):
                held[value.device] += self.model.nbytes(value)
        for state in states_of(self.graph):
            held[state.device] += prod(state.shape) * state.dtype.itemsize
        return dict(held)

    def run(self) -> PlacementPlan:
        if self.request.devices is not None:
            self.check_devices()
        own = self.judged(OWN, self.problem.own)
        weighed = [own]
        for name, assignment in self.candidates():
            if all(assignment != one.assignment for one in weighed):
                weighed.append(self.judged(name, assignment))
        weighed.sort(key=lambda one: (bool(one.too_much), one.predicted))
        best = weighed[0]
        if best.too_much:
            raise self.no_room(min(weighed, key=self.excess))
        if not own.too_much and best.predicted > GAIN * own.predicted:
            best = own
        choice = {} if best is own else self.choice(best.assignment)
        return PlacementPlan(weighed, own, best, self.devices, choice, self.choice)

    def candidates(self) -> Iterator[tuple[str, Assignment]]:
        """The placements worth simulating, by the estimates of the search."""
        problem = self.problem
        alone = min(range(len(self.devices)), key=lambda i: problem.estimate(self.on(i)))
        starts = [
            (f"all on {self.devices[alone]}", self.on(alone)),
            ("stages with equal work", contiguous(problem, by_bytes=False)),
            ("stages with equal bytes", contiguous(problem, by_bytes=True)),
            ("list schedule", schedule(problem)),
        ]
        rated: list[tuple[Estimate, str, Assignment]] = [
            (problem.estimate(assignment), name, assignment) for name, assignment in starts
        ]
        rated.append((problem.estimate(problem.own), OWN, problem.own))
        rated.sort(key=lambda row: row[0])
        for _, name, start in rated[:2]:
            better, estimate = improve(problem, start)
            if better != start:
                rated.append((estimate, f"local search from {name}", better))
        rated.sort(key=lambda row: row[0])
        most = _JUDGED if len(self.graph.nodes) < _LARGE else 2
        yield from [(name, assignment) for _, name, assignment in rated[:most]]

    def on(self, device: int) -> Assignment:
        """The assignment of all units to one device, except those that cannot run there."""
        return tuple([device if device in u.devices else u.home for u in self.problem.units])

    def choice(self, assignment: Assignment) -> dict[Node, Device]:
        """The device of each node that can be placed, in subgraphs too."""
        chosen: dict[Node, Device] = {}
        for unit, number in zip(self.problem.units, assignment, strict=True):
            device = self.problem.device(number)
            if unit.is_movable and device is not None:
                inside = inner_nodes(unit.nodes)
                chosen.update({n: device for n in (*unit.nodes, *inside) if is_movable(n)})
        return chosen

    def judged(self, name: str, assignment: Assignment) -> Alternative:
        """An alternative, with its simulated time and its peaks."""
        result = self.graph
        if assignment != self.problem.own:
            choice = self.choice(assignment)

            def choose(node: Node) -> tuple[Device, str] | None:
                device = choice.get(forward_of(node), choice.get(node))
                return None if device is None else (device, "automatic placement")

            result = placed(self.graph, choose)
        known = self.model.work.known
        held = peaks(result, frozenset(self.limits), known) if self.limits else {}
        over = [d for d, peak in held.items() if peak.bytes > self.limits[d]]
        too_much = ", ".join(
            f"{d} would hold {held[d].bytes:,} bytes, of {self.limits[d]:,}" for d in over
        )
        prediction = self.predicted(result)
        return Alternative(name, assignment, prediction.seconds, held, too_much)

    def predicted(self, graph: Graph) -> Prediction:
        return predict(optimise(graph)[0], self.model, self.executor)

    # --- errors ---

    def check_devices(self) -> None:
        """Refuse devices none of which can run any node that could be placed.

        Raises:
            PlacementError: no device can run any such node; the message gives the first obstacle.
        """
        constraints = self.problem.constraints
        inside = inner_nodes(self.graph.nodes)
        movable = [n for n in (*self.graph.nodes, *inside) if is_movable(n)]
        obstacles = (constraints.obstacle(n, device) for n in movable for device in self.devices)
        first = next(obstacles, None)
        if first is None or None in obstacles:
            return
        names, node = ", ".join(map(str, self.devices)), movable[0]
        raise PlacementError(
            f"place: nothing of {self.name or 'the graph'} can be placed on {names}: {first.wrong}",
            given=f"devices={list(map(str, self.devices))}, for {line_of(node)} on {node.device}",
            expected=f"some of {here(constraints.could(node))}",
            hint=first.hint,
            source=self.request.source,
        )

    def no_room(self, best: Alternative) -> PlacementError:
        """The error if no placement fits: the need of the nearest one, and its largest values."""
        over = {d: p for d, p in best.peaks.items() if p.bytes > self.limits[d]}
        device, peak = max(over.items(), key=lambda item: item[1].bytes - self.limits[item[0]])
        lines = [f"{best.name}: {best.too_much}", *self.largest()]
        return PlacementError(
            f"place: no placement of {self.name or 'the graph'} fits: {device} may hold "
            f"{self.limits[device]:,} bytes, and needs {peak.bytes:,}",
            given="\n    ".join(lines),
            expected=f"room on {', '.join(map(str, self.devices))}",
            hint="compute with less at a time, keep less for the gradient (ef.remat), use more "
            "devices, or allow more memory",
            source=None if peak.node is None else peak.node.source,
        )

    def excess(self, one: Alternative) -> int:
        """The most bytes by which a device exceeds its limit."""
        return max([peak.bytes - self.limits[d] for d, peak in one.peaks.items()], default=0)

    def largest(self) -> list[str]:
        """The largest values, with their lines."""
        sizes = {v: self.model.nbytes(v) for v in self._values()}
        rows = sorted(sizes, key=lambda v: -sizes[v])[:_SHOWN]
        texts = []
        for value in rows:
            line = f"input %{value.name}" if value.node is None else line_of(value.node)
            texts.append(f"{sizes[value]:,} bytes: {value.spec} {line}")
        return texts

    def _values(self) -> Iterator[Value]:
        yield from self.graph.inputs
        for node in self.graph.nodes:
            yield from node.outputs


def _devices(graph: Graph, request: Request) -> list[Device]:
    """The devices on which nodes may be put.

    Raises:
        PlacementError: nodes are on devices of tasks, which this process does not plan for.
    """
    if request.devices is not None:
        return list(request.devices)
    kinds = Counter(d.kind for node in graph.nodes if (d := where(node)) and d.task is None)
    tasks = sorted({str(d) for node in graph.nodes if (d := where(node)) and d.task is not None})
    if tasks:
        raise PlacementError(
            "place: automatic placement is for the devices of this process",
            given=f"a graph with nodes on {', '.join(tasks[:_SHOWN])}",
            hint="place them by rules, or name devices: place('auto', devices=[...])",
            source=request.source,
        )
    kind = kinds.most_common(1)[0][0] if kinds else "cpu"
    used = {d for node in graph.nodes if (d := where(node)) and d.kind == kind}
    return list(dict.fromkeys([*devices(kind), *sorted(used, key=str)]))


def _limits(used: Iterable[Device], request: Request) -> dict[Device, int]:
    """Bytes that devices may hold: the lesser of the budget and the device's own limit."""
    limits: dict[Device, int] = {}
    for device in used:
        budget = request.memory
        if isinstance(budget, Mapping):
            budget = budget.get(device)
        known = [n for n in (budget, memory(device).limit) if n is not None]
        if known:
            limits[device] = min(known)
    return limits
