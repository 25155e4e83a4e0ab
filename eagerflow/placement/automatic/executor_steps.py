"""Translation of a graph into the executor's step for the simulator: regions, sends, threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, final

from eagerflow.graph.edit import devices_in, inner_nodes
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_on_one_device, lower
from eagerflow.graph.lowering.frame_paths import FramePath, FramePaths, find_size_values
from eagerflow.graph.signatures import is_structured, late_reads, lead_of
from eagerflow.hardware import Device, as_device
from eagerflow.placement.automatic.cost_model import CostModel, works_later
from eagerflow.placement.automatic.simulated_step import (
    GIVEN,
    Simulated,
    SimulatedAct,
    SimulatedDevice,
    SimulatedMove,
    SimulatedOp,
    SimulatedRegion,
    SimulatedStep,
)
from eagerflow.placement.automatic.simulator import simulate
from eagerflow.placement.automatic.strand_acts import StrandAct
from eagerflow.placement.cut import Cut, cut


class FindRegions(Protocol):
    """Function that finds which nodes of a lowered graph run together."""

    def __call__(
        self, graph: Graph, paths: FramePaths, seconds: Callable[[Node], float],
        before: Callable[[Node], Iterable[Node]], workers: int = 0,
    ) -> list[list[list[Node]]]:  # fmt: skip
        """The regions; regions that could run at once are in one list."""


class FindActs(Protocol):
    """Function that finds the acts of partitions that run as strands."""

    def __call__(
        self, parts: Cut, graph: Graph, *, heavy: bool, branches: bool
    ) -> list[list[StrandAct]] | None:
        """The acts of each partition; None if the scheduler runs them.

        Args:
            parts: the partitions.
            graph: the graph that they were cut from, not lowered.
            heavy: whether some regions are worth a thread of their own.
            branches: whether some regions could run at once on one device.
        """


class ExecutorTraits(NamedTuple):
    """Properties of the executor on which times depend.

    Attributes:
        regions: finds which nodes run together under the scheduler.
        acts: finds the acts of partitions that are strands.
        weight: estimates the seconds of a node as the executor does when it forms regions.
        heavy: seconds from which on a region may have a thread of its own.
        threads: number of threads that may run regions at once.
    """

    regions: FindRegions
    acts: FindActs
    weight: Callable[[Node], float]
    heavy: float
    threads: int


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted time of a step.

    Attributes:
        seconds: the seconds of the step.
        simulated: the result of the simulation.
    """

    seconds: float
    simulated: Simulated


def predict(graph: Graph, model: CostModel, executor: ExecutorTraits) -> Prediction:
    """Predict the time of a step of a placed graph.

    Args:
        graph: the graph, not lowered.
        model: the costs of nodes and moves.
        executor: the properties of the executor that runs it.

    Raises:
        DeviceError: a node has operands on several devices, and no transfer between.
    """
    low = lower(graph, is_on_one_device)
    devices = {device for device in devices_in(low.nodes) if isinstance(device, Device)}
    replayed = _Replay(graph, model, executor)
    if len(devices) > 1:
        return _predicted(replayed.of_cut(cut(low), graph))
    device = next(iter(devices), None) or as_device(None)
    steps = [replayed.of_one(low, device, straight=True)]
    if executor.threads > 1 and not works_later(device):
        steps.append(replayed.of_one(low, device, straight=False))
    return min(map(_predicted, steps), key=lambda prediction: prediction.seconds)


def _with_single(graph: Graph, regions: list[list[Node]]) -> list[list[Node]]:
    """Regions, and each node in none of them as its own region, except Send and Recv."""
    together = {n for nodes in regions for n in nodes}
    alone = [n for n in graph.nodes if n not in together and n.op != "constant"]
    return regions + [[n] for n in alone if lead_of(n.op) not in ("send", "receive")]


def _read_late(node: Node) -> list[Node]:
    """The nodes whose values the host waits for, and reads, before it runs a node."""
    makers = [node.inputs[i].node for i in late_reads(node)]
    return [maker for maker in makers if maker is not None]


def _predicted(step: SimulatedStep) -> Prediction:
    simulated = simulate(step)
    return Prediction(simulated.seconds, simulated)


