"""The executor: graphs that are run entry by entry, and which graphs are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_whole, lower
from eagerflow.runtime.clock import AbstractClock
from eagerflow.runtime.costs import HEAVY_SECONDS, node_seconds, op_threads, worker_count
from eagerflow.runtime.flow import Flow
from eagerflow.runtime.program import Program
from eagerflow.runtime.step import SYSTEM_CLOCK, FlowStep

__all__ = ["Executor", "executable"]


@final
class Executor:
    """A graph made ready to run by entries: what `Program` is for a graph that is one region.

    Args:
        graph: the graph, not lowered. It must not change afterwards.
        whole: which branches and loops stay one entry (see `eagerflow.graph.lowering.lower`).
        seconds: how long a node takes, estimated.

    Attributes:
        graph: the graph.
        flow: its entries.
        lanes: for each output its lane, or None for a number.

    Raises:
        GraphError: something in the graph cannot run.

    >>> from eagerflow.runtime.executor import Executor
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> Executor(graph)(ef.zeros(2).numpy())
    (array([1., 1.], dtype=float32),)
    """

    def __init__(
        self, graph: Graph, whole: Callable[[Node], bool] = is_whole,
        seconds: Callable[[Node], float] | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        threads = op_threads()
        self.flow = Flow(lower(graph, whole), seconds or (lambda node: node_seconds(node, threads)))
        self.lanes = self.flow.lanes

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it on raw arrays and numbers."""
        return self.step().run(inputs)

    def step(
        self, *, log: bool = False, seconds: float | None = None,
        clock: AbstractClock = SYSTEM_CLOCK, checked: bool = False,
    ) -> FlowStep:  # fmt: skip
        """A step that is to be run.

        Args:
            log: whether the scheduler keeps what happened.
            seconds: after how many the step is cancelled.
            clock: tells the time.
            checked: whether regions ask between ops whether the step was cancelled; a step with a
                deadline does.
        """
        deadline = None if seconds is None else clock.now() + seconds
        helpers = worker_count() - 1 if self.flow.parallel else 0
        return FlowStep(
            self.flow, log=log, deadline=deadline, clock=clock, helpers=helpers, checked=checked
        )


def executable(graph: Graph) -> Program | Executor:
    """What runs ``graph``: a `Program`, unless heavy parts of it could run at once.

    >>> from eagerflow.runtime.executor import executable
    >>> executable(ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }"))
    <program of <graph f: 1 node, 1 input, 1 output>>
    """
    threads = op_threads()
    workers = worker_count()
    if workers > 1 and sum(node_seconds(n, threads) for n in graph.nodes) >= 2 * HEAVY_SECONDS:
        found = Executor(graph)
        if found.flow.parallel and found.flow.branches:
            return found
    return Program(graph)
