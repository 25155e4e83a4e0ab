"""The scheduled tier: a graph that is run by scheduled nodes, some of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from eagerflow.events import step_of
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_on_one_device, lower
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.runtime.scheduled.flow import Flow
from eagerflow.runtime.scheduled.node_seconds import node_seconds, op_threads, worker_count
from eagerflow.runtime.scheduled.step import SYSTEM_CLOCK, FlowStep
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.clock import AbstractClock

__all__ = ["ScheduledTier"]


def waits_nowhere(node: Node) -> bool:
    """Whether a branch or a loop can be one scheduled node: all in it runs on, on one device."""
    return is_on_one_device(node) and effect_of(node) != "blocks"


@final
class ScheduledTier:
    """Runs a graph by scheduled nodes. What waits among them holds no thread.

    Args:
        graph: the graph, lowered or not. It must not change afterwards.
        number: of its executable, for events.
        whole: which branches and loops stay one node (see `eagerflow.graph.lowering.lower`).
        seconds: how long a node takes, estimated.
        overlap: whether iterations of a loop may overlap, up to its ``parallel_iterations``.
        workers: how many threads regions are cut for; 0 for as many as can be used.

    Attributes:
        name: ``"scheduled"``.
        direct: None.
        flow: the lowered graph, its plan and actions.
        lanes: for each output its lane, or None for a number.

    Raises:
        GraphError: something in the graph cannot run.

    >>> from eagerflow.runtime.scheduled.tier import ScheduledTier
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> ScheduledTier(graph).run([ef.zeros(2).numpy()])
    (array([1., 1.], dtype=float32),)
    """

    name = "scheduled"
    direct = None

    def __init__(
        self, graph: Graph, number: int = 0, *, whole: Callable[[Node], bool] = waits_nowhere,
        seconds: Callable[[Node], float] | None = None, overlap: bool = True, workers: int = 0,
    ) -> None:  # fmt: skip
        threads = op_threads()
        seconds = seconds or (lambda node: node_seconds(node, threads))
        self.flow = Flow(lower(graph, whole), seconds, number, overlap=overlap, workers=workers)
        self.lanes = self.flow.lanes

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step in this thread, with help of others.

        Raises:
            EagerflowError: what eager code would raise, with the line of the node.
            DeadlineError: it took longer than its `ef.deadline` allowed.
        """
        return self.step().run(inputs)

    def step(
        self, *, log: bool = False, seconds: float | None = None,
        clock: AbstractClock = SYSTEM_CLOCK,
    ) -> FlowStep:  # fmt: skip
        """A step that is to be run.

        Args:
            log: whether the scheduler keeps what happened.
            seconds: after how many the step is cancelled; if not given, at the `ef.deadline` of
                this thread.
            clock: tells the time.
        """
        checked = deadline.active()  # a thread may be told to end its steps
        end = deadline.moment() if checked else None
        if seconds is not None:
            end = clock.now() + seconds
        helpers = worker_count() - 1 if self.flow.parallel else 0
        return FlowStep(
            self.flow, log=log, deadline=end, clock=clock, helpers=helpers, checked=checked,
            number=step_of.step,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """The generated functions of all scheduled nodes."""
        return self.flow.text
