"""Requests of a client that are not answered yet, and the callbacks for their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, final

from eagerflow.cluster.protocol.eager_actions import Action
from eagerflow.cluster.protocol.failures import read_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, Heads
from eagerflow.cluster.protocol.values import Frame, decode_values
from eagerflow.errors import CancelledError

if TYPE_CHECKING:
    from eagerflow.cluster.processes.client.connections import Connections


class Answered(Protocol):
    """Callbacks for the answer to a request, run in the thread that owns the sockets."""

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        """Handle success."""

    def failed(self, head: ErrorHead) -> None:
        """Handle failure."""


class Unasked(Protocol):
    """A sender of eager actions, which need no request; it provides the callbacks for them."""

    @property
    def task(self) -> str:
        """The task that gets the actions."""

    def batch(self, actions: Sequence[Action]) -> Answered:
        """The callbacks for actions that go in one message."""


@final
class Pending:
    """A request whose answer can be waited for.

    Args:
        request: the number of the request.
        then: called with the error if it fails.
        ended: called when it is answered.

    Attributes:
        request: the same.
        head: its error, once it has failed.
        step: the number of its step, once that is sent; 0 for another request.
    """

    __slots__ = ("_answered", "_bell", "_ended", "_results", "_then", "head", "request", "step")

    def __init__(
        self, request: int, then: Callable[[ErrorHead], object] | None = None,
        ended: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        self.request = request
        self.head: ErrorHead | None = None
        self.step = 0
        self._then = then
        self._ended = ended
        self._answered = False
        self._bell = Lock()  # free once it is answered; an `Event` takes ten times the calls
        self._bell.acquire()
        self._results: Mapping[str, tuple[Heads, list[Frame]]] = {}

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        self._results = results
        self._end()

    def failed(self, head: ErrorHead) -> None:
        self.head = head
        if self._then is not None:
            self._then(head)
        self._end()

    def _end(self) -> None:
        self._answered = True
        self._bell.release()
        if self._ended is not None:
            self._ended()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the answer; whether it has come."""
        if not self._answered and self._bell.acquire(timeout=-1 if seconds is None else seconds):
            self._bell.release()  # for the next wait
        return self._answered

    def results(self) -> dict[str, list[Any]]:
        """The results of each task, once the request is answered.

        Raises:
            EagerflowError: the request has failed.
        """
        if self.head is not None:
            raise read_error(self.head)
        return {
            task: decode_values(heads, iter(frames)) if heads else []
            for task, (heads, frames) in self._results.items()
        }


@final
class Introduction:
    """The pending answer to a `Peers` message, which introduces the other tasks to a task.

    Attributes:
        task: the task that got the message.
    """

    def __init__(self, connections: Connections, task: str) -> None:
        self._connections = connections
        self.task = task

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        self._connections.introduced(self)

    def failed(self, head: ErrorHead) -> None:
        lost = head.kind == "TaskLost"  # a loss is reported separately
        self._connections.introduced(self, None if lost else read_error(head))


@final
class Stop:
    """Ends the step for which a thread waits, as that thread is to stop."""

    __slots__ = ("_connections", "_pending")

    def __init__(self, connections: Connections, pending: Pending) -> None:
        self._connections = connections
        self._pending = pending

    def interrupt(self) -> None:
        """Abort the step on all its tasks."""
        self._connections.abort(self._pending, CancelledError("the step was cancelled"))