@final
@dataclass(slots=True)
class _Made:
    """A simulated step under construction.

    Attributes:
        devices: the numbers of devices.
        ops: the ops, in the order of their nodes.
        numbers: the numbers of ops, by node.
        regions: the regions, with their nodes.
        region_of: the number of the region of each node.
        waits: for each region the nodes that must run before it.
        moves: the moves between devices.
        arrivals: for each Recv the number of its move.
        times: for each Send the number of its runs.
        sent: for each Send the number of its move.
        branches: whether regions of one device could run at once.
        acts: the acts of each partition, if partitions are strands.
    """

    devices: dict[Device, int] = field(default_factory=dict)
    ops: list[SimulatedOp] = field(default_factory=list)
    numbers: dict[Node, int] = field(default_factory=dict)
    regions: list[tuple[SimulatedRegion, list[Node]]] = field(default_factory=list)
    region_of: dict[Node, int] = field(default_factory=dict)
    waits: list[list[Node]] = field(default_factory=list)
    moves: list[SimulatedMove] = field(default_factory=list)
    arrivals: dict[Node, int] = field(default_factory=dict)
    times: dict[Node, int] = field(default_factory=dict)
    sent: dict[Node, int] = field(default_factory=dict)
    branches: bool = False
    acts: list[list[StrandAct]] | None = None


