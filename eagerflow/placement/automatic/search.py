"""Search for a fast placement: list scheduling along the critical path, then local search.

After HEFT (Topcuoglu, Hariri and Wu, "Performance-Effective and Low-Complexity Task Scheduling for
Heterogeneous Computing", 2002). Nodes are taken by the length of the longest path that follows
them, each to the device on which it would end first. *Units* are placed: an op with all nodes of
its derivative, which rules never part, or a branch or a loop as a whole. The search estimates a
step by a schedule of nodes in one pass; the simulator judges the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Final, NamedTuple, final

from eagerflow.graph.edit import inner_nodes
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.signatures import is_number, is_structured, is_transfer
from eagerflow.hardware import Device
from eagerflow.placement.automatic.cost_model import CostModel, where, works_later
from eagerflow.placement.constraints import Constraints
from eagerflow.placement.node_homes import source_of
from eagerflow.placement.placed_graph import is_movable
from eagerflow.placement.rules import forward_of

#: estimates of a step that local search makes, times the nodes of the graph
_WORK: Final = 700_000
_MOST: Final = 1_000  # estimates, however small the graph is

Assignment = tuple[int, ...]


@final
@dataclass(slots=True, eq=False)
class Unit:
    """Nodes that are placed together.

    Attributes:
        nodes: nodes of the graph, not those of subgraphs.
        home: the number of the device where the program has the unit; a number of its own if the
            program has it on several (see `Problem.device`).
        devices: the numbers of the devices that can run it; the home alone if it cannot be placed.
    """

    nodes: list[Node]
    home: int
    devices: tuple[int, ...]

    @property
    def is_movable(self) -> bool:
        return len(self.devices) > 1


class Estimate(NamedTuple):
    """The estimated cost of a step: less is better, excess memory first.

    Attributes:
        excess: bytes beyond the limits of devices.
        seconds: seconds of the step.
        crossing: bytes that cross between devices.
    """

    excess: int
    seconds: float
    crossing: int


@final
@dataclass(frozen=True, slots=True)
class _Task:
    """A node as the search sees it.

    Attributes:
        unit: the number of its unit.
        seconds: seconds of its work, by device.
        call: seconds of the host.
        needs: the numbers of the tasks whose results it takes, each with their bytes.
        nbytes: bytes of its results.
        ends: the numbers of the tasks whose results have their last consumer in it.
    """

    unit: int
    seconds: tuple[float, ...]
    call: float
    needs: tuple[tuple[int, int], ...]
    nbytes: int
    ends: list[int] = field(default_factory=list)


@final
class Problem:
    """The search problem: the units of a graph, and their costs by device.

    Args:
        graph: the graph, as traced.
        devices: the devices on which nodes may be.
        model: the costs of nodes and moves.
        limits: bytes that devices may hold, by device.
        held: bytes of values that are live throughout, by device.
        mixed: whether nodes may go to devices of another kind than their own, whose results
            differ bitwise.
    """

    def __init__(
        self, graph: Graph, devices: Sequence[Device], model: CostModel,
        limits: Mapping[Device, int], held: Mapping[Device, int], *, mixed: bool = True,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.mixed = mixed
        self.model = model
        self.devices = list(devices)
        self.allowed = len(self.devices)
        self.cores = model.cores
        homes = {where(node) for node in graph.nodes}
        self.devices += [d for d in homes if d is not None and d not in self.devices]
        self.numbers = {device: i for i, device in enumerate(self.devices)}
        #: the numbers for units that the program has on several devices, by that of their results
        self._scattered: dict[int, int] = {}
        self.constraints = Constraints()
        self.units = list(self._units())
        self.on_cores = [not works_later(device) for device in self.devices]
        self.limits = [limits.get(device) for device in self.devices]
        self.held = [held.get(device, 0) for device in self.devices]
        self.links = [
            [None if a == b else model.rates.link(a.kind, b.kind) for b in self.devices]
            for a in self.devices
        ]
        self.unit_of = {node: i for i, unit in enumerate(self.units) for node in unit.nodes}
        self.tasks = self._tasks()
        #: the numbers of the tasks of each unit
        self.tasks_of: list[list[int]] = [[] for _ in self.units]
        for number, task in enumerate(self.tasks):
            self.tasks_of[task.unit].append(number)

    # --- units ---

    def _units(self) -> Iterator[Unit]:
        groups: dict[Node, list[Node]] = {}
        outer = {node: node for node in self.graph.nodes}
        for node in self.graph.nodes:
            if is_structured(node.op):
                outer |= dict.fromkeys(inner_nodes([node]), node)
        for node in self.graph.nodes:
            if is_transfer(node.op) or node.op == "constant" or is_number(node.op):
                continue
            if where(node) is None:  # it computes numbers from numbers
                continue
            inside = inner_nodes([node])
            firsts = [outer.get(forward_of(n)) for n in (node, *inside) if n.forward is not None]
            first = next((n for n in firsts if n is not None), node)
            groups.setdefault(first, []).append(node)
        for nodes in groups.values():
            movable = [node for node in nodes if self._is_movable(node)]
            fixed = [node for node in nodes if not self._is_movable(node)]
            for node in fixed:
                home = self._home(node)
                yield Unit([node], home, (home,))
            if movable:
                yield self._unit(movable)

    def _unit(self, nodes: list[Node]) -> Unit:
        """The unit of some nodes, with the devices that can run all of them."""
        home = self._home(nodes[0])
        inside = [
            n for node in nodes
            for n in (inner_nodes([node]) or [node])
            if is_movable(n)
        ]  # fmt: skip
        used = {device for n in inside if (device := where(n)) is not None}
        kinds = {device.kind for device in used}
        fit = [
            i for i, device in enumerate(self.devices[: self.allowed])
            if (self.mixed or kinds <= {device.kind})
            and not any(self.constraints.obstacle(node, device) for node in inside)
        ]  # fmt: skip
        if used - {self.devices[home]}:
            home = self._scattered_at(home)
        return Unit(nodes, home, tuple(dict.fromkeys([*fit, home])) if fit else (home,))

    def _scattered_at(self, home: int) -> int:
        if home not in self._scattered:
            self._scattered[home] = len(self.devices)
            self.devices.append(self.devices[home])
        return self._scattered[home]

    def device(self, number: int) -> Device | None:
        """The device with a number of an assignment; None for where the program has each node."""
        return None if number in self._scattered.values() else self.devices[number]

    @staticmethod
    def _is_movable(node: Node) -> bool:
        if not is_structured(node.op):
            return is_movable(node)
        inside = inner_nodes([node])
        return not any("resource" in n.attrs for n in inside)

    def _home(self, node: Node) -> int:
        """The number of the device of a node that has one."""
        device = where(node)
        assert device is not None
        return self.numbers[device]

    # --- tasks ---

    def _tasks(self) -> list[_Task]:
        tasks: list[_Task] = []
        numbers: dict[Node, int] = {}
        last: dict[int, int] = {}
        model, devices = self.model, self.devices
        for node in self.graph.nodes:
            unit = self.unit_of.get(node)
            if unit is None:
                continue
            makers = {source_of(v): None for v in node.inputs}
            needs = [
                (numbers[v.node], model.nbytes(v)) for v in makers if v.node in numbers
            ]  # fmt: skip
            needs += [(numbers[n], 0) for n in node.control_inputs if n in numbers]
            options = set(self.units[unit].devices)
            seconds = [
                model.seconds(node, d) if i in options else 0.0 for i, d in enumerate(devices)
            ]  # fmt: skip
            if self.device(self.units[unit].home) is None:
                seconds[self.units[unit].home] += model.sends(node)
            call = 0.0 if is_structured(node.op) else model.call(node, devices[min(options)])
            nbytes = sum(map(model.nbytes, node.outputs))
            number = numbers[node] = len(tasks)
            tasks.append(_Task(unit, tuple(seconds), call, tuple(needs), nbytes))
            last.update(dict.fromkeys([number, *[i for i, _ in needs]], number))
        results = [source_of(v).node for v in self.graph.outputs]
        kept = {numbers[node] for node in results if node is not None and node in numbers}
        for number, end in last.items():
            if number not in kept:
                tasks[end].ends.append(number)
        return tasks

    @property
    def own(self) -> Assignment:
        """The program's own placement."""
        return tuple([unit.home for unit in self.units])

    def move_seconds(self, source: int, target: int, nbytes: int) -> float:
        link = self.links[source][target]
        return 0.0 if link is None else link.of(nbytes)

    # --- estimates ---

    def estimate(self, assignment: Assignment) -> Estimate:
        """The cost of a step, by a schedule of the nodes in the order of the graph."""
        rates, limits = self.model.rates, self.limits
        count = len(self.devices)
        free, cores = [0.0] * count, [0.0] * self.cores
        host = 0.0
        ends: list[float] = []
        arrived: dict[tuple[int, int], float] = {}
        held, most = list(self.held), list(self.held)
        copies: dict[int, list[int]] = {}
        crossing = 0
        for task in self.tasks:
            device = assignment[task.unit]
            start = 0.0
            for maker, nbytes in task.needs:
                there = assignment[self.tasks[maker].unit]
                end = ends[maker]
                if there != device:
                    key = maker, device
                    if key not in arrived:
                        host += rates.send
                        arrived[key] = max(end, host) + self.move_seconds(there, device, nbytes)
                        crossing += nbytes
                        held[device] += nbytes
                        copies.setdefault(maker, []).append(device)
                    end = arrived[key]
                start = max(start, end)
            host += task.call
            seconds = task.seconds[device]
            if self.on_cores[device]:
                end = max(start, host, cores[0]) + seconds
                heapreplace(cores, end)
            else:
                end = max(start, host, free[device]) + seconds
                free[device] = end
            ends.append(end)
            held[device] += task.nbytes
            most[device] = max(most[device], held[device])
            for done in task.ends:
                size = self.tasks[done].nbytes
                held[assignment[self.tasks[done].unit]] -= size
                for copy in copies.pop(done, ()):
                    held[copy] -= size
        over = [m - n for m, n in zip(most, limits, strict=True) if n is not None and m > n]
        return Estimate(sum(over), max(ends, default=0.0), crossing)


