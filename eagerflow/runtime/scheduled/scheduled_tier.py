"""The scheduled tier, which runs a graph by scheduled nodes, some of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, final

from eagerflow.errors import GraphError, SchedulerError
from eagerflow.events import StepEvent, step_of
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_on_one_device, is_steering, lower
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import reads_late
from eagerflow.placement.automatic.strand_acts import StrandAct
from eagerflow.placement.cut import Cut, cut
from eagerflow.runtime.generated.generated_tier import RegionCode, run_in_time
from eagerflow.runtime.generated.instructions import lane_of
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.node_seconds import (
    HEAVY_SECONDS,
    node_seconds,
    op_threads,
    worker_count,
)
from eagerflow.runtime.rendezvous.keys import Route
from eagerflow.runtime.rendezvous.transport import IN_PROCESS, Transport
from eagerflow.runtime.scheduled.actions import HEAVY, asynchronous, at_once
from eagerflow.runtime.scheduled.detached import DetachedStep, Result, calls_python
from eagerflow.runtime.scheduled.scheduled_nodes import PlanBuilder, ScheduledNodes
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.scheduled.step_state import SYSTEM_CLOCK
from eagerflow.runtime.scheduled.threadless_waits import has_free_waits
from eagerflow.runtime.sent_values import SentValues
from eagerflow.runtime.strands.acts import acts_of
from eagerflow.runtime.strands.common_order import OrderedCut
from eagerflow.runtime.strands.strands import Strands
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.clock import AbstractClock


def waits_nowhere(node: Node) -> bool:
    """Whether a branch or a loop can be one scheduled node: it is on one device and never waits."""
    return is_on_one_device(node) and effect_of(node) != "blocks" and not reads_late(node)


def _routes(cut: Cut) -> dict[str, Route]:
    """The route of each edge, by its name."""
    return {
        edge: Route(str(sent.device), str(received.device))
        for edge, (sent, received) in cut.pairs.items()
    }


def _waiting() -> dict[str, Callable[..., Callable[[], object] | None]]:
    """The functions that start waiting ops, without those of steering nodes."""
    return {op: begin for op, begin in asynchronous.items() if not is_steering(op)}


def _must_be_scheduled(parts: Cut, graph: Graph, *, branches: bool) -> bool:
    """Whether parts of one device could run at once, or waiting ops must not block each other."""
    waits = False
    for partition in parts.partitions:
        blocking = [n for n in partition.graph.nodes if effect_of(n) == "blocks"]
        if any(n.op not in asynchronous for n in blocking if not is_steering(n.op)):
            return True
        waits = waits or bool(blocking)
    return branches or (waits and has_free_waits(graph))


def find_acts(
    parts: Cut, graph: Graph, *, heavy: bool, branches: bool
) -> list[list[StrandAct]] | None:
    """The acts of partitions that run as strands; None if the scheduler runs them.

    Args:
        parts: the partitions.
        graph: the graph that they were cut out of.
        heavy: whether some of its regions are worth a thread of their own.
        branches: whether some heavy regions could run at once on one device.
    """
    if _must_be_scheduled(parts, graph, branches=branches):
        return None
    try:
        order = OrderedCut(parts)
        acts = acts_of(order, _waiting())
    except GraphError:
        return None
    return None if heavy and not order.has_common_loops else acts


def strands_of(
    tier: ScheduledTier, graph: Graph, seconds: Callable[[Node], float]
) -> Strands | None:  # fmt: skip
    """The partitions of a tier as strands; None if the scheduler runs them better, or must.

    Args:
        tier: the tier.
        graph: the graph that it was made of.
        seconds: estimated seconds of a node.
    """
    assert tier.cut is not None
    assert tier.routes is not None
    if _must_be_scheduled(tier.cut, graph, branches=tier.branches):
        return None

    def is_heavy(nodes: Sequence[Node]) -> bool:
        fences = any(effect_of(n) == "fence" for n in nodes)
        return not fences and sum(map(seconds, nodes)) >= HEAVY_SECONDS

    try:
        strands = Strands(tier, tier.routes, tier.sent, _waiting(), at_once, is_heavy)
    except GraphError:  # a graph from text may have loops of other forms
        return None
    return None if tier.parallel and not strands.has_loops else strands


def _all_of(graphs: Sequence[Graph]) -> Graph:
    """A graph with the nodes, inputs and outputs of several graphs, for inspection only."""
    made = Graph(graphs[0].name)
    for one in graphs:
        made.nodes += one.nodes
        made.inputs += one.inputs
        made.outputs += one.outputs
    return made


def _run_noting(
    strands: Strands, inputs: Sequence[Sequence[Any]], helpers: int
) -> tuple[Any, ...]:  # fmt: skip
    """Run a step; its error notes what the step has written."""
    written = Written()
    try:
        return strands.run(inputs, written, helpers)
    except (Exception, KeyboardInterrupt) as error:
        written.note(error)
        raise


@final
class ScheduledTier:
    """Runs a graph by scheduled nodes. Waiting nodes hold no thread.

    Args:
        graph: the graph, lowered or not; or several, which are the partitions of some devices and
            run as one. It must not change afterwards.
        number: of its executable, for events.
        whole: which branches and loops stay one node (see `eagerflow.graph.lowering.lower`).
        seconds: estimated seconds of a node.
        overlap: whether iterations of a loop may overlap, up to its ``parallel_iterations``.
        workers: number of threads that regions are cut for; 0 for as many as can be used.
        partitioned: whether the graph is cut into partitions, one for each device.
        routes: of a graph that is a partition itself: the routes of its edges.
        transport: brings values to other partitions.

    Attributes:
        name: ``"scheduled"``, or ``"partitioned"``.
        direct: None.
        graph: the lowered graph; several graphs are put together.
        cut: its partitions; None if it was not cut.
        routes: the routes of edges between partitions; None where nothing is sent.
        transport: the same.
        number: of the executable.
        plan: the scheduled nodes, as the scheduler sees them.
        frames: the slots and actions of each frame.
        inputs: for each input of the graph, or of its partitions, its slot in frame 0.
        outputs: the slots of its outputs.
        lanes: for each output its lane, or None for a number.
        parallel: whether some scheduled nodes are worth a thread of their own.
        branches: whether some of these could run at once.
        strands: runs the steps that a caller waits for; None if the scheduler does.
        sent: moves values from device to device.

    Raises:
        GraphError: a node of the graph cannot run.

    >>> from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> ScheduledTier(graph).run([ef.zeros(2).numpy()])
    (array([1., 1.], dtype=float32),)
    """

    direct = None

    def __init__(
        self, graph: Graph | Sequence[Graph], number: int = 0, *,
        whole: Callable[[Node], bool] = waits_nowhere,
        seconds: Callable[[Node], float] | None = None, overlap: bool = True, workers: int = 0,
        partitioned: bool = False, routes: Mapping[str, Route] | None = None,
        transport: Transport = IN_PROCESS,
    ) -> None:  # fmt: skip
        threads = op_threads()
        seconds = seconds or node_seconds(threads)
        given = [graph] if isinstance(graph, Graph) else graph
        lowered = [lower(one, whole) for one in given]
        self.graph = graph = lowered[0] if len(lowered) == 1 else _all_of(lowered)
        self.number = number
        self.name = "partitioned" if partitioned else "scheduled"
        self.cut = cut(graph) if partitioned else None
        self.routes = routes if self.cut is None else _routes(self.cut)
        self.transport = transport
        parts = lowered if self.cut is None else [p.graph for p in self.cut.partitions]
        builder = PlanBuilder()
        made = {g: ScheduledNodes(g, seconds, number, overlap, workers, builder) for g in parts}
        for nodes in made.values():
            nodes.make()
        self.frames = builder.frames
        self.plan = builder.plan()
        self.inputs = [made[g].slot(v) for g in parts for v in g.inputs]
        outputs = [(one, v) for one in lowered for v in one.outputs]
        if self.cut is not None:
            self._fed = [i for p in self.cut.partitions for i in p.inputs]
            outputs = [(partition.graph, v) for partition, v in self.cut.outputs]
        self.outputs = [made[g].slot(v) for g, v in outputs]
        for slot in self.outputs:
            self.frames[0].readers[slot] += 1
        self.lanes = tuple(map(lane_of, graph.outputs))
        self.parallel = any(
            action.queue == HEAVY for frame in self.frames for action in frame.actions
        )
        self.branches = any(nodes.branches for nodes in made.values())
        self.sent = SentValues(number, graph.name)
        self.strands = None if self.cut is None else strands_of(self, given[0], seconds)

    @property
    def regions(self) -> list[RegionCode]:
        """The generated functions of its strands, or of its scheduled nodes."""
        if self.strands is not None:
            return self.strands.regions
        actions = [action for frame in self.frames for action in frame.actions]
        return [action.region for action in actions if action.region is not None]

    @cached_property
    def calls_python(self) -> bool:
        """Whether the graph calls user code, which may take any time."""
        return calls_python(self.graph)

    @property
    def _helpers(self) -> int:
        """Number of pool threads that may help with a step."""
        return worker_count() - 1 if self.parallel else 0

    def feed(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The inputs of all partitions, from those of the graph."""
        return inputs if self.cut is None else [inputs[i] for i in self._fed]

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step in this thread, with help of others.

        Raises:
            EagerflowError: the error that eager code would raise, with the line of the node.
            DeadlineError: the step took longer than its `ef.deadline` allowed.
        """
        strands = self.strands
        if strands is None:
            return self.step().run(inputs)
        assert self.cut is not None
        given = [[inputs[i] for i in partition.inputs] for partition in self.cut.partitions]
        del inputs
        return run_in_time(partial(_run_noting, strands, given, self._helpers))

    def step(
        self, *, log: bool = False, seconds: float | None = None,
        clock: AbstractClock = SYSTEM_CLOCK,
    ) -> ScheduledStep:  # fmt: skip
        """A step, not begun yet.

        Args:
            log: whether the scheduler keeps its events and instructions.
            seconds: time after which the step is cancelled; if not given, it ends at the
                `ef.deadline` of this thread.
            clock: gives the time.
        """
        checked = deadline.active()  # also where the thread may be told to end its steps
        end = deadline.moment() if checked else None
        if seconds is not None:
            end = clock.now() + seconds
        return ScheduledStep(
            self, log=log, deadline=end, clock=clock, helpers=self._helpers, checked=checked,
            number=step_of.step,
        )  # fmt: skip

    def detached(
        self, done: Callable[[Result], object], event: StepEvent | None = None, *,
        number: int = 0, runner: str = "",
    ) -> DetachedStep:  # fmt: skip
        """A step without a waiting caller (see `eagerflow.runtime.tiers.Detach`)."""
        return DetachedStep(self, done, event, number=number, runner=runner)

    def results(self, slots: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of a step, from its slots of frame 0 when it is done.

        Raises:
            SchedulerError: an output was never made: it lies on a branch that was not taken, say.
        """
        if not self.outputs:
            return ()
        results = tuple([slots[i] for i in self.outputs])
        for value, x in zip(self.graph.outputs, results, strict=True):
            if x is None:
                raise SchedulerError(
                    f"the step has ended, and %{value.name} was not made",
                    expected="a graph whose outputs are on no branch (see Merge)",
                )
        return results

    @property
    def text(self) -> str:
        """The generated functions of its scheduled nodes."""
        lines = []
        for frame, plan in zip(self.frames, self.plan.frames, strict=True):
            for number, action in zip(plan.nodes, frame.actions, strict=True):
                if action.region is not None:
                    apart = ", on a thread of its own" if action.queue == HEAVY else ""
                    lines.append(f"# {self.plan.labels[number]}{apart}")
                    lines.append(action.region.plain().text)
        return "\n".join(lines)