@final
class _Replay:
    """Builds simulated steps of one graph."""

    def __init__(self, graph: Graph, model: CostModel, executor: ExecutorTraits) -> None:
        self.model = model
        self.executor = executor
        every = [*graph.nodes, *inner_nodes(graph.nodes)]
        #: number of iterations, by the name of the loop
        self.iterations = {n.name: model.work.iterations(n) for n in every if is_structured(n.op)}
        self.loops: dict[str, str] = {}  # the names of loops, by their frames

    def of_one(self, graph: Graph, device: Device, *, straight: bool) -> SimulatedStep:
        """The step of a lowered graph on one device: as one function, or by regions."""
        made = _Made({device: 0})
        self.partition(made, graph, device, straight=straight, workers=self.executor.threads)
        return self.step(made, [v.node for v in graph.outputs])

    def of_cut(self, parts: Cut, graph: Graph) -> SimulatedStep:
        """The step of the partitions of a graph, as strands or as the scheduler runs them."""
        made = self.regions_of(parts)
        heavy = any(region.heavy for region, _ in made.regions)
        acts = self.executor.acts(parts, graph, heavy=heavy, branches=made.branches)
        if acts is not None:
            made = self.regions_of(parts, acts)
        receives = dict(parts.pairs.values())
        places = {n: i for p in parts.partitions for i, n in enumerate(p.graph.nodes)}
        for partition in parts.partitions:  # in the order of the executor
            for node in partition.graph.nodes:
                if node in receives:
                    received = receives[node]
                    self.move(made, node, received, (places[node], places[received]))
        return self.step(made, [v.node for _, v in parts.outputs])

    def regions_of(self, parts: Cut, acts: list[list[StrandAct]] | None = None) -> _Made:
        """The regions of partitions, taken from ``acts`` if given."""
        made = _Made({p.device: i for i, p in enumerate(parts.partitions)}, acts=acts)
        for i, partition in enumerate(parts.partitions):
            run = None if acts is None else [act.nodes for act in acts[i] if act.what == "run"]
            self.partition(made, partition.graph, partition.device, straight=False, run=run)
        return made

    def partition(
        self, made: _Made, graph: Graph, device: Device, *, straight: bool, workers: int = 0,
        run: Sequence[Sequence[Node]] | None = None,
    ) -> None:  # fmt: skip
        """Add regions: one of all nodes if ``straight``, else ``run``, else the executor's."""
        paths = FramePaths(graph)
        sizes = find_size_values(graph, paths)
        for node in graph.nodes:
            if lead_of(node.op) == "enter" and "loop" in node.attrs:
                self.loops[node.attrs["frame"]] = node.attrs["loop"][1]
        made.times |= {n: self.times(paths.nodes[n]) for n in graph.nodes if n.op == "Send"}

        def before(node: Node) -> Iterator[Node]:
            for value in (*node.inputs, *sizes.get(node, ())):
                if value.node is not None:
                    yield value.node
            yield from node.control_inputs

        if straight:
            run = [[n for n in graph.nodes if n.op != "constant"]]
        elif run is None:
            regions = self.executor.regions(graph, paths, self.executor.weight, before, workers)
            made.branches = made.branches or any(len(nodes) > 1 for nodes in regions)
            run = _with_single(graph, [nodes for parts in regions for nodes in parts])
        for nodes in run:
            self.region(made, nodes, paths, device, before, straight)

    def region(
        self, made: _Made, nodes: Sequence[Node], paths: FramePaths, device: Device,
        before: Callable[[Node], Iterable[Node]], straight: bool,
    ) -> None:  # fmt: skip
        number = len(made.regions)
        for node in nodes:
            times = self.times(paths.nodes[node])
            op = SimulatedOp(
                times * self.model.seconds(node, device),
                0.0 if is_structured(node.op) else times * self.model.call(node, device),
                crowding=self.model.crowding(node, device),
            )
            made.numbers[node] = len(made.ops)
            made.ops.append(op)
            made.region_of[node] = number
        traits = self.executor
        heavy = not straight and sum(map(traits.weight, nodes)) >= traits.heavy
        numbers = tuple([made.numbers[node] for node in nodes])
        region = SimulatedRegion(made.devices[device], numbers, heavy=heavy)
        made.regions.append((region, list(nodes)))
        own = set(nodes)
        made.waits.append(list(dict.fromkeys(b for n in nodes for b in before(n) if b not in own)))

    def times(self, path: FramePath) -> int:
        """Number of runs of a node on a frame path."""
        count = 1
        for what, which in path:
            if what == "frame":
                count *= self.iterations.get(self.loops.get(str(which), ""), 1)
        return count

    def move(self, made: _Made, sent: Node, received: Node, places: tuple[int, int]) -> None:
        """Add the move of a value, or of a signal, from one partition to another."""
        source, target = as_device(sent.device), as_device(sent.attrs["to"])
        value = sent.inputs[0] if sent.inputs else None
        maker = value.node if value is not None else next(iter(sent.control_inputs), None)
        nbytes = 0 if value is None or "shape" in sent.attrs else self.model.nbytes(value)
        times = made.times[sent]
        made.arrivals[received] = made.sent[sent] = len(made.moves)
        of = GIVEN if maker is None or value is None else made.numbers.get(maker, GIVEN)
        region = GIVEN if maker is None else made.region_of.get(maker, GIVEN)
        made.moves.append(
            SimulatedMove(
                of, region, made.devices[source], made.devices[target],
                times * self.model.move(source, target, nbytes),
                times * self.model.rates.send, waits=source.backend is not target.backend,
                places=places,
            )
        )  # fmt: skip

    def step(self, made: _Made, results: Sequence[Node | None]) -> SimulatedStep:
        """The finished step, with numbers in place of nodes."""
        rates, first_move = self.model.rates, len(made.ops)
        devices = [SimulatedDevice(str(d), works_later(d)) for d in made.devices]
        # strands hand values to each other, and their regions are not scheduled
        overhead = 0.0 if made.acts or len(made.regions) == 1 else rates.region

        def numbers(nodes: Sequence[Node | None]) -> tuple[int, ...]:
            items = []
            for node in nodes:
                if node in made.numbers:
                    items.append(made.numbers[node])
                elif node in made.arrivals:
                    items.append(first_move + made.arrivals[node])
            return tuple(dict.fromkeys(items))

        ops, regions = [], []
        for node, op in zip(made.numbers, made.ops, strict=True):
            own = [m for m in _read_late(node) if made.region_of.get(m) == made.region_of[node]]
            needs = numbers([value.node for value in node.inputs])
            ops.append(replace(op, needs=needs, reads=numbers(own)))
        for (region, nodes), waits in zip(made.regions, made.waits, strict=True):
            others = set(waits)
            late = [maker for n in nodes for maker in _read_late(n) if maker in others]
            regions.append(
                replace(
                    region, overhead=overhead,
                    after=tuple({made.region_of[n]: None for n in waits if n in made.region_of}),
                    receives=tuple([made.arrivals[n] for n in waits if n in made.arrivals]),
                    waits=numbers(late),
                )
            )  # fmt: skip

        def act(one: StrandAct) -> Iterator[SimulatedAct]:
            (node, *_) = one.nodes
            if one.what == "run":
                yield SimulatedAct("run", made.region_of[node])
            elif one.what == "wait":
                yield from [SimulatedAct("wait", number) for number in numbers([node])]
            else:
                moves = made.sent if one.what == "send" else made.arrivals
                yield SimulatedAct(one.what, moves[node])

        strands = [[a for one in acts for a in act(one)] for acts in made.acts or ()]
        threads = self.executor.threads
        return SimulatedStep(devices, ops, regions, made.moves, numbers(results), threads, strands)
