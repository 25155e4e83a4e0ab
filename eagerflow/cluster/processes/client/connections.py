"""The client's end of a cluster: a thread that owns its sockets, and threads that await answers.

The client takes part in steps as its tasks do: values that its own devices send and receive go
through a station, which the same thread serves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Final, final

from msgspec.structs import replace

from eagerflow.cluster.processes.client.eager_batches import EagerBatches
from eagerflow.cluster.processes.client.pending_answers import (
    Answered,
    Introduction,
    Pending,
    Stop,
    Unasked,
)
from eagerflow.cluster.processes.client.sending_ahead import SendingAhead
from eagerflow.cluster.processes.client.task_notices import TaskNotices
from eagerflow.cluster.processes.greeting import ABSENT, who_is
from eagerflow.cluster.processes.keys import Credentials
from eagerflow.cluster.processes.listening import Doors
from eagerflow.cluster.processes.request_handling import failure_of
from eagerflow.cluster.processes.shared_memory.slabs import Slabs, WrittenSlab, framed, unslabbed
from eagerflow.cluster.processes.sockets import ClientSockets, Received
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.eager_actions import Action
from eagerflow.cluster.protocol.failures import read_error, write_error
from eagerflow.cluster.protocol.long_frames import FrameAhead, SentFrame
from eagerflow.cluster.protocol.message_heads import ErrorHead, client_name, step_number
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import (
    AnyMessage,
    Eager,
    PacketMessage,
    Peers,
    RunStep,
    SlabMessage,
    Versions,
    Welcome,
)
from eagerflow.cluster.protocol.packets import read_packet, write_packet
from eagerflow.cluster.protocol.timeouts import ABORT_SECONDS
from eagerflow.cluster.protocol.values import Frame
from eagerflow.cluster.state_machines.client import ClientMachine, StepPart
from eagerflow.errors import CancelledError, EagerflowError
from eagerflow.resources.containers import PROCESS
from eagerflow.resources.waiting_operations import interruptible
from eagerflow.runtime.rendezvous.packets import Packet
from eagerflow.runtime.rendezvous.station import Station
from eagerflow.runtime.threads.deadline import LATE, broken_off, moment

#: number of actions without a waiter at which they are sent
_LEFT: Final = 500


@final
class Connections:
    """All connections of a client.

    Args:
        doors: the doors of the tasks, by name; the mapping may change.
        door: gives the door of this client for its name among the tasks.
        session: a random number that identifies the session.
        versions: the versions of this process.
        credentials: keys of this client, where there are keys.
        limits: limits on messages.

    Attributes:
        tasks: the connected tasks, with their greetings.
        name: the name of this client among the tasks.
        partitions: the numbers for partitions to register.
        executables: by the number of a partition, the number of its executable.
        station: transport of values from this process to tasks, and back.
        slabs: shared memory with tasks on this host.
        notices: what the user is to be told about tasks.
        on_lost: called for each lost task, in the thread that owns the sockets.
    """

    def __init__(
        self, doors: Mapping[str, Doors], door: Callable[[str], str], session: int,
        versions: Versions, credentials: Credentials | None = None, limits: Limits = LIMITS,
    ) -> None:  # fmt: skip
        self.tasks: dict[str, Welcome] = {}
        self.name: Final = client_name(session)
        self._doors = doors
        self._limits = limits
        self._session = session
        self._sockets: Final = ClientSockets(door(self.name), limits, credentials)
        self.slabs: Final = Slabs(self._sockets.doors, limits, _nobody)
        self._machine = ClientMachine(session, versions, who_is(session))
        self._lock: Final = threading.Lock()
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._batches: Final = EagerBatches(self._send_batch)
        self._sleeping = self._over = False
        self._ahead: Final[dict[str, SendingAhead]] = {}
        self._steps, self._requests = count(1), count(1)
        self.partitions: Final = count(1)
        self.executables: Final[dict[int, int]] = {}
        self._pending: dict[int, Answered] = {}
        self.station: Final = Station(self.name, _end_of, self._put, self._ring, shown=self.shown)
        self._packets: list[tuple[str, Packet]] = []
        self._changed = threading.Condition()
        self.notices: Final = TaskNotices(self.health)
        self._refused: dict[str, EagerflowError] = {}
        self._greeted: set[str] = set()  # by the latest connection
        self._introducing: set[Introduction] = set()
        self.on_lost: Callable[[str], object] = _nobody
        self._wake = float("inf")
        self._now = 0.0  # when the owner of the sockets woke
        self._thread = threading.Thread(target=self._serve, name="eagerflow-cluster", daemon=True)
        self._thread.start()

    # --- for any thread ---

    def connect(self, task: str) -> None:
        """Greet a task; `wait_for` it."""
        self._greeted.discard(task)
        self._tell(("connect", task))

    def wait_for(self, tasks: Sequence[str], seconds: float) -> list[str]:
        """Wait for tasks, and for their introduction to each other; gives the tasks still missing.

        It ends after ``seconds``, or as soon as one of the tasks is lost.

        Raises:
            EagerflowError: a task has refused this client, or another task.
        """

        def settled() -> bool:
            if any(task in self._greeted and self.health(task) == "lost" for task in tasks):
                return True
            return all(task in self.tasks for task in tasks) and not self._introducing

        with self._changed:
            self._changed.wait_for(lambda: self._over or self._refused or settled(), seconds)
            missing = [task for task in tasks if task not in self.tasks]
        for task in list(self._refused):
            raise self._refused.pop(task)
        return missing

    def health(self, task: str) -> str:
        """The state of the connection to a task, in one word."""
        link = self._machine.links.get(task)
        return "absent" if link is None else link.state

    def ask(self, task: str, message: AnyMessage, frames: Sequence[Frame] = ()) -> Pending:
        """Send a message; the machine gives it its number."""
        pending = self._new()
        self._tell(("ask", pending.request, task, message, list(frames)))
        return pending

    def new_step(
        self, then: Callable[[ErrorHead], object] | None = None,
        ended: Callable[[], object] | None = None,
    ) -> Pending:  # fmt: skip
        """The request of a step, to be `run`: whom a Ctrl-C interrupts then can still abort it.

        Args:
            then: called with the error if the step fails, in the thread that owns the sockets.
            ended: called when the step has ended, in that thread.
        """
        return self._new(then, ended)

    def run(self, pending: Pending, parts: Mapping[str, StepPart]) -> None:
        """Run a step.

        Args:
            pending: its request.
            parts: the part of the step for each task.
        """
        with self._lock:  # servers expect the numbers in ascending order
            pending.step = step_number(self._session, next(self._steps))
            self._tell(("run", pending.request, pending.step, dict(parts)))

    def eager(
        self, sender: Unasked, action: Action, frames: Sequence[SentFrame | WrittenSlab] = ()
    ) -> None:
        """Have a task do an action, soon and in order; ``sender`` hears of its result."""
        self._inbox.append(("eager", sender, action, frames))
        if self._sleeping:
            self._ring()

    def send_ahead(self, task: str, frame: Frame, give_up: Callable[[], bool]) -> FrameAhead | None:
        """Send a copy of a long frame, before the message that it belongs to.

        Args:
            task: the receiver.
            frame: the frame.
            give_up: whether the task is lost.

        Returns:
            What takes the place of the frame in that message; None if it was given up.
        """
        ahead, end = FrameAhead(len(frame), partial(self._add_piece, task)), 0
        copies = self._ahead.setdefault(task, SendingAhead(self._ahead.values()))
        try:
            for start, piece in copies.copies(frame, lambda: self._over or give_up()):
                self._tell(("piece", task, ahead.piece(piece, start)))
                end = start + len(piece)
        finally:
            if end < len(frame):  # Ctrl-C, or the task is lost
                ahead.drop()
        return ahead if end == len(frame) else None

    def _add_piece(self, task: str, message: list[Frame]) -> None:
        """Send the message of a piece along with the next one; called by finalisers."""
        self._inbox.append(("piece", task, message))

    def later(self, sender: Unasked, action: Action) -> None:
        """Queue an action that goes along with the next message."""
        self._inbox.append(("eager", sender, action, ()))
        if self._sleeping and len(self._inbox) > _LEFT:
            self._ring()

    def tell(self, task: str, message: AnyMessage, heard: Answered) -> None:
        """Send a message; ``heard`` gets the answer."""
        request = next(self._requests)
        self._pending[request] = heard
        if self._over:
            self._end_pending()
        self._tell(("ask", request, task, message, []))

    def shown(self, device: str) -> str:
        """The name of a device in this process, from the name that all tasks know."""
        return device.removeprefix(f"{self.name}/")

    def release(self, task: str, message: AnyMessage) -> None:
        """Send a message without a waiter; called by finalisers."""
        self._inbox.append(("ask", self._new().request, task, message, []))

    def wait(self, pending: Pending, patience: float = 0.0) -> dict[str, list[Any]]:
        """The results of a request; Ctrl-C and a deadline abort it on all tasks.

        Args:
            pending: the request.
            patience: seconds after a deadline in which the tasks may answer by themselves.

        Raises:
            EagerflowError: the request has failed.
            DeadlineError: the request took longer than the `ef.deadline` of this thread allows.
        """
        try:
            late = not self._await(pending, patience)
        except KeyboardInterrupt:
            self.abort(pending, CancelledError("the step was cancelled by Ctrl-C"))
            pending.wait(ABORT_SECONDS)
            raise
        if late:
            self.abort(pending, broken_off(LATE))
            if not pending.wait(ABORT_SECONDS) or pending.head is not None:
                raise broken_off(LATE)  # else it ended just before, with results
        self.notices.warn()
        return pending.results()

    def _await(self, pending: Pending, patience: float) -> bool:
        """Wait until a request is answered, or the deadline has passed; whether it is answered."""
        end, holder = moment(), interruptible.holder
        if holder is not None:
            holder.watch(Stop(self, pending))
        try:
            return pending.wait(None if end is None else max(0.0, end + patience - monotonic()))
        finally:
            if holder is not None:
                holder.watch(None)

    def abort(self, pending: Pending, error: EagerflowError) -> None:
        """Abort a step on all its tasks."""
        self._tell(("abort", pending.request, write_error(error)))

    def give_back(self, task: str, pending: Pending, error: EagerflowError) -> None:
        """Let a step of one wait give back what it has taken, even if it has ended.

        Args:
            task: its task.
            pending: its request. If it was never sent, it is forgotten.
            error: the reason.
        """
        if pending.step:
            self._tell(("give back", task, pending.step, write_error(error)))
        else:
            self._pending.pop(pending.request, None)

    def close(self) -> None:
        """End the session."""
        self._over = True
        self._sockets.bell.ring()
        self._thread.join()

    def _new(
        self, then: Callable[[ErrorHead], object] | None = None,
        ended: Callable[[], object] | None = None,
    ) -> Pending:  # fmt: skip
        pending = Pending(next(self._requests), then, ended)
        self._pending[pending.request] = pending
        if self._over:
            self._end_pending()
        return pending

    def _tell(self, event: tuple[Any, ...]) -> None:
        self._inbox.append(event)
        if self._sleeping:
            self._ring()

    def _ring(self) -> None:
        self._sleeping = False
        self._sockets.bell.ring()

    # --- the thread that owns the sockets ---

    def _serve(self) -> None:
        wake = 0.0
        try:
            while not self._over:
                self._sleeping = True  # from here on a thread that adds an event rings
                if self._inbox:
                    self._sleeping, wake = False, 0.0
                self._sockets.wait(wake)
                self._sleeping = False
                self._now = now = monotonic()
                for received in self._sockets.receive():
                    self._take(received)
                if self._wake <= now:
                    self._handle(("tick",))
                if self.slabs.due <= now:
                    self.slabs.settle(now)
                wake = min(self._settle(), self._wake, self.slabs.due)
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()
            self._sockets.close()
            self.slabs.close()
            self._inbox.clear()
            self._end_pending()

    def _end_pending(self) -> None:
        while True:
            try:
                _, pending = self._pending.popitem()
            except KeyError:  # another thread may have taken the last one
                return
            pending.failed(ErrorHead("TaskLost", "the cluster was closed"))

    def _settle(self) -> float:
        """Handle events until none is left; gives the time at which the station wakes."""
        while True:
            while self._inbox:
                event = self._inbox.popleft()
                if event[0] == "eager":
                    self._batches.add(*event[1:])
                elif event[0] == "piece":
                    self._sockets.send(*event[1:])
                else:
                    self._batches.flush(but_frees=event[0] == "run")
                    self._handle(event)
            self._batches.flush()
            packets, self._packets = self._packets, []
            wake = self.station.work(self._now, packets)
            if not self._inbox:
                return wake
            self._now = monotonic()  # other threads may go on adding events

    def _send_batch(
        self, sender: Unasked, actions: list[Action], frames: list[SentFrame | WrittenSlab]
    ) -> None:
        request = next(self._requests)
        self._pending[request] = sender.batch(actions)
        self._handle(("ask", request, sender.task, Eager(0, tuple(actions)), frames))

    def _take(self, received: Received) -> None:
        if received.kind != "frames":
            absent = ABSENT.get(received.kind)
            if absent is None:
                self._handle((received.kind, received.peer))
            else:
                kind, error = absent
                told = replace(error, wrong=f"{received.peer} {error.wrong}")
                self._handle((kind, received.peer, told))
            return
        try:  # as `unframed`, which would be one call more
            message, frames = codec.read(received.frames, self._limits)
            if type(message) is SlabMessage:
                message, frames = unslabbed(self.slabs, message, frames, self._limits)
        except EagerflowError as error:
            if received.role != "packet":
                self._handle(("malformed", received.peer, failure_of(error)))
            return
        if received.role == "packet":
            self._packet(received.user, message, frames)
            return
        self._handle(("message", received.peer, message, frames))

    def _packet(self, user: str, message: AnyMessage, frames: list[Frame]) -> None:
        """Take a packet for a step of this process; any other packet is dropped."""
        if not isinstance(message, PacketMessage) or message.receiver != PROCESS.incarnation:
            return
        if user and user != message.sender:
            return
        known = self.tasks.get(message.sender)
        if known is not None and known.incarnation == message.incarnation:
            try:
                self._packets.append((message.sender, read_packet(message, frames)))
            except EagerflowError:
                return

    def _put(self, end: str, packet: Packet) -> None:
        known = self.tasks.get(end)
        if known is not None:
            message, frames = write_packet(
                packet, self.name, PROCESS.incarnation, known.incarnation
            )
            self._sockets.tasks.send(end, framed(self.slabs, end, message, frames))

    def _handle(self, event: tuple[Any, ...]) -> None:
        if event[0] == "connect":
            self._sockets.connect(event[1], self._doors[event[1]])
            self._greeted.add(event[1])
        for kind, *what in self._machine.handle(event, self._now):
            if kind == "send":
                task, message, frames = what
                if self._batches.waiting and type(message) is RunStep:
                    message = self._batches.letting_go(task, message)
                self._sockets.send(task, framed(self.slabs, task, message, frames))
            elif kind in ("done", "failed"):
                pending = self._pending.pop(what[0], None)
                if pending is None:  # another thread has ended all requests
                    continue
                answer = pending.done if kind == "done" else pending.failed
                answer(what[1])
            elif kind == "wake":
                (self._wake,) = what
            else:
                self._about_task(kind, *what)

    def _about_task(self, kind: str, task: str, *what: Any) -> None:
        with self._changed:
            if kind == "joined":
                self.tasks[task] = what[0]
                self._sockets.tasks.connect(task, self._doors[task])
                self.slabs.connect(task, self._doors[task])
                self._tell_peers()
            elif kind == "refused":
                self._refused[task] = read_error(what[0])
            elif kind == "lost":
                self.tasks.pop(task, None)
                self.station.forget(task)  # a late packet would begin the next process's channel
                self._packets = [one for one in self._packets if one[0] != task]
                self._sockets.tasks.forget(task)
                self.slabs.forget(task)
                self.on_lost(task)
            elif kind == "suspect":
                self.notices.suspects.add(task)
            elif kind == "close":
                self._sockets.disconnect(task)
            elif kind == "again":
                self._sockets.connect(task, self._doors[task])
            elif kind == "warn":
                self.notices.warnings.append(task)
            elif kind == "printed":
                self.notices.printed.append((task, *what))
            self._changed.notify_all()

    def _tell_peers(self) -> None:
        """Send all tasks the names and doors of their peers."""
        known = {
            task: (self._doors[task].task, welcome.incarnation, self._doors[task].key)
            for task, welcome in self.tasks.items()
        }
        ours = self._sockets.doors
        known[self.name] = ours.task, PROCESS.incarnation, ours.key
        for task in self.tasks:
            introduction = Introduction(self, task)
            self._introducing.add(introduction)
            request = next(self._requests)
            self._pending[request] = introduction
            self._tell(("ask", request, task, Peers(0, known), []))

    def introduced(self, one: Introduction, error: EagerflowError | None = None) -> None:
        """Note that a task knows its peers, or refuses one; in the thread that owns the sockets."""
        with self._changed:
            self._introducing.discard(one)
            if error is not None:
                self._refused[one.task] = error
            self._changed.notify_all()


def _end_of(device: str) -> str:
    return device.rpartition("/")[0]


def _nobody(what: str) -> None:
    """The default listener for losses and for refused slabs: it does nothing."""
