"""The state machine of a client, without sockets, threads or a clock.

It greets each task, numbers the messages, and combines the answers of all tasks of a step. Events
and instructions are plain tuples, errors are heads. A *request*, not None, is the caller's name for
a question or a step, and is answered once::

    event       ::= ("connect", task)                   # there is a connection, a new one
                  | ("message", task, message, frames)
                  | ("malformed", task, error)
                  | ("silent", task)                    # the process does not answer heartbeats
                  | ("heard", task)                     # the process answers again
                  | ("closed", task)                    # the connection is gone
                  | ("refused", task, error)            # the client was not let in
                  | ("broken", task, error)             # it failed, or was cut in its handshake
                  | ("ask", request, task, message, frames)   # the message gets its number here
                  | ("run", request, step, {task: (partition, feeds, frames, keep, stream)})
                  | ("abort", request, error)            # abort a "run"
                  | ("tick",)                           # the time of a "wake" may have come
    instruction ::= ("send", task, message, frames)
                  | ("again", task)                     # make a new connection, then "send"
                  | ("joined", task, welcome)           # the task accepts requests now
                  | ("refused", task, error)
                  | ("warn", text)
                  | ("suspect", task)
                  | ("printed", task, lines, left_out, own)   # output of the task, for this client
                  | ("lost", task)
                  | ("close", task)
                  | ("done", request, {task: (results, frames)})
                  | ("failed", request, error)
                  | ("wake", time)                      # the time for the next tick, inf: never

A step that fails on one task is aborted on the others. It has failed once all have answered, so
that no part of it still runs; a lost task counts as answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, final

from msgspec.structs import replace

from eagerflow.cluster.protocol.message_heads import ErrorHead, Feeds, Handles, Heads
from eagerflow.cluster.protocol.messages import (
    Abort,
    AnyMessage,
    Done,
    Failed,
    Hello,
    Printed,
    Renew,
    RunStep,
    Versions,
    Welcome,
)
from eagerflow.cluster.protocol.timeouts import (
    GREETING_SECONDS,
    LOST_SECONDS,
    RECONNECT_SECONDS,
    RENEWAL_SHARE,
    UNTOLD_SECONDS,
)
from eagerflow.cluster.protocol.values import Frame
from eagerflow.cluster.state_machines.logs import MachineLog
from eagerflow.errors import ProtocolError

ClientEvent = tuple[Any, ...]
ClientInstruction = tuple[Any, ...]

#: the part of one task in a step: a partition, its feeds, their frames, handles for its outputs,
#: and the stream of the step
StepPart = tuple[int, Feeds, list[Frame], Handles, int]

_FROM_SERVERS: Final = (Welcome, Done, Failed, Printed)


@final
class TaskLink:
    """The state of the connection to one task.

    Attributes:
        state: ``"absent"``, ``"greeting"``, ``"ready"``, ``"suspect"`` or ``"lost"``.
        attempt: number of greetings so far.
        incarnation: the incarnation of its process; 0 before the first greeting was answered.
        said: number of messages sent on this connection.
        heard: number of messages received on it.
        answer_by: time at which the greeting must have been answered.
        again_at: time to reconnect, after a connection was broken in its handshake.
        broken: error of the latest such break.
        lost_at: time at which a suspect task is lost.
        suspect_at: time at which a silent task is suspect.
        renew_at: time to renew the lease.
        lease: duration of the lease in seconds.
        asked: requests by the numbers of messages not answered yet, None for a renewal.
    """

    __slots__ = ("again_at", "answer_by", "asked", "attempt", "broken", "heard", "incarnation",
                 "lease", "lost_at", "renew_at", "said", "state", "suspect_at")  # fmt: skip

    def __init__(self) -> None:
        self.state = "absent"
        self.attempt = 0
        self.incarnation = 0
        self.said = 0
        self.heard = 0
        self.lease = inf
        self.settle()
        self.asked: dict[int, Any] = {}

    @property
    def usable(self) -> bool:
        """Whether the task accepts requests."""
        return self.state in ("ready", "suspect")

    @property
    def wakes_at(self) -> float:
        """The next time at which something is due for the task."""
        return min(self.suspect_at, self.lost_at, self.renew_at, self.again_at)

    def settle(self) -> None:
        """Clear all times at which something is due."""
        self.suspect_at = self.lost_at = self.renew_at = inf
        self.again_at = self.answer_by = inf
        self.broken: ErrorHead | None = None

    def begin(self, answer_by: float) -> None:
        """Begin a new connection, whose greeting has to be answered by that time."""
        self.settle()
        self.state = "greeting"
        self.lost_at = self.answer_by = answer_by
        self.asked = {}

    def greet(self) -> int:
        """Prepare the first message of a connection; gives the number of greetings so far."""
        self.again_at = inf
        self.attempt += 1
        self.said = self.heard = 0
        return self.attempt


@final
class _Open:
    """A step, or another request, that is not answered yet.

    Attributes:
        step: the number of the step; 0 for another request.
        left: the tasks that have not answered.
        results: the results of the tasks that have answered.
        error: the first error.
    """

    __slots__ = ("error", "left", "results", "step")

    def __init__(self, step: int, left: set[str]) -> None:
        self.step = step
        self.left = left
        self.results: dict[str, tuple[Heads, list[Frame]]] = {}
        self.error: ErrorHead | None = None


@final
class ClientMachine:
    """The state of one client.

    Args:
        session: a unique number, from 1 on, below 2**31.
        versions: the versions of its process.
        who: a description of the client, for messages to others.
        lost_after: seconds until a silent task is lost.
        greeting: seconds until a task without an answer to its greeting is lost.
        log: whether to keep a log, for `rerun`.

    Attributes:
        links: the state of each task's connection, by name.
        log: the events so far, with instructions; None if not kept.

    >>> from eagerflow.cluster.state_machines.client import ClientMachine
    >>> from eagerflow.cluster.protocol.messages import Versions
    >>> versions = Versions(1, 2, "little", "0.1", "portable", "3.11", "2.4")
    >>> client = ClientMachine(77, versions, "a notebook")
    >>> (kind, task, hello, frames), wake = client.handle(("connect", "ps:0"), now=0.0)
    >>> kind, type(hello).__name__, hello.session, wake
    ('send', 'Hello', 77, ('wake', 30.0))
    """

    def __init__(
        self, session: int, versions: Versions, who: str, lost_after: float = LOST_SECONDS,
        greeting: float = GREETING_SECONDS, *, log: bool = False,
    ) -> None:  # fmt: skip
        self.links: dict[str, TaskLink] = {}
        self.log: MachineLog | None = [] if log else None
        self._session = session
        self._versions = versions
        self._who = who
        self._lost_after = lost_after
        self._greeting = greeting
        self._open: dict[Any, _Open] = {}
        self._wake = inf
        #: when there may be something due: an early tick does nothing, and finds out when it is
        self._soonest = inf
        self._now = 0.0
        self._out: list[ClientInstruction] = []

    @property
    def held(self) -> int:
        """Number of open requests, and of messages for them, for leak checks."""
        asked = [request for link in self.links.values() for request in link.asked.values()]
        return len(self._open) + sum(request is not None for request in asked)

    def handle(self, event: ClientEvent, now: float) -> list[ClientInstruction]:
        """The instructions that follow from an event."""
        self._now, self._out = now, []
        _HANDLERS[event[0]](self, *event[1:])
        if self._soonest != self._wake:
            self._wake = self._soonest
            self._out.append(("wake", self._wake))
        if self.log is not None:
            self.log.append((now, event, tuple(self._out)))
        return self._out

    # --- connections ---

    def _connect(self, task: str) -> None:
        link = self.links.setdefault(task, TaskLink())
        if link.state not in ("absent", "lost"):
            self._lose(task, "another connection has taken its place")
        link.begin(self._now + self._greeting)
        self._wake_by(link.lost_at)
        self._greet(task, link)

    def _greet(self, task: str, link: TaskLink) -> None:
        hello = Hello(0, self._versions, self._session, link.greet(), self._who)
        self._send(task, hello, [])

    def _broken(self, task: str, error: ErrorHead) -> None:
        """Handle a connection that failed, or was cut in its handshake: reconnect for a while.

        No server has begun a session on it, and a handshake that is cut says nothing of keys.
        """
        link = self.links[task]
        if link.state == "greeting":
            link.broken = error
            link.lost_at = min(link.lost_at, self._now + self._lost_after)
            link.again_at = self._now + RECONNECT_SECONDS
            self._wake_by(link.wakes_at)

    def _refused(self, task: str, error: ErrorHead) -> None:
        if self.links[task].state == "greeting":
            self._out.append(("refused", task, error))
        self._lose(task, error.wrong)

    def _closed(self, task: str) -> None:
        self._lose(task, "its process has ended, or the connection was closed")

    def _malformed(self, task: str, error: ErrorHead) -> None:
        self._lose(task, f"it has sent a malformed message: {error.wrong}")

    def _silent(self, task: str) -> None:
        link = self.links[task]
        if link.state == "ready":
            link.suspect_at = min(link.suspect_at, self._now + UNTOLD_SECONDS)
            link.lost_at = min(link.lost_at, self._now + self._lost_after)
        elif link.state == "greeting":
            link.lost_at = min(link.lost_at, self._now + self._lost_after)
        self._wake_by(link.wakes_at)

    def _heard(self, task: str) -> None:
        link = self.links[task]
        link.suspect_at = inf
        link.lost_at = link.answer_by  # a handshake is no answer to a greeting
        if link.state == "suspect":
            link.state = "ready"

    def _lose(self, task: str, why: str) -> None:
        link = self.links[task]
        if link.state in ("absent", "lost"):
            return
        link.state = "lost"
        link.settle()
        asked, link.asked = link.asked, {}
        self._out += (("lost", task), ("close", task))
        for request in asked.values():
            step = self._open[request].step if request in self._open else 0
            what = f", in step {step}" if step else ""
            error = ErrorHead("TaskLost", f"{task} is lost{what}: {why}", task=task)
            self._answered(request, task, error=error)

    def _tick(self) -> None:
        for task, link in self.links.items():
            if link.lost_at <= self._now and link.broken is not None:
                self._refused(task, link.broken)
            elif link.lost_at <= self._now:
                self._lose(task, "it has sent nothing for too long")
            if link.again_at <= self._now:
                self._out.append(("again", task))
                self._greet(task, link)
            if link.suspect_at <= self._now:
                link.suspect_at = inf
                link.state = "suspect"
                self._out.append(("suspect", task))
            if link.renew_at <= self._now:
                self._send(task, Renew(0), [], None)
        self._soonest = min((link.wakes_at for link in self.links.values()), default=inf)

    def _wake_by(self, time: float) -> None:
        """Note that something is due at a time."""
        self._soonest = min(self._soonest, time)

    # --- requests ---

    def _ask(self, request: Any, task: str, message: AnyMessage, frames: list[Frame]) -> None:
        if self._begin(request, 0, {task}):
            self._send(task, message, frames, request)

    def _run(self, request: Any, step: int, parts: Mapping[str, StepPart]) -> None:
        if self._begin(request, step, set(parts)):
            for task, (partition, feeds, frames, keep, stream) in parts.items():
                link = self.links[task]
                link.said = number = link.said + 1
                link.asked[number] = request
                link.renew_at = self._now + link.lease * RENEWAL_SHARE  # later than it was
                message = RunStep(number, step, partition, feeds, keep, stream)
                self._out.append(("send", task, message, frames))

    def _begin(self, request: Any, step: int, tasks: set[str]) -> bool:
        """Note a request; whether all the tasks that it needs are usable."""
        if request in self._open:
            raise ProtocolError("a request is in use", given=str(request))
        for task in sorted(tasks):
            link = self.links.get(task)
            if link is None or not link.usable:
                self._out.append(("failed", request, ErrorHead(
                    "TaskLost", f"{task} is {'absent' if link is None else link.state}",
                    hint="start it again, and make its values again", task=task,
                )))  # fmt: skip
                return False
        if tasks:
            self._open[request] = _Open(step, tasks)
        else:
            self._out.append(("done", request, {}))
        return True

    def _abort(self, request: Any, error: ErrorHead) -> None:
        known = self._open.get(request)
        if known is not None and known.step:
            self._fail(known, error)

    def _give_back(self, task: str, step: int, error: ErrorHead) -> None:
        """Abort a step that may have ended: a wait gives back what it has taken."""
        if self.links[task].usable:
            self._send(task, Abort(0, step, error), [])

    def _send(self, task: str, message: Any, frames: list[Frame], *request: Any) -> None:
        """Send a message with the next number; with a request, an answer is expected."""
        link = self.links[task]
        link.said += 1
        if request:
            (link.asked[link.said],) = request
        if link.usable:
            link.renew_at = self._now + link.lease * RENEWAL_SHARE  # later than it was
        self._out.append(("send", task, replace(message, number=link.said), frames))

    # --- answers ---

    def _message(self, task: str, message: AnyMessage, frames: list[Frame]) -> None:
        link = self.links[task]
        if link.state in ("absent", "lost"):
            return  # the message was on its way
        if type(message) not in _FROM_SERVERS or message.number != link.heard + 1:
            self._lose(task, "it has sent a message out of order")
            return
        link.heard += 1
        if link.lost_at != inf or link.suspect_at != inf:
            self._heard(task)
        if type(message) is Done and link.state != "greeting" and message.answers in link.asked:
            self._answered(link.asked.pop(message.answers), task, message.results, frames)
        elif link.state == "greeting":
            self._greeted(task, link, message)
        elif isinstance(message, Welcome):
            self._lose(task, "it has greeted twice")
        elif isinstance(message, Printed):
            printed = message.lines, message.left_out, message.own
            self._out.append(("printed", task, *printed))
        elif isinstance(message, Failed) and message.answers == 0:
            self._lose(task, message.error.wrong)
        elif not isinstance(message, Failed) or message.answers not in link.asked:
            self._lose(task, "it has answered a request that was not sent")
        else:
            self._answered(link.asked.pop(message.answers), task, error=message.error)

    def _greeted(self, task: str, link: TaskLink, message: AnyMessage) -> None:
        if not isinstance(message, Welcome):
            if isinstance(message, Failed):
                self._out.append(("refused", task, message.error))
            self._lose(task, "it has refused this client")
            return
        ours, theirs = self._versions, message.versions
        for field in ("eagerflow", "kernels", "python", "numpy"):
            here, there = getattr(ours, field), getattr(theirs, field)
            if here != there:
                self._out.append(("warn", f"{task} has {field} {there}, this process {here}"))
        if link.incarnation not in (0, message.incarnation):
            text = f"{task} was restarted: the values it held are lost"
            self._out.append(("warn", text))
        link.settle()
        link.state = "ready"
        link.incarnation = message.incarnation
        link.lease = message.lease
        link.renew_at = self._now + link.lease * RENEWAL_SHARE
        self._wake_by(link.renew_at)
        self._out.append(("joined", task, message))

    def _answered(
        self, request: Any, task: str, results: Heads = (), frames: list[Frame] | None = None,
        error: ErrorHead | None = None,
    ) -> None:  # fmt: skip
        known = self._open.get(request)
        if known is None:
            return  # a renewal
        known.left.discard(task)
        known.results[task] = results, frames or []
        if error is not None:
            self._fail(known, error)
        if not known.left and self._open.pop(request, None) is not None:
            if known.error is None:
                self._out.append(("done", request, known.results))
            else:
                self._out.append(("failed", request, known.error))

    def _fail(self, known: _Open, error: ErrorHead) -> None:
        """Fail a step with its first error, and abort it on all its tasks.

        If a task is lost, those that have answered may still hold what they have sent to it.
        """
        if known.error is not None:
            return
        answered = known.results if error.kind == "TaskLost" else ()
        known.error = error
        known.results = {}
        for task in sorted({*known.left, *answered}):
            link = self.links.get(task)
            if known.step and link is not None and link.usable:
                self._send(task, Abort(0, known.step, error), [])


_HANDLERS: Final[dict[str, Callable[..., None]]] = {
    "connect": ClientMachine._connect,
    "message": ClientMachine._message,
    "malformed": ClientMachine._malformed,
    "silent": ClientMachine._silent,
    "heard": ClientMachine._heard,
    "closed": ClientMachine._closed,
    "refused": ClientMachine._refused,
    "broken": ClientMachine._broken,
    "ask": ClientMachine._ask,
    "run": ClientMachine._run,
    "abort": ClientMachine._abort,
    "give back": ClientMachine._give_back,
    "tick": ClientMachine._tick,
}