# --- list scheduling ---------------------------------------------------------------------------


def schedule(problem: Problem) -> Assignment:
    """The list schedule: each unit on the device where its first node ends first, by rank."""
    tasks, units = problem.tasks, problem.units
    ranks = _ranks(problem)
    order = sorted(range(len(tasks)), key=lambda i: (-ranks[i], i))
    chosen: list[int | None] = [None if u.is_movable else u.home for u in units]
    free = [0.0] * len(problem.devices)
    cores = [0.0] * problem.cores
    heapify(cores)
    ends: dict[int, float] = {}
    for number in order:
        task = tasks[number]
        unit = units[task.unit]
        fixed = chosen[task.unit]
        best: tuple[float, int] | None = None
        for device in unit.devices if fixed is None else (fixed,):
            start = 0.0
            for maker, nbytes in task.needs:
                there = chosen[tasks[maker].unit]
                if maker not in ends or there is None:
                    continue
                end = ends[maker]
                if there != device:
                    end += problem.move_seconds(there, device, nbytes) + problem.model.rates.send
                start = max(start, end)
            ready = cores[0] if problem.on_cores[device] else free[device]
            end = max(start, ready) + task.seconds[device] + task.call
            if best is None or (end, device != unit.home) < (best[0], best[1] != unit.home):
                best = end, device
        assert best is not None
        end, device = best
        chosen[task.unit] = device
        ends[number] = end
        if problem.on_cores[device]:
            heapreplace(cores, end)
        else:
            free[device] = end
    return tuple([u.home if d is None else d for u, d in zip(units, chosen, strict=True)])


