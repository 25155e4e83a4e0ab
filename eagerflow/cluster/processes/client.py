"""The client's end of a cluster: a thread that owns its sockets, and those who wait for answers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final, final

from eagerflow.cluster.machines.client import ClientMachine
from eagerflow.cluster.processes.sockets import ClientSockets, Received, address
from eagerflow.cluster.processes.work import failure_of
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.failures import read_error, write_error
from eagerflow.cluster.protocol.limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import AnyMessage, Heads, Peers, Versions, Welcome
from eagerflow.cluster.protocol.values import Frame, decode_values
from eagerflow.errors import CancelledError, ClusterWarning, EagerflowError
from eagerflow.source import warn


@final
class Pending:
    """Something that was asked for."""

    __slots__ = ("_bell", "_error", "_results", "request")

    def __init__(self, request: int) -> None:
        self.request = request
        self._bell = threading.Event()
        self._results: Mapping[str, tuple[Heads, list[Frame]]] = {}
        self._error: EagerflowError | None = None

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        self._results = results
        self._bell.set()

    def failed(self, error: EagerflowError) -> None:
        self._error = error
        self._bell.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it is answered."""
        return self._bell.wait(seconds)

    def results(self) -> dict[str, list[Any]]:
        """What the tasks gave, once it is answered.

        Raises:
            EagerflowError: it has failed.
        """
        if self._error is not None:
            raise self._error
        return {
            task: decode_values(heads, iter(frames))
            for task, (heads, frames) in self._results.items()
        }


@final
class Connections:
    """All connections of a client.

    Args:
        folder: where the tasks listen.
        session: a number of its own.
        versions: of this process.
        limits: on messages.

    Attributes:
        tasks: those that are there, with their greetings.
    """

    def __init__(
        self, folder: Path, session: int, versions: Versions, limits: Limits = LIMITS
    ) -> None:
        self.tasks: dict[str, Welcome] = {}
        self._folder = folder
        self._limits = limits
        self._sockets: Final = ClientSockets(limits)
        self._machine = ClientMachine(session, versions, f"session {session}")
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._pending: dict[int, Pending] = {}
        self._changed = threading.Condition()
        self._warnings: deque[str] = deque()
        self._refused: dict[str, EagerflowError] = {}
        self._requests = count(1)
        self._wake = float("inf")
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="eagerflow-cluster", daemon=True)
        self._thread.start()

    # --- for any thread ---

    def connect(self, task: str) -> None:
        """Greet a task; `wait_for` it."""
        self._tell(("connect", task))

    def wait_for(self, tasks: Sequence[str], seconds: float) -> list[str]:
        """Those of the tasks that are not there after so many seconds.

        Raises:
            EagerflowError: one has refused this client.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or self._refused or all(task in self.tasks for task in tasks),
                seconds,
            )
            missing = [task for task in tasks if task not in self.tasks]
        self._warn()
        for task in list(self._refused):
            raise self._refused.pop(task)
        return missing

    def ask(self, task: str, message: AnyMessage, frames: Sequence[Frame] = ()) -> Pending:
        """Send a message; its number is found on the way."""
        pending = self._new()
        self._tell(("ask", pending.request, task, message, list(frames)))
        return pending

    def run(self, parts: Mapping[str, tuple[int, Heads, list[Frame]]]) -> Pending:
        """Run a step; for each task the partition, its feeds, and their frames."""
        pending = self._new()
        self._tell(("run", pending.request, dict(parts)))
        return pending

    def wait(self, pending: Pending) -> dict[str, list[Any]]:
        """What was asked for; Ctrl-C aborts it everywhere.

        Raises:
            EagerflowError: it has failed.
        """
        try:
            pending.wait()
        except KeyboardInterrupt:
            error = CancelledError("the step was cancelled by Ctrl-C")
            self._tell(("abort", pending.request, write_error(error)))
            pending.wait(2.0)
            raise
        self._warn()
        return pending.results()

    def close(self) -> None:
        """End the session."""
        self._over = True
        self._sockets.bell.ring()
        self._thread.join()

    def _warn(self) -> None:
        """Say in the thread of the user what the other one has heard."""
        while self._warnings:
            warn(self._warnings.popleft(), ClusterWarning)

    def _new(self) -> Pending:
        pending = Pending(next(self._requests))
        self._pending[pending.request] = pending
        return pending

    def _tell(self, event: tuple[Any, ...]) -> None:
        self._inbox.append(event)
        self._sockets.bell.ring()

    # --- the thread that owns the sockets ---

    def _serve(self) -> None:
        try:
            while not self._over:
                self._sockets.wait(self._wake)
                for received in self._sockets.receive():
                    self._take(received)
                while self._inbox:
                    self._handle(self._inbox.popleft())
                if self._wake <= monotonic():
                    self._handle(("tick",))
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()
            self._sockets.close()
            for pending in list(self._pending.values()):
                pending.failed(CancelledError("the cluster was closed"))

    def _take(self, received: Received) -> None:
        if received.kind == "closed":
            self._handle(("closed", received.peer))
            return
        try:
            message, frames = codec.read(received.frames, self._limits)
        except EagerflowError as error:
            self._handle(("malformed", received.peer, failure_of(error)))
            return
        self._handle(("message", received.peer, message, frames))

    def _handle(self, event: tuple[Any, ...]) -> None:
        if event[0] == "connect":
            self._sockets.connect(event[1], address(self._folder, event[1], "client"))
        for kind, *what in self._machine.handle(event, monotonic()):
            if kind == "send":
                task, message, frames = what
                self._sockets.send(task, codec.write(message, frames))
            elif kind == "done":
                self._pending.pop(what[0]).done(what[1])
            elif kind == "failed":
                self._pending.pop(what[0]).failed(read_error(what[1]))
            elif kind == "wake":
                (self._wake,) = what
            else:
                self._about_task(kind, *what)

    def _about_task(self, kind: str, task: str, *what: Any) -> None:
        with self._changed:
            if kind == "joined":
                self.tasks[task] = what[0]
                self._tell_peers()
            elif kind == "refused":
                self._refused[task] = read_error(what[0])
            elif kind == "lost":
                self.tasks.pop(task, None)
            elif kind == "close":
                self._sockets.disconnect(task)
            elif kind == "warn":
                self._warnings.append(task)
            self._changed.notify_all()

    def _tell_peers(self) -> None:
        """Tell all tasks who the others are."""
        known = {
            task: (address(self._folder, task, "task"), welcome.incarnation)
            for task, welcome in self.tasks.items()
        }
        for task in self.tasks:
            self.ask(task, Peers(0, known))
