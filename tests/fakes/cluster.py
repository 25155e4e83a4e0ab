"""A cluster without processes: servers, clients and ordered connections on a simulated clock.

All choices are drawn from a seed. Work of a server ends after a while, well or not; messages go
through the codec. A connection keeps the order of messages until it is closed.
"""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final, final

from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.failures import write_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, Head, NumberHead, step_number
from eagerflow.cluster.protocol.messages import RunStep, Versions
from eagerflow.cluster.state_machines.client import ClientMachine
from eagerflow.cluster.state_machines.server import ServerMachine
from eagerflow.errors import EagerflowError

VERSIONS: Final = Versions(1, 2, "little", "0.1", "portable", "3.11", "2.4")


@final
class FakeTask:
    """A process with a server, which may be killed and started again.

    Attributes:
        machine: its server.
        incarnation: the incarnation of the process.
        running: the number of the message that began a step, by session and step.
        freed: the sessions that were freed.
    """

    def __init__(self, name: str, incarnation: int, lease: float) -> None:
        self.incarnation = incarnation
        self.machine = ServerMachine(
            name, incarnation, VERSIONS, ("cpu:0",), lease=lease, log=True
        )  # fmt: skip
        self.running: dict[tuple[int, int], int] = {}
        self.freed: list[int] = []


