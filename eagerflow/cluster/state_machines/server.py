"""The state machine of a task server, without sockets, threads or a clock.

Events and instructions are plain tuples, errors are heads. A *peer* is a connection, as the
transport names it; the transport knows by the peer's key whether it may speak as a ``"client"`` or
a ``"task"``::

    event       ::= ("message", peer, role, message, frames)
                  | ("malformed", peer, error)          # the frames were no message
                  | ("closed", peer)                    # the connection is gone
                  | ("refused", peer)                   # its key was revoked
                  | ("did", session, number, results, frames, error)   # of a "do"; error or None
                  | ("printed", session, lines, left_out)   # by a function that the task has called
                  | ("said", lines, left_out)   # by the task itself, for no session
                  | ("tick",)                           # the time of a "wake" may have come
    instruction ::= ("send", peer, message, frames)
                  | ("do", session, message, frames)    # answered by "did", in any order
                  | ("abort", session, step, error)     # of a step after its "do"; "did" follows,
                                                          # unless it came before
                  | ("free", session)                   # all that a session had
                  | ("release", session, partition)
                  | ("let go", session, handles)      # of a step that gets no "do"
                  | ("connect", task, address, incarnation, key)
                  | ("lost", task, incarnation)         # another incarnation has taken its place
                  | ("close", peer)                     # no message to it follows
                  | ("count", what)                     # for the log: what was refused or dropped
                  | ("wake", time)                      # the time for the next tick, inf: never

Packets between tasks belong to no session and change nothing here: `wrong_of_packet` says whether a
packet is to be dropped.

Every message of a session has the next number. A message with an earlier number is dropped, so a
replay does nothing; a gap ends the session. A session is over when its connection closes, its lease
ends, or its client says goodbye; then its steps are aborted, and its state is freed when they have
ended.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final, final

from eagerflow.cluster.protocol.message_heads import ErrorHead, Heads, client_name, is_client
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import (
    Abort,
    AnyMessage,
    Done,
    Eager,
    Failed,
    Fetch,
    Goodbye,
    Hello,
    Look,
    MakeResource,
    MakeVariable,
    PacketMessage,
    Peers,
    Printed,
    Register,
    Release,
    Renew,
    RunStep,
    TaskLoad,
    Versions,
    Welcome,
)
from eagerflow.cluster.protocol.timeouts import LEASE_SECONDS
from eagerflow.cluster.protocol.values import Frame
from eagerflow.cluster.state_machines.logs import MachineLog
from eagerflow.cluster.state_machines.sessions import Session, Waiting
from eagerflow.errors import ProtocolError

ServerEvent = tuple[Any, ...]
ServerInstruction = tuple[Any, ...]

#: number of ended sessions whose attempts are remembered
_REMEMBERED: Final = 10_000


@final
class ServerMachine:
    """The state of one task server.

    Args:
        task: its name.
        incarnation: the incarnation of its process.
        versions: the versions of its process.
        devices: the names of its devices.
        limits: limits on sessions, partitions and steps.
        lease: seconds of silence after which a session is over.
        allows: grants for ops, beyond values and state.
        allows_peer: whether a client may state the address and the key of a task.
        log: whether to keep a log, for `rerun`.

    Attributes:
        counts: numbers of messages refused or dropped, by reason.
        log: the events so far, with instructions; None if not kept.

    >>> from eagerflow.cluster.state_machines.server import ServerMachine
    >>> from eagerflow.cluster.protocol.messages import Hello, Versions
    >>> versions = Versions(1, 2, "little", "0.1", "portable", "3.11", "2.4")
    >>> server = ServerMachine("ps:0", 12, versions, ("cpu:0",))
    >>> hello = Hello(1, versions, session=77, attempt=1, who="a notebook")
    >>> send, wake = server.handle(("message", "a", "client", hello, []), now=0.0)
    >>> type(send[2]).__name__, wake
    ('Welcome', ('wake', 30.0))
    """

    def __init__(
        self, task: str, incarnation: int, versions: Versions, devices: Sequence[str],
        limits: Limits = LIMITS, lease: float = LEASE_SECONDS, *,
        allows: Sequence[str] = (),
        allows_peer: Callable[[str, str, str, str], bool] = lambda *_: True, log: bool = False,
    ) -> None:  # fmt: skip
        self._allows = tuple(allows)
        self._allows_peer = allows_peer
        self.counts: Counter[str] = Counter()
        self.log: MachineLog | None = [] if log else None
        self._task = task
        self._incarnation = incarnation
        self._versions = versions
        self._devices = tuple(devices)
        self._limits = limits
        self._lease = lease
        self._sessions: dict[int, Session] = {}
        self._by_peer: dict[str, Session] = {}
        self._ending: dict[int, Session] = {}  # over, with steps that have not ended
        self._over: OrderedDict[int, int] = OrderedDict()  # session: attempt
        self._peers: dict[str, int] = {}  # the incarnations of other tasks
        self._unknown = 0
        self._wake = inf
        #: when a lease may end: an early tick does nothing, and finds out when one does
        self._soonest = inf
        self._out: list[ServerInstruction] = []
        self._now = 0.0

    @property
    def held(self) -> int:
        """Number of sessions, steps and partitions, for leak checks."""
        known = (*self._sessions.values(), *self._ending.values())
        return sum(1 + len(s.steps) + len(s.partitions) + len(s.asked) for s in known)

    def client_at(self, peer: str) -> str | None:
        """The name among the tasks of the client of a connection."""
        session = self._by_peer.get(peer)
        return None if session is None else client_name(session.number)

    def who(self, session: int) -> str:
        """The client's description of itself, in a session."""
        known = self._sessions.get(session) or self._ending.get(session)
        return f"session {session}" if known is None else known.who

    def handle(self, event: ServerEvent, now: float) -> list[ServerInstruction]:
        """The instructions that follow from an event."""
        self._now, self._out = now, []
        _HANDLERS[event[0]](self, *event[1:])
        if self._soonest != self._wake:
            self._wake = self._soonest
            self._out.append(("wake", self._wake))
        if self.log is not None:
            self.log.append((now, event, tuple(self._out)))
        return self._out

    # --- events ---

    def _message(self, peer: str, role: str, message: AnyMessage, frames: list[Frame]) -> None:
        if role != "client":
            self._count("a message that tasks do not send")
        elif type(message) is Hello:
            self._hello(peer, message)
        else:
            request = _REQUESTS.get(type(message))
            if request is None:
                self._count("a message that clients do not send")
            else:
                self._of_session(request, peer, message, frames)

    def _malformed(self, peer: str, error: ErrorHead) -> None:
        self._count("a malformed message")
        session = self._by_peer.get(peer)
        if session is not None:  # later messages would have no place
            self._end(session, error)

    def _refused(self, peer: str) -> None:
        session = self._by_peer.get(peer)
        if session is not None:
            self._count("a client whose key was revoked")
            self._end(session, self._failure("the key of this client was revoked"))

    def _closed(self, peer: str) -> None:
        session = self._by_peer.get(peer)
        if session is not None:
            self._end(session, None)

    def _did(
        self, number: int, answers: int, results: Heads, frames: list[Frame],
        error: ErrorHead | None,
    ) -> None:  # fmt: skip
        session = self._sessions.get(number) or self._ending.get(number)
        partition = None
        if session is None or not session.ends_step(answers):
            if session is None or answers not in session.asked:
                raise ProtocolError(
                    "a request has ended that was not under way",
                    given=f"message {answers} of session {number}",
                )
            partition = session.asked.pop(answers)
        if session.number in self._ending:
            self._free_if_idle(session)
            return
        self._answer(session, answers, results, frames, error)
        if partition is not None:
            self._registered(session, partition, error)

    def _printed(self, number: int, lines: tuple[str, ...], left_out: int) -> None:
        session = self._sessions.get(number)
        if session is not None:
            told = Printed(session.next_number(), lines, left_out)
            self._out.append(("send", session.peer, told, []))

    def _said(self, lines: tuple[str, ...], left_out: int) -> None:
        """Forward stray lines, unless there are several clients: another may have caused them."""
        if len(self._sessions) == 1:
            (session,) = self._sessions.values()
            told = Printed(session.next_number(), lines, left_out, own=True)
            self._out.append(("send", session.peer, told, []))

    def _registered(self, session: Session, partition: int, error: ErrorHead | None) -> None:
        """Run, or fail, the steps that waited for a partition to be read."""
        waiting = session.partitions.pop(partition) or []
        if error is None:
            session.partitions[partition] = None
        for message, frames in waiting:
            if message.step not in session.steps:  # the step was aborted
                self._let_go(session, message)
            elif error is None:
                session.running.add(message.step)
                self._out.append(("do", session.number, message, frames))
            else:
                self._let_go(session, message)
                self._answer(session, session.steps.pop(message.step), error=error)

    def _let_go(self, session: Session, message: RunStep) -> None:
        """Free the values that a step was to free, although it does not run."""
        if message.free:
            self._out.append(("let go", session.number, message.free))

    def _tick(self) -> None:
        for session in [s for s in self._sessions.values() if s.lease <= self._now]:
            self._count("a lease that is over")
            self._end(
                session, self._failure(f"the client has sent nothing for {self._lease:g} seconds")
            )
        self._soonest = min((s.lease for s in self._sessions.values()), default=inf)

    # --- sessions ---

    def _hello(self, peer: str, message: Hello) -> None:
        error = self._refusal(peer, message)
        if error is not None:
            self._count("a greeting that was refused")
            self._out.append(("send", peer, Failed(1, 1, error), []))
            return
        session = Session(
            message.session, peer, message.attempt, message.who, self._now + self._lease
        )
        self._sessions[session.number] = self._by_peer[peer] = session
        self._soonest = min(self._soonest, session.lease)
        answer = Welcome(
            session.next_number(), self._versions, self._task, self._incarnation, self._devices,
            self._lease, self._allows,
        )  # fmt: skip
        self._out.append(("send", peer, answer, []))

    def _refusal(self, peer: str, message: Hello) -> ErrorHead | None:
        """The reason to refuse a greeting; None if the client may come in."""
        ours, theirs = self._versions, message.versions
        for field, what in (
            ("protocol", "the protocol"), ("graph_text", "the text form of graphs"),
            ("byte_order", "the order of bytes"),
        ):  # fmt: skip
            if getattr(ours, field) != getattr(theirs, field):
                return self._failure(
                    f"{what} differs",
                    given=f"{getattr(theirs, field)}, of eagerflow {theirs.eagerflow}",
                    expected=f"{getattr(ours, field)}, of eagerflow {ours.eagerflow} at"
                    f" {self._task}",
                    hint="install the same version of eagerflow on both sides",
                )
        if message.number != 1 or peer in self._by_peer:
            return self._failure("a greeting is the first message of a connection")
        if message.session in self._sessions or message.session in self._ending:
            return self._failure(f"session {message.session} is open already")
        if message.attempt <= self._over.get(message.session, -1):
            return self._failure(f"session {message.session} was greeted before")
        if len(self._sessions) >= self._limits.sessions:
            return self._failure(f"{self._task} has as many sessions as it takes")
        return None

    def _of_session(
        self, request: Callable[..., None], peer: str, message: Any, frames: list[Frame]
    ) -> None:
        """Take a message of a session, which has the next number, and ``request`` handles."""
        session = self._by_peer.get(peer)
        if session is None:
            self._count("a message of no session")
            self._unknown += 1
            if self._unknown <= self._limits.unknown:
                error = self._failure("there is no such session")
                self._out.append(("send", peer, Failed(1, message.number, error), []))
            return
        if message.number == session.came + 1:
            session.came += 1
            session.lease = self._now + self._lease
            request(self, session, message, frames)
        elif message.number <= session.came:
            self._count("a message that came before")
        else:
            self._count("a message after a gap")
            self._end(session, self._failure("messages were lost", given=f"{message.number}"))

    def _end(self, session: Session, error: ErrorHead | None) -> None:
        """End a session."""
        if error is not None:
            self._answer(session, 0, error=error)
        del self._sessions[session.number], self._by_peer[session.peer]
        self._over[session.number] = session.attempt
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        self._ending[session.number] = session
        name = client_name(session.number)
        if name in self._peers:
            self._out.append(("lost", name, self._peers.pop(name)))
        why = ErrorHead("CancelledError", f"the session of {session.who} is over", task=self._task)
        for step in session.running:
            self._out.append(("abort", session.number, step, why))
        session.steps = {k: v for k, v in session.steps.items() if k in session.running}
        session.partitions = {}
        self._out.append(("close", session.peer))
        self._free_if_idle(session)

    def _free_if_idle(self, session: Session) -> None:
        """Free the state of a session as soon as none of its requests is being carried out."""
        if not session.steps and not session.asked:
            del self._ending[session.number]
            self._out.append(("free", session.number))

    def _answer(
        self, session: Session, answers: int, results: Heads = (), frames: Sequence[Frame] = (),
        error: ErrorHead | None = None,
    ) -> None:  # fmt: skip
        session.told = number = session.told + 1
        if error is None:
            self._out.append(("send", session.peer, Done(number, answers, results), list(frames)))
        else:
            self._out.append(("send", session.peer, Failed(number, answers, error), []))

    # --- requests of clients ---

    def _peers_told(self, session: Session, message: Peers, frames: list[Frame]) -> None:
        refused = []
        for task, (address, incarnation, key) in message.tasks.items():
            known = self._peers.get(task, -1)
            if is_client(task) and task != client_name(session.number):
                self._count("a client that announced another client")
            elif task != self._task and incarnation > known:
                if not self._allows_peer(session.peer, task, address, key):
                    self._count("a task that is not on the list")
                    refused.append(f"{task} at {address}")
                    continue
                if known >= 0:
                    self._out.append(("lost", task, known))
                self._peers[task] = incarnation
                self._out.append(("connect", task, address, incarnation, key))
        error = None if not refused else ErrorHead(
            "AuthenticationError", f"{self._task} sends nothing to {', '.join(refused)}",
            expected="the address and the key in its own list, or its own directory",
            hint=f"copy the list of keys to the host of {self._task} again", task=self._task,
        )  # fmt: skip
        self._answer(session, message.number, error=error)

    def _ask(self, session: Session, message: Any, frames: list[Frame]) -> None:
        session.asked[message.number] = getattr(message, "partition", None)
        self._out.append(("do", session.number, message, frames))

    def _register(self, session: Session, message: Register, frames: list[Frame]) -> None:
        partition = message.partition
        error = None
        if partition in session.partitions:
            error = self._failure(f"partition {partition} was registered before")
        elif len(session.partitions) >= self._limits.partitions:
            error = self._failure(
                "too many partitions", expected=f"at most {self._limits.partitions}"
            )
        if error is not None:
            self._answer(session, message.number, error=error)
            return
        session.partitions[partition] = []
        self._ask(session, message, frames)

    def _release(self, session: Session, message: Release, frames: list[Frame]) -> None:
        waiting = session.partitions.get(message.partition, [])
        if waiting is None:
            del session.partitions[message.partition]
            self._out.append(("release", session.number, message.partition))
        error = None if waiting is None else self._failure("there is no such partition")
        self._answer(session, message.number, error=error)

    def _run(self, session: Session, message: RunStep, frames: list[Frame]) -> None:
        step = message.step
        error: ErrorHead | None = None
        if not session.begins(step):
            error = self._failure(f"step {step} is not the next one of its session")
        elif message.partition not in session.partitions:
            error = self._failure(
                f"there is no partition {message.partition}",
                hint="the task may have been restarted since it was registered",
            )
        elif len(session.steps) >= self._limits.steps:
            error = self._failure("too many steps", expected=f"at most {self._limits.steps}")
        elif session.aborts:
            error = session.aborts.pop(step, None)
        if error is not None:
            self._let_go(session, message)
            self._answer(session, message.number, error=error)
            return
        session.steps[step] = message.number
        waiting = session.partitions[message.partition]
        if waiting is None:
            session.running.add(step)
            self._out.append(("do", session.number, message, frames))
        else:
            waiting.append(Waiting(message, frames))

    def _abort(self, session: Session, message: Abort, frames: list[Frame]) -> None:
        step, error = message.step, message.error
        if step in session.running:
            self._out.append(("abort", session.number, step, error))
        elif step in session.steps:
            self._answer(session, session.steps.pop(step), error=error)
        elif session.owns(step) and not session.abort_later(step, error):  # it has ended
            self._out.append(("abort", session.number, step, error))

    def _renew(self, session: Session, message: Renew, frames: list[Frame]) -> None:
        self._answer(session, message.number)

    def _goodbye(self, session: Session, message: Goodbye, frames: list[Frame]) -> None:
        self._answer(session, message.number)
        self._end(session, None)

    # --- other tasks ---

    def wrong_of_packet(self, role: str, message: PacketMessage) -> str | None:
        """The reason to drop a packet of a connection; None if it is for the station."""
        if role != "task":
            return "a packet that no task has sent"
        if message.receiver != self._incarnation:
            return "a packet for an earlier incarnation"
        if message.incarnation != self._peers.get(message.sender):
            return "a packet of another incarnation"
        return None

    def _failure(
        self, wrong: str, *, given: str | None = None, expected: str | None = None,
        hint: str | None = None,
    ) -> ErrorHead:  # fmt: skip
        return ErrorHead("ProtocolError", wrong, given, expected, hint, task=self._task)

    def _count(self, what: str) -> None:
        self.counts[what] += 1
        self._out.append(("count", what))


_HANDLERS: Final[dict[str, Callable[..., None]]] = {
    "message": ServerMachine._message,
    "malformed": ServerMachine._malformed,
    "closed": ServerMachine._closed,
    "refused": ServerMachine._refused,
    "did": ServerMachine._did,
    "printed": ServerMachine._printed,
    "said": ServerMachine._said,
    "tick": ServerMachine._tick,
}
_REQUESTS: Final[dict[type, Callable[..., None]]] = {
    Peers: ServerMachine._peers_told,
    MakeVariable: ServerMachine._ask,
    MakeResource: ServerMachine._ask,
    Fetch: ServerMachine._ask,
    Eager: ServerMachine._ask,
    TaskLoad: ServerMachine._ask,
    Look: ServerMachine._ask,
    Register: ServerMachine._register,
    Release: ServerMachine._release,
    RunStep: ServerMachine._run,
    Abort: ServerMachine._abort,
    Renew: ServerMachine._renew,
    Goodbye: ServerMachine._goodbye,
}
