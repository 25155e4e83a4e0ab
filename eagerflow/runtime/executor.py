"""The executor: graphs that are run entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import is_whole, lower
from eagerflow.runtime import deadline
from eagerflow.runtime.clock import AbstractClock
from eagerflow.runtime.costs import node_seconds, op_threads, worker_count
from eagerflow.runtime.flow import Flow
from eagerflow.runtime.step import SYSTEM_CLOCK, FlowStep

__all__ = ["Executor"]


@final
class Executor:
    """A graph made ready to run by entries, some of them at once.

    Args:
        graph: the graph, not lowered. It must not change afterwards.
        whole: which branches and loops stay one entry (see `eagerflow.graph.lowering.lower`).
        seconds: how long a node takes, estimated.
        number: of the program that it belongs to, for events.
        overlap: whether turns of a loop may, as many as its ``parallel_iterations`` say.
        workers: how many threads regions are cut for; 0 for as many as can be used.

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
        seconds: Callable[[Node], float] | None = None, number: int = 0, overlap: bool = True,
        workers: int = 0,
    ) -> None:  # fmt: skip
        self.graph = graph
        threads = op_threads()
        seconds = seconds or (lambda node: node_seconds(node, threads))
        self.flow = Flow(lower(graph, whole), seconds, number, overlap=overlap, workers=workers)
        self.lanes = self.flow.lanes

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it on raw arrays and numbers."""
        return self.run(inputs)

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The same, with a list of them."""
        return self.step().run(inputs)

    def step(
        self, *, log: bool = False, seconds: float | None = None,
        clock: AbstractClock = SYSTEM_CLOCK, checked: bool = False,
    ) -> FlowStep:  # fmt: skip
        """A step that is to be run.

        Args:
            log: whether the scheduler keeps what happened.
            seconds: after how many the step is cancelled; if not given, at the `ef.deadline` of
                this thread.
            clock: tells the time.
            checked: whether regions ask between ops whether the step was cancelled; a step with a
                deadline does, and one of a thread that may be told to end its steps.
        """
        end = None
        if deadline.active():
            end, checked = deadline.moment(), True
        if seconds is not None:
            end = clock.now() + seconds
        helpers = worker_count() - 1 if self.flow.parallel else 0
        return FlowStep(
            self.flow, log=log, deadline=end, clock=clock, helpers=helpers, checked=checked
        )

    @property
    def text(self) -> str:
        """The generated functions of all entries."""
        return self.flow.text