@final
class FakeCluster:
    """Tasks and clients, the connections between them, and a clock.

    Args:
        seed: draws durations, and which work fails.
        tasks: the names of the tasks.
        sessions: the sessions, one for each client.
        failing: the share of work that fails.
        lease: of the servers, in seconds.
        stuck: the share of steps that end only when they are aborted.

    Attributes:
        now: the current time.
        tasks: running tasks by name.
        clients: clients by session.
        answers: the answers to each request of each client.
        told: counts of all other events that clients reported.
        errors: errors of failed messages that are not ours.
        wires: by client and task: the number of the open connection.
        sent: all messages that clients have sent, by connection, as bytes.
    """

    def __init__(
        self, seed: int, tasks: tuple[str, ...], sessions: tuple[int, ...] = (77,), *,
        failing: float = 0.0, lease: float = 30.0, stuck: float = 0.0,
    ) -> None:  # fmt: skip
        self.now = 0.0
        self.names = tasks
        self.tasks: dict[str, FakeTask] = {}
        self.clients = {s: ClientMachine(s, VERSIONS, f"client {s}", log=True) for s in sessions}
        self.answers: dict[tuple[int, Any], list[tuple[Any, ...]]] = {}
        self.told: Counter[tuple[Any, ...]] = Counter()
        self.wires: dict[tuple[int, str], int] = {}
        self.sent: dict[int, list[list[bytes]]] = {}
        self._random = random.Random(seed)
        self._failing, self._lease, self._stuck = failing, lease, stuck
        self._serial, self._connections, self._incarnations = count(), count(1), count(1)
        self._steps = dict.fromkeys(sessions, 0)
        self._due: list[tuple[float, int, Any]] = []
        self._last: dict[Any, float] = {}  # of each direction of a connection
        self._wakes: dict[Any, float] = {}
        self._frozen: dict[
            str, list[Any]
        ] = {}  # for each stopped process, the events since it stopped
        for name in tasks:
            self.start(name)
        for session in sessions:
            for name in tasks:
                self.connect(session, name)

    # --- faults ---

    def start(self, name: str) -> None:
        self.tasks[name] = FakeTask(name, next(self._incarnations), self._lease)

    def kill(self, name: str) -> None:
        """The process of a task ends: its connections close a while later."""
        self._frozen.pop(name, None)
        if self.tasks.pop(name, None) is not None:
            self._wakes.pop(name, None)
            for (session, task), wire in list(self.wires.items()):
                if task == name:
                    self._later(lambda s=session, w=wire: self._cut_client(s, name, w))

    def connect(self, session: int, name: str) -> None:
        wire = self.wires[session, name] = next(self._connections)
        self.sent[wire] = []
        self._tell_client(session, ("connect", name))

    def cut(self, session: int, name: str) -> None:
        """A connection closes, at both ends, at different times."""
        wire, task = self.wires[session, name], self.tasks.get(name)
        self._later(lambda: self._cut_client(session, name, wire))
        self._later(lambda: self._tell_server(name, task, ("closed", str(wire))))

    def freeze(self, name: str) -> None:
        """The process of a task stops, and the clients hear that it does not answer."""
        self._frozen.setdefault(name, [])
        for session in self.clients:
            self._tell_client(session, ("silent", name))

    def thaw(self, name: str) -> None:
        """A stopped process continues, with the events that came meanwhile."""
        for task, event in self._frozen.pop(name, []):
            self._tell_server(name, task, event)

    def leave(self, session: int) -> None:
        """The process of a client ends."""
        del self.clients[session]
        self._wakes.pop(session, None)
        for name in self.names:
            wire, task = self.wires.pop((session, name), 0), self.tasks.get(name)
            self._later(lambda n=name, t=task, w=wire: self._tell_server(n, t, ("closed", str(w))))

    def replay(self, name: str, wire: int, frames: list[bytes]) -> None:
        """An attacker sends a client's earlier message again."""
        task = self.tasks.get(name)
        if task is not None:
            message, rest = codec.read(frames)
            self._tell_server(name, task, ("message", str(wire), "client", message, rest))

    def next_step(self, session: int) -> int:
        self._steps[session] += 1
        return step_number(session, self._steps[session])

    def ask(self, session: int, request: Any, *event: Any) -> None:
        self.answers[session, request] = []
        self._tell_client(session, event)

    # --- delivery of events ---

    def _tell_client(self, session: int, event: tuple[Any, ...]) -> None:
        client = self.clients.get(session)
        if client is None:
            return
        for instruction in client.handle(event, self.now):
            kind, *rest = instruction
            if kind == "send":
                task, message, frames = rest
                self._to_server(session, task, codec.write(message, frames))
            elif kind == "wake":
                self._wakes[session] = rest[0]
            elif kind in ("done", "failed"):
                self.answers[session, rest[0]].append(instruction)
            elif kind == "close":
                self._cut_server(session, rest[0])
            else:
                self.told[kind, session, rest[0]] += 1

    def _tell_server(self, name: str, task: FakeTask | None, event: tuple[Any, ...]) -> None:
        if task is None or self.tasks.get(name) is not task:
            return
        if name in self._frozen:
            self._frozen[name].append((task, event))
            return
        for kind, *rest in task.machine.handle(event, self.now):
            if kind == "send":
                peer, message, frames = rest
                self._to_client(name, peer, codec.write(message, frames))
            elif kind == "wake":
                self._wakes[name] = rest[0]
            elif kind == "do":
                self._do(name, task, *rest)
            elif kind == "abort":
                self._stop(name, task, *rest)
            elif kind == "free":
                task.freed.append(rest[0])

    def _to_server(self, session: int, name: str, frames: list[Any]) -> None:
        wire, task = self.wires[session, name], self.tasks.get(name)
        data = [bytes(frame) for frame in frames]
        self.sent[wire].append(data)

        def arrive() -> None:
            message, rest = codec.read(data)
            self._tell_server(name, task, ("message", str(wire), "client", message, rest))

        self._later(arrive, (wire, "up"))

    def _to_client(self, name: str, peer: str, frames: list[Any]) -> None:
        data = [bytes(frame) for frame in frames]

        def arrive() -> None:
            for (session, task), wire in self.wires.items():
                if str(wire) == peer and task == name:
                    message, rest = codec.read(data)
                    self._tell_client(session, ("message", name, message, rest))
                    return

        self._later(arrive, (peer, "down"))

    def _cut_client(self, session: int, name: str, wire: int) -> None:
        if self.wires.get((session, name)) == wire:
            self._tell_client(session, ("closed", name))

    def _cut_server(self, session: int, name: str) -> None:
        wire, task = self.wires[session, name], self.tasks.get(name)
        self._later(lambda: self._tell_server(name, task, ("closed", str(wire))), (wire, "up"))

    # --- work of servers ---

    def _do(self, name: str, task: FakeTask, session: int, message: Any, frames: Any) -> None:
        failure: ErrorHead | None = None
        results: tuple[Head, ...] = ()
        if self._random.random() < self._failing:
            failure = write_error(EagerflowError(f"{name} has failed", source="here"))
        if isinstance(message, RunStep):
            task.running[session, message.step] = message.number
            results = (NumberHead(message.partition), *message.feeds)
            if failure is None and self._random.random() < self._stuck:
                return
        end = ("did", session, message.number, results, [], failure)
        self._later(lambda: self._ended(name, task, session, message, end))

    def _ended(
        self, name: str, task: FakeTask, session: int, message: Any, event: tuple[Any, ...]
    ) -> None:
        if isinstance(message, RunStep):
            if (session, message.step) not in task.running:
                return  # the step was aborted
            del task.running[session, message.step]
        self._tell_server(name, task, event)

    def _stop(self, name: str, task: FakeTask, session: int, step: int, error: Any) -> None:
        number = task.running.pop((session, step), None)
        if number is not None:
            event = ("did", session, number, (), [], error)
            self._later(lambda: self._tell_server(name, task, event))

    # --- time ---

    def _later(self, work: Any, order: Any = None) -> None:
        time = self.now + self._random.random()
        if order is not None:
            time = self._last[order] = max(time, self._last.get(order, 0.0))
        heappush(self._due, (time, next(self._serial), work))

    def step(self, until: float = inf) -> bool:
        """Do the next thing due by ``until``; whether there was one."""
        wake = min(self._wakes.values(), default=inf)
        if self._due and self._due[0][0] <= min(wake, until):
            self.now, _, work = heappop(self._due)
            work()
            return True
        if wake > until or wake == inf:
            return False
        self.now = max(wake, self.now)
        for who in [who for who, time in self._wakes.items() if time <= self.now]:
            self._wakes[who] = inf  # else the same wake-up time again would count as unchanged
            if isinstance(who, str):
                self._tell_server(who, self.tasks.get(who), ("tick",))
            else:
                self._tell_client(who, ("tick",))
        return True

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.step(end):
            pass
        self.now = end
