"""Steps of graphs that use tasks, from their beginning to their end in all processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from eagerflow import events
from eagerflow.cluster.processes.client.connections import Connections
from eagerflow.cluster.processes.client.pending_answers import Pending
from eagerflow.cluster.protocol.failures import read_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, Handles
from eagerflow.cluster.protocol.timeouts import ABORT_SECONDS
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.cluster.state_machines.client import StepPart
from eagerflow.errors import CancelledError, EagerflowError
from eagerflow.events import StepEvent
from eagerflow.runtime.scheduled.detached import DetachedStep, Result, failure_of, outputs_of
from eagerflow.runtime.threads.deadline import broken_off
from eagerflow.runtime.threads.workers import shared

if TYPE_CHECKING:
    from eagerflow.cluster.remote.steps import RemoteTier, TaskShare


@final
class RunningStep:
    """The part of a step that runs at tasks.

    Args:
        connections: the connections of this client.
        ended: called when the step has ended at all tasks, in the thread that owns the sockets.

    Attributes:
        number: the number of the step.
        head: the error of the step, once it has failed.
        tasks: the process of the task for each share.
        keep: for each share the handles of its outputs.
    """

    def __init__(
        self, connections: Connections, ended: Callable[[], object] | None = None
    ) -> None:  # fmt: skip
        self._connections = connections
        self._ended = ended
        self._cancel: Callable[[str], object] | None = None
        self._pending: Pending | None = None
        self.number = 0
        self.head: ErrorHead | None = None
        self.tasks: dict[TaskShare, RemoteTask] = {}
        self.keep: dict[TaskShare, Handles] = {}

    def begin(self, parts: dict[str, StepPart]) -> None:
        """Begin the step at the tasks."""
        self._pending = self._connections.new_step(self._failed, self._ended)
        self._connections.run(self._pending, parts)
        self.number = self._pending.step

    def let_fail(self, cancel: Callable[[str], object]) -> None:
        """Set the function that cancels the local part when the step has failed at the tasks."""
        self._cancel = cancel
        if self.head is not None:
            cancel(self.head.wrong)

    def _failed(self, head: ErrorHead) -> None:
        """Cancel the local part after a failure; called by the thread that owns the sockets."""
        self.head = head
        if self._cancel is not None:
            self._cancel(head.wrong)

    def stop(self, error: BaseException) -> None:
        """Abort the step at the tasks, without a wait."""
        if self._pending is not None:
            wrong = error if isinstance(error, EagerflowError) else CancelledError(repr(error))
            self._connections.abort(self._pending, wrong)

    def give_back(self, error: BaseException) -> None:
        """Abort the step, also where it has ended: a wait gives back what it has taken."""
        if self._pending is not None:
            for task in self.tasks.values():
                wrong = CancelledError(f"the step was cancelled: {type(error).__name__}")
                self._connections.give_back(task.task, self._pending, wrong)

    def abort(self, error: BaseException) -> None:
        """Abort the step at the tasks: the local part has failed, or was interrupted.

        Raises:
            EagerflowError: a task has failed before.
        """
        assert self._pending is not None
        self.stop(error)
        with suppress(KeyboardInterrupt):
            self._pending.wait(ABORT_SECONDS)
        self.explain(error)

    def explain(self, error: BaseException) -> None:
        """Raise the error of a task, if that is why the local part was cancelled.

        Raises:
            EagerflowError: a task has failed before.
        """
        if isinstance(error, CancelledError) and self.head is not None:
            raise read_error(self.head) from None  # the reason of the cancellation

    def results(self) -> dict[str, list[Any]]:
        """Wait for the tasks, and give their results."""
        assert self._pending is not None
        return self._connections.wait(self._pending)


@final
class DetachedRemoteStep:
    """A step whose caller does not wait; no thread does, unless functions of Python run here.

    It has ended when its parts have: that at the tasks, and that of this process.

    Args:
        tier: the tier.
        done: called once with a function that gives the outputs.
        event: the event of the step, if there is a listener.
        runner: the name of the runner that the step is for.

    Attributes:
        thread: the thread that runs it: 0, since the tasks do.
    """

    thread = 0

    def __init__(
        self, tier: RemoteTier, done: Callable[[Result], object], event: StepEvent | None,
        runner: str,
    ) -> None:  # fmt: skip
        self._tier = tier
        self._done = done
        self._event = event
        self._runner = runner
        self._lock = Lock()
        self._left = 1
        self._reason = ""
        self._step = RunningStep(tier.connections, partial(shared.submit, self._part_ended))
        self._local: DetachedStep | None = None
        self._mine: Result = tuple

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin the step."""
        if self._event is not None:
            events.begin(self._event)
        shared.submit(partial(self._begin, inputs))

    def cancel(self, reason: str) -> None:
        """End the step soon."""
        self._reason = reason  # before the look at what has begun
        if self._local is not None:
            self._local.cancel(reason)
        self._step.stop(broken_off(reason))

    def _begin(self, inputs: Sequence[Any]) -> None:
        tier, here = self._tier, self._tier.here
        try:
            if here is not None:
                self._left += bool(tier.shares)
            if tier.shares:
                tier.begin(self._step, inputs)
        except BaseException as error:
            self._end(failure_of(error))
            return
        if here is not None:
            number = self._step.number
            self._local = here.detached(self._local_ended, number=number, runner=self._runner)
            try:
                self._local.begin(tier.given(inputs))
                self._step.let_fail(self._local.cancel)
            except BaseException as error:
                self._local_ended(failure_of(error))
        if self._reason:
            self.cancel(self._reason)

    def _local_ended(self, result: Result) -> None:
        """Keep the outputs of the part of this process; if it failed, the tasks are aborted."""
        try:
            self._mine = outputs_of(result())
        except BaseException as error:
            self._mine = failure_of(error)
            self._step.stop(error)
        self._part_ended()

    def _part_ended(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
        try:
            result: Result = outputs_of(self._outputs())
        except BaseException as error:
            self._tier.failed(self._step, error)
            result = failure_of(error)
        self._end(result)

    def _outputs(self) -> tuple[Any, ...]:
        try:
            mine = self._mine()
        except CancelledError as error:
            self._step.explain(error)
            raise
        return self._tier.results(self._step, mine) if self._tier.shares else mine

    def _end(self, result: Result) -> None:
        if self._event is not None:
            events.end(self._event)
        self._done(result)
