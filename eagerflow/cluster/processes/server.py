"""The process of a task server.

One thread owns the sockets, feeds events to the state machine, and carries out its actions: it
gives partitions to the pool to read, and begins steps. Work in other threads reports back by an
inbox and a bell.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import deque
from collections.abc import Callable
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import Any, Final, final

from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
from eagerflow.cluster.processes.greeting import versions
from eagerflow.cluster.processes.keys import CLIENT, Credentials
from eagerflow.cluster.processes.listening import Doors, check_folder, is_address, is_within
from eagerflow.cluster.processes.overheard_output import StrayLines, write_unheard
from eagerflow.cluster.processes.request_handling import TaskWork, failure_of
from eagerflow.cluster.processes.server_grants import ServerGrants
from eagerflow.cluster.processes.shared_memory.slabs import Slabs, framed, unslabbed
from eagerflow.cluster.processes.sockets import Received, ServerSockets
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.message_heads import STEPS, is_client
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import (
    AnyMessage,
    Failed,
    PacketMessage,
    SlabMessage,
    Welcome,
)
from eagerflow.cluster.protocol.packets import read_packet, write_packet
from eagerflow.cluster.protocol.timeouts import REVOKED_SECONDS
from eagerflow.cluster.protocol.values import Frame
from eagerflow.cluster.state_machines.server import ServerMachine
from eagerflow.errors import AuthenticationError, EagerflowError
from eagerflow.hardware import devices
from eagerflow.hardware.freed_memory import FreedMemory
from eagerflow.hardware.registry import name_device
from eagerflow.resources.containers import PROCESS
from eagerflow.runtime.rendezvous.packets import Packet
from eagerflow.runtime.rendezvous.station import Station

#: the byte that tells a task to end
STOP: Final = b"."
#: number of lines that a process writes into its log
_LINES: Final = 100_000


@final
class _Jobs:
    """Jobs for the thread that owns the sockets.

    Args:
        ring: wakes that thread.

    Attributes:
        owner: the id of that thread.
        waiting: jobs not run yet.
    """

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self.waiting: Final[deque[Callable[[], object]]] = deque()
        self.owner = 0

    def submit(self, job: Callable[[], object], /) -> None:
        """Run a job soon; from any thread."""
        self.waiting.append(job)
        if get_ident() != self.owner:
            self._ring()

    def run_here(self, job: Callable[..., object], /, *inputs: Any) -> None:
        """Run a job now, or soon if the caller is another thread."""
        if get_ident() == self.owner:
            job(*inputs)
        else:
            self.submit(partial(job, *inputs))


@final
class TaskServer:
    """A task, in this process.

    Args:
        task: its name, such as ``"ps:0"``.
        doors: the addresses at which it listens.
        version: the version of eagerflow.
        credentials: its key pair and allow-list; needed on ports, unless ``plain``.
        plain: whether everybody who reaches its ports is let in, and nothing is encrypted.
        grants: files and functions that ops may reach besides values and state; none by default.
        limits: limits on messages.
        freed: the memory that the process keeps; None if it keeps none.

    Attributes:
        doors: the addresses at which it listens, with the ports that it has got.
        hears: takes output printed outside of functions that the task calls for clients.

    Raises:
        AuthenticationError: others could use the task.
    """

    def __init__(
        self, task: str, doors: Doors, version: str, credentials: Credentials | None = None, *,
        plain: bool = False, grants: ServerGrants | None = None, limits: Limits = LIMITS,
        freed: FreedMemory | None = None,
    ) -> None:  # fmt: skip
        self._folder = _folder_of(doors)
        if self._folder is not None:
            check_folder(self._folder)
        elif credentials is None and not plain:
            raise AuthenticationError(
                f"{task} has no keys, so any process that reaches {doors.client} could use it",
                hint="eagerflow keys makes some",
            )
        grants = grants or ServerGrants()
        PROCESS.begin(task)
        self._task = task
        self._limits = limits
        self._lines = 0
        self._freed = freed
        self._look_at = inf if freed is None else 0.0
        self._credentials = credentials
        self._users: dict[str, str] = {}
        self._clients: dict[str, str] = {}
        stray = StrayLines(self._said)
        self.hears: Final = stray.hear
        self._sockets: Final = ServerSockets(doors, limits, credentials, self._warn)
        self.doors: Final = self._sockets.doors
        self._slabs: Final = Slabs(
            self.doors, limits, self._warn, reads_in_place=True, moves_variables=True
        )
        known = AnnouncedDevices(task)
        self._machine = ServerMachine(
            task, PROCESS.incarnation, versions(version), known.names, limits,
            allows=grants.allows, allows_peer=self._allows_peer,
        )  # fmt: skip
        self._station = Station(task, self._end_of, self._put, self._ring)
        for device in devices("cpu"):
            name_device(f"{task}/{device}", device)
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._jobs = _Jobs(self._sockets.bell.ring)
        self._work = TaskWork(
            task, self._station, self._did, self._jobs, limits, grants, self._machine.who,
            known, self._printed,
        )  # fmt: skip
        self._packets: list[tuple[str, Packet]] = []
        self._asked = False  # whether the station has been asked for something
        self._peers: dict[str, int] = {}
        self._wake = float("inf")
        self._over = False
        self._follow: dict[str, Callable[..., object]] = {
            "send": self._send, "do": self._work.do,
            "wake": self._wake_at, "connect": self._connect, "lost": self._forget,
            "abort": self._work.abort, "free": self._free, "release": self._work.release,
            "count": self._count, "let go": self._work.let_go,
        }  # fmt: skip
        safe = "" if not plain else ", to everybody"
        self._log(f"{task} listens at {self.doors.client}{safe}, process {os.getpid()}")

    def serve(self, parent: int | None = None, left: Path | None = None) -> None:
        """Serve until `stop`.

        Args:
            parent: a descriptor by which the parent process sends `STOP`. The end of the file
                is the end of that process.
            left: a directory of the parent, removed if the parent ended without `STOP`.
        """
        if parent is not None:
            self._sockets.watch(parent)
        wake = 0.0
        self._jobs.owner = get_ident()
        try:
            while not self._over:
                if self._credentials is not None:
                    wake = min(wake, monotonic() + REVOKED_SECONDS)
                self._sockets.wait(wake)
                self._station.now = now = monotonic()
                for received in self._sockets.receive():
                    self._take(received)
                if self._credentials is not None:
                    for received in self._sockets.revoked():
                        self._take(received)
                if self._wake <= now:
                    self._handle(("tick",))
                if self._slabs.due <= now or self._look_at <= now:
                    self._let_go(now)
                wake = min(self._settle(), self._wake, self._slabs.due, self._look_at)
                if parent is not None and parent in self._sockets.ready:
                    self._follow_parent(parent, left)
                    return
        finally:
            self._sockets.close()
            self._slabs.close()

    def _follow_parent(self, parent: int, left: Path | None) -> None:
        """End as the parent process has said, or as it has ended."""
        if os.read(parent, 1) != STOP and left is not None:
            shutil.rmtree(left, ignore_errors=True)

    def _let_go(self, now: float) -> None:
        """Let go of memory that is not used any more."""
        if self._slabs.due <= now:
            self._slabs.settle(now)
        if self._freed is not None and self._look_at <= now:
            self._look_at = self._freed.look(now)

    def _settle(self) -> float:
        """Handle events until none is left; gives the time at which the station wakes."""
        due = True  # packets, or something that the station has to send again
        jobs = self._jobs.waiting
        while due or jobs or self._inbox:
            while jobs:
                jobs.popleft()()
            while self._inbox:
                self._handle(self._inbox.popleft())
            if due or self._asked:
                packets, self._packets = self._packets, []
                self._station.work(self._station.now, packets)
                self._asked = due = False  # other threads that ask ring the bell
        return self._station.soonest

    def stop(self) -> None:
        """End `serve`; from any thread."""
        self._over = True
        self._sockets.bell.ring()

    # --- from any thread ---

    def _ring(self) -> None:
        """Have the station work; the owning thread does so before it waits again."""
        self._asked = True
        if get_ident() != self._jobs.owner:
            self._sockets.bell.ring()

    def _did(self, *what: Any) -> None:
        session, number, results, frames, error = what
        self._inbox.append(("did", session, number, results, list(frames), error))
        if get_ident() != self._jobs.owner:
            self._sockets.bell.ring()

    def _printed(self, *what: Any) -> None:
        self._inbox.append(("printed", *what))
        if get_ident() != self._jobs.owner:
            self._sockets.bell.ring()

    def _said(self, *what: Any) -> None:
        self._inbox.append(("said", *what))
        if get_ident() != self._jobs.owner:
            self._sockets.bell.ring()

    # --- incoming messages ---

    def _take(self, received: Received) -> None:
        if received.kind != "frames":
            self._handle((received.kind, received.peer))
            self._users.pop(received.peer, None)
            return
        try:  # as `unframed`, which would be one call more
            message, frames = codec.read(received.frames, self._limits)
            if type(message) is SlabMessage:
                message, frames = unslabbed(self._slabs, message, frames, self._limits)
        except EagerflowError as error:
            self._handle(("malformed", received.peer, failure_of(error)))
            return
        if type(message) is PacketMessage:
            self._packet(received, message, frames)
            return
        if self._credentials is not None:
            self._users[received.peer] = received.user
        self._handle(("message", received.peer, received.role, message, frames))

    def _log(self, text: str) -> None:
        """Write a line into the log, up to a limit of lines."""
        self._lines += 1
        if self._lines <= _LINES:
            write_unheard(sys.stderr, f"{datetime.now():%Y-%m-%d %H:%M:%S.%f} {text}\n")

    def _warn(self, text: str) -> None:
        """Write a line that clients should see as well."""
        self._log(text)
        self.hears(f"{text}\n")

    def _handle(self, event: tuple[Any, ...]) -> None:
        for kind, *what in self._machine.handle(event, self._station.now):
            follow = self._follow.get(kind)
            if follow is not None:
                follow(*what)

    def _send(self, peer: str, message: AnyMessage, frames: list[Frame]) -> None:
        if type(message) is Welcome:
            self._log(f"a session begins, by connection {peer}")
        elif type(message) is Failed and not message.error.op:
            self._log(f"told {peer}: {message.error.kind}: {message.error.wrong}")
        name = self._machine.client_at(peer) if frames else None
        self._sockets.send(peer, framed(self._slabs, name, message, frames))

    def _wake_at(self, time: float) -> None:
        self._wake = time

    def _allows_peer(self, peer: str, task: str, where: str, key: str) -> bool:
        """Whether a client may claim that a task listens there: a server connects nowhere else."""
        if self._folder is not None:
            return is_within(where, self._folder) and not key
        if not is_address(where):
            return False
        if self._credentials is None:
            return True
        user = self._users.get(peer, "")
        self._credentials.allowed.refresh()  # a task is put on the list just before it is started
        allowed = self._credentials.allowed.allows_peer(task, Doors("", where, key), user)
        if allowed and is_client(task):
            self._clients[task] = user
        return allowed

    def _may_send(self, user: str, sender: str) -> bool:
        """Whether a user may send packets under a name."""
        return (self._clients.get(sender) if user.startswith(CLIENT) else sender) == user

    def _connect(self, task: str, where: str, incarnation: int, key: str) -> None:
        self._peers[task] = incarnation
        doors = Doors("", where, key)
        self._sockets.tasks.connect(task, doors)
        self._slabs.connect(task, doors)

    def _forget(self, task: str, incarnation: int) -> None:
        self._station.forget(task)
        self._sockets.tasks.forget(task)
        self._slabs.forget(task)
        self._clients.pop(task, None)

    def _free(self, session: int) -> None:
        self._log(f"session {session} is over")
        self._work.free(session)
        self._station.forget_steps(range(session * STEPS, (session + 1) * STEPS))

    def _count(self, what: str) -> None:
        self._warn(f"{what} was refused or dropped")

    def _packet(self, received: Received, message: PacketMessage, frames: list[Frame]) -> None:
        """Take a packet for the station, if it may come by this connection."""
        wrong = self._machine.wrong_of_packet(received.role, message)
        if self._credentials is not None and not self._may_send(received.user, message.sender):
            wrong = "a packet in the name of another task"
        if wrong is not None:
            self._machine.counts[wrong] += 1
            self._count(wrong)
            return
        try:
            packet = read_packet(message, frames)
        except EagerflowError:
            self._machine.counts["a malformed packet"] += 1
            return
        self._packets.append((message.sender, packet))

    # --- packets to other tasks ---

    def _end_of(self, device: str) -> str:
        return device.rpartition("/")[0] or self._task

    def _put(self, end: str, packet: Packet) -> None:
        message, frames = write_packet(
            packet, self._task, PROCESS.incarnation, self._peers.get(end, 0)
        )  # fmt: skip
        self._sockets.tasks.send(end, framed(self._slabs, end, message, frames))


def _folder_of(doors: Doors) -> Path | None:
    """The directory of sockets that are files; None for ports."""
    if not doors.client.startswith("ipc://"):
        return None
    return Path(doors.client.removeprefix("ipc://")).parent