def _ranks(problem: Problem) -> list[float]:
    """The rank of each task: the length of the longest path from it to the end, by mean costs."""
    tasks = problem.tasks
    ranks = [0.0] * len(tasks)
    links = [link for row in problem.links for link in row if link is not None]
    for number in range(len(tasks) - 1, -1, -1):
        task = tasks[number]
        options = problem.units[task.unit].devices
        ranks[number] += sum([task.seconds[d] for d in options]) / len(options) + task.call
        for maker, nbytes in task.needs:
            move = sum([link.of(nbytes) for link in links]) / len(links) if links else 0.0
            ranks[maker] = max(ranks[maker], ranks[number] + move)
    return ranks


def contiguous(problem: Problem, *, by_bytes: bool) -> Assignment:
    """Stages along the order of the graph, each device one, with equal work or equal bytes."""
    weights = []
    for unit, numbers in zip(problem.units, problem.tasks_of, strict=True):
        tasks = [problem.tasks[i] for i in numbers]
        weight = sum([t.nbytes if by_bytes else max(t.seconds) for t in tasks])
        weights.append(float(weight) if unit.is_movable else 0.0)
    whole, done = sum(weights) or 1.0, 0.0
    chosen = []
    for unit, weight in zip(problem.units, weights, strict=True):
        device = min(int((done + weight / 2) / whole * problem.allowed), problem.allowed - 1)
        chosen.append(device if device in unit.devices else unit.home)
        done += weight
    return tuple(chosen)


