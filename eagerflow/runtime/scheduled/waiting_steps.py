"""Steps of a graph of one waiting op, such as a dequeue: there is nothing to schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from eagerflow.core.op import get_op
from eagerflow.events import step_of
from eagerflow.runtime.scheduled.actions import asynchronous
from eagerflow.runtime.scheduled.detached import Result, failure_of, outputs_of
from eagerflow.runtime.threads.deadline import broken_off
from eagerflow_kernels.portable.waiting import waiting

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier


def is_one_wait(tier: ScheduledTier) -> bool:
    """Whether a graph is one waiting op on the inputs of the graph, whose results it gives."""
    graph = tier.graph
    if len(graph.nodes) != 1 or graph.nodes[0].op not in waiting:
        return False
    (node,) = graph.nodes
    plain = list(node.inputs) == list(graph.inputs) and list(node.outputs) == list(graph.outputs)
    return plain and not get_op(node.op).holds


@final
class WaitingStep:
    """One run of a graph that `is_one_wait`. It holds no thread.

    Args:
        tier: the tier of the graph.
        number: of the step.
        done: called once, with a function that gives the outputs or raises the error of the step.

    Attributes:
        tier: the same.
    """

    __slots__ = ("_done", "_give_back", "_lock", "_number", "_unwanted", "tier")

    def __init__(
        self, tier: ScheduledTier, number: int, done: Callable[[Result], object]
    ) -> None:  # fmt: skip
        self.tier = tier
        self._number = number
        self._done: Callable[[Result], object] | None = done
        self._lock = Lock()
        self._unwanted = False
        self._give_back: Callable[[], object] | None = None

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin the step, unless it was cancelled before."""
        if self._done is None:
            return
        (node,) = self.tier.graph.nodes
        around, step_of.step = step_of.step, self._number
        try:
            give_back = asynchronous[node.op](node, inputs, self)
        except Exception as error:
            self.failed(error)
            return
        finally:
            step_of.step = around
        with self._lock:
            self._give_back, unwanted = give_back, self._unwanted
        if unwanted and give_back is not None:
            give_back()

    def cancel(self, reason: str) -> None:
        """End the step; if it has ended already, what it has taken goes back."""
        with self._lock:
            self._unwanted, give_back = True, self._give_back
        self.failed(broken_off(reason))  # first, since the wait ends with another error
        if give_back is not None:
            give_back()

    # --- the completion of the op ---

    def done(self, *values: Any) -> None:
        """End the step with the results of the op."""
        self._end(outputs_of(values))

    def failed(self, error: BaseException) -> bool:
        """End the step with an error; whether this was the first answer."""
        if self._done is not None and isinstance(error, Exception):
            self.tier.frames[0].actions[0].blame(error)
        return self._end(failure_of(error))

    def at_end(self, action: Callable[[], object]) -> None:
        """Do nothing: the op holds no lock."""

    def _end(self, result: Result) -> bool:
        """Report the end; whether it is the first."""
        with self._lock:
            done, self._done = self._done, None  # which refers to the step
        if done is not None:
            done(result)
        return done is not None
