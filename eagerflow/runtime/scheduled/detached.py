"""Detached steps, without a thread of their own: a small pool serves the steps that can go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from eagerflow import events
from eagerflow.core.op import find_op
from eagerflow.events import StepEvent, step_of
from eagerflow.graph.edit import inner_graphs
from eagerflow.graph.ir import Graph
from eagerflow.runtime.node_seconds import worker_count
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.runtime.threads.workers import Workers, shared

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier

#: gives the outputs of a step, or raises its error
Result = Callable[[], tuple[Any, ...]]


def outputs_of(values: tuple[Any, ...]) -> Result:
    """The result of a step that has given some values."""
    return partial(tuple, values)


def failure_of(error: BaseException) -> Result:
    """The result of a step that has failed."""
    return partial(_raise, error)


def _raise(error: BaseException) -> tuple[Any, ...]:
    raise error


#: the threads that serve detached steps; none of them blocks while a step waits
serving: Final = Workers(most=worker_count, name="server")
os.register_at_fork(after_in_child=serving.forget)


class JobPool(Protocol):
    """Runs pieces of work."""

    def submit(self, job: Callable[[], object], /) -> object:
        """Run ``job`` soon, in any thread."""


@final
class DetachedStep:
    """One run of a graph without a waiting caller.

    Args:
        tier: the tier with the graph.
        done: called once, in a thread of the pool, with a function that gives the outputs or raises
            the error of the step.
        event: the event of the step, if there is a listener; it ends before ``done`` has the
            result.
        number: the number of the step, for events.
        runner: the name of the runner that the step is for, in events.
        pool: serves the step; `serving` or, if it calls user code, the shared pool by default.

    Attributes:
        thread: the thread that works for the step now, 0 for none.
    """

    __slots__ = ("_done", "_event", "_pool", "_runner", "_step", "thread")

    def __init__(
        self, tier: ScheduledTier, done: Callable[[Result], object], event: StepEvent | None = None,
        number: int = 0, runner: str = "", pool: JobPool | None = None,
    ) -> None:  # fmt: skip
        self._done = done
        self._event = event
        self._runner = runner
        self._pool = pool or (shared if tier.calls_python else serving)
        self._step = ScheduledStep(tier, wake=self._wake, checked=True, number=number)
        self.thread = 0

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin the step.

        Args:
            inputs: raw arrays and numbers.
        """
        event = self._event
        try:
            if event is not None:
                events.begin(event)
            self._step.begin(inputs)
        except BaseException as error:
            self._step.end()  # `done` is not called, as this raises
            if event is not None:
                event.error = events.describe(error)
                events.end(event)
            raise

    def cancel(self, reason: str) -> None:
        """End the step soon: no further nodes are run, and waits are cancelled."""
        self._step.cancel(reason)

    def _wake(self) -> None:
        self._pool.submit(self._serve)

    def _serve(self) -> None:
        self.thread = thread = get_ident()
        step_of.runner = self._runner
        try:
            over = self._step.serve()
        finally:
            step_of.runner = ""
        if self.thread == thread:  # else another thread goes on already
            self.thread = 0
        if over:
            self._done(self._take_result)

    def _take_result(self) -> tuple[Any, ...]:
        event = self._event
        try:
            return self._step.take_result()
        except BaseException as error:
            if event is not None:
                event.error = events.describe(error)
            raise
        finally:
            if event is not None:
                events.end(event)


def calls_python(graph: Graph) -> bool:
    """Whether a graph calls user code, which may take any time."""
    graphs = (graph, *inner_graphs(graph.nodes))
    ops = (find_op(node.op) for one in graphs for node in one.nodes)
    return any(op is not None and op.calls_user for op in ops)