# --- local search ------------------------------------------------------------------------------


def improve(problem: Problem, assignment: Assignment) -> tuple[Assignment, Estimate]:
    """Move units, and all units of a scope, as long as the estimate gets better.

    The work is bounded by a number of estimates, so the result does not depend on the clock.
    """
    best, least = assignment, problem.estimate(assignment)
    left = min(_MOST, _WORK // max(len(problem.tasks), 1))
    groups = list(_groups(problem))
    changed = True
    while changed and left > 0:
        changed = False
        for group in groups:
            near = _near(problem, group, best)
            for device in near:
                trial = list(best)
                for unit in group:
                    if device in problem.units[unit].devices:
                        trial[unit] = device
                if tuple(trial) == best:
                    continue
                left -= 1
                estimate = problem.estimate(tuple(trial))
                if estimate < least:
                    best, least, changed = tuple(trial), estimate, True
                if left <= 0:
                    return best, least
    return best, least


def _groups(problem: Problem) -> Iterator[list[int]]:
    """Groups of units to move together: scopes from outside in, then single units by work."""
    scopes: dict[str, list[int]] = {}
    for i, unit in enumerate(problem.units):
        if unit.is_movable:
            names = unit.nodes[0].scope.split("/")
            for length in range(len(names) + 1):
                scopes.setdefault("/".join(names[:length]), []).append(i)
    seen: set[tuple[int, ...]] = set()
    for name in sorted(scopes, key=lambda name: (name.count("/"), len(name), name)):
        group = tuple(scopes[name])
        if group not in seen:
            seen.add(group)
            yield list(group)
    single = [i for i, unit in enumerate(problem.units) if unit.is_movable]
    work = {i: sum([max(problem.tasks[t].seconds) for t in problem.tasks_of[i]]) for i in single}
    for i in sorted(single, key=lambda i: (-work[i], i)):
        if (i,) not in seen:
            yield [i]


def _near(problem: Problem, group: Sequence[int], assignment: Assignment) -> list[int]:
    """The devices to try for a group; for a single unit, those of its producers first."""
    options = list(dict.fromkeys(d for i in group for d in problem.units[i].devices))
    if len(group) > 1:
        return options
    near: dict[int, None] = {}
    for task in problem.tasks_of[group[0]]:
        for maker, _ in problem.tasks[task].needs:
            near[assignment[problem.tasks[maker].unit]] = None
    return [d for d in dict.fromkeys([*near, *options]) if d in options]
