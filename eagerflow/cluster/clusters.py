"""`Cluster`: the task servers whose devices this process may use."""

from __future__ import annotations

import atexit
import html
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock, Thread
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, Literal, Self, final

from eagerflow.cluster.processes.client.connections import Connections
from eagerflow.cluster.processes.dask_provisioner import DaskProvisioner
from eagerflow.cluster.processes.existing_tasks import ExistingTasks
from eagerflow.cluster.processes.greeting import versions
from eagerflow.cluster.processes.keys import client_credentials
from eagerflow.cluster.processes.listening import (
    Doors,
    check_folder,
    checked_name,
    doors_at,
    doors_in,
    tasks_in,
)
from eagerflow.cluster.processes.local_provisioner import LocalProvisioner, Provisioner
from eagerflow.cluster.protocol.message_heads import ErrorHead
from eagerflow.cluster.protocol.messages import TaskLoad
from eagerflow.cluster.protocol.timeouts import (
    FIRST_RESTART_SECONDS,
    LOAD_ANSWER_SECONDS,
    LONGEST_RESTART_SECONDS,
    START_SECONDS,
)
from eagerflow.cluster.remote import moves as _moves  # noqa: F401 - how values go between tasks
from eagerflow.cluster.remote import steps as _steps  # noqa: F401 - how graphs run at tasks
from eagerflow.cluster.remote.task_devices import TaskDevices
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.cluster.remote.watched_tasks import WatchedTasks
from eagerflow.errors import (
    AuthenticationError,
    EagerflowError,
    ResourceError,
    TaskLost,
    TensorValueError,
)
from eagerflow.hardware.registry import remove_task
from eagerflow.watching.tasks.sources import task_sources

_TRANSPORTS: Final = ("ipc", "tcp", "plain tcp")
_JOBS: Final = "jobs such as {'ps': 2, 'worker': 2}"


@final
@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of a task.

    Attributes:
        task: its name.
        health: ``"ready"``, ``"suspect"`` (it does not answer) or ``"lost"``.
        devices: the names of its devices.
        pid: the id of its process; None if it was not started here.
        memory: bytes held by its process.
        processor: seconds of processor time used so far.
        values: number of values it holds, for this and other clients.
        variables: number of its variables.
        partitions: number of registered graphs.
        steps: number of steps in progress.
    """

    task: str
    health: str
    devices: tuple[str, ...]
    pid: int | None
    memory: int = 0
    processor: float = 0.0
    values: int = 0
    variables: int = 0
    partitions: int = 0
    steps: int = 0


@final
class Cluster:
    """Task servers whose devices this process can use (see `local` and `connect`).

    Ops in ``with ef.device("ps:0"):`` run in the process of that task, variables that are made
    there live there, and a traced function that uses several tasks is cut and runs on all of them.
    A cluster is a context manager; `close` ends it.

    Attributes:
        folder: the directory of the tasks' sockets, private to this user; None for ports.

    >>> with ef.cluster.local({"ps": 1, "worker": 1}) as cluster:
    ...     with ef.device("ps:0"):
    ...         w = ef.Variable([1.0, 2.0])
    ...     with ef.device("worker:0"):
    ...         y = w * 10
    ...     y, y.numpy()
    (Tensor(f32[2]@worker:0/cpu:0), array([10., 20.], dtype=float32))
    """

    def __init__(
        self, provisioner: Provisioner | ExistingTasks, names: Sequence[str], *, owned: bool
    ) -> None:
        self.folder: Final = provisioner.folder
        self._provisioner = provisioner
        self._owned = owned
        self._doors: dict[str, Doors] = {}
        self._lock = RLock()
        self._members: dict[str, TaskDevices] = {}
        self._connections: Connections | None = None
        self._watched: WatchedTasks | None = None
        atexit.register(self.close)
        try:
            self._doors |= provisioner.start(names)
            session = 1 + secrets.randbelow(2**31 - 1)
            version: str = sys.modules["eagerflow"].__version__
            self._connections = Connections(
                self._doors, provisioner.door, session, versions(version), provisioner.credentials
            )
            self._connections.on_lost = self._lost
            self._watched = WatchedTasks(self._connections, self._members)
            task_sources.add(self._watched)
            self._join(names)
            self._connections.notices.warn()
        except BaseException:
            self.close()
            raise

    # --- tasks ---

    @property
    def tasks(self) -> dict[str, TaskStatus]:
        """The status of each task, by name. Only tasks that are ready are queried."""
        connections = self._connections
        known = {}
        for task, member in self._members.items():
            health = "lost"
            if connections is not None and member.task.lost is None:
                health = connections.health(task)
            asked = None
            if connections is not None and health == "ready":
                asked = connections.ask(task, TaskLoad(0))
            known[task] = health, asked
        until = monotonic() + LOAD_ANSWER_SECONDS
        made = {}
        for task, (health, asked) in known.items():
            load: list[Any] = []
            if asked is not None and asked.wait(max(0.0, until - monotonic())):
                with suppress(TaskLost):
                    load = asked.results()[task]
            pid = self._provisioner.pid(task)
            made[task] = TaskStatus(task, health, self._members[task].names, pid, *load)
        return made

    @property
    def devices(self) -> list[str]:
        """The names of the devices of all its tasks."""
        return [name for member in self._members.values() for name in member.names]

    def add(self, task: str) -> None:
        """Start another task.

        Args:
            task: an unused name, such as ``"worker:2"``.

        Raises:
            ResourceError: the name is taken, or the tasks were not started here.
        """
        self._check_owned()
        checked_name(task)
        with self._lock:
            if task in self._members:
                raise ResourceError(f"there is a task {task} already", hint="restart it instead")
            self._open()
            self._start(task)
        self._open().notices.warn()

    def remove(self, task: str) -> None:
        """End a task; its values and variables are lost, and its devices are removed.

        Raises:
            ResourceError: there is no such task.
        """
        with self._lock:  # a restart of the task may be under way
            member = self._member(task)
            del self._members[task]
            member.task.lose(ErrorHead("TaskLost", f"{task} was removed", task=task))
            remove_task(task)
            self._provisioner.end(task)

    def restart(self, task: str) -> None:
        """Restart a task in a new process; the state of the old process is lost.

        Values of the old process raise `TaskLost` from now on. An assignment to one of its
        variables creates the variable anew.

        Raises:
            ResourceError: there is no such task, or it was not started here.
        """
        self._check_owned()
        self._restart(self._member(task))
        self._open().notices.warn()

    def _restart(self, member: TaskDevices) -> None:
        task = member.task.task
        why = ErrorHead(
            "TaskLost", f"{task} was restarted: the values it held are lost", member.task.held,
            hint="make it again, or restore it from a checkpoint", task=task,
        )  # fmt: skip
        with self._lock:
            if self._member(task) is not member:
                raise ResourceError(f"another task has taken the name {task} meanwhile")
            member.task.lose(why)
            self._provisioner.end(task)
            self._start(task)

    def _start(self, task: str) -> None:
        """Start a task and connect to it; a failure ends the process, as if it had died."""
        try:
            self._doors |= self._provisioner.start([task])
            self._join([task])
        except BaseException:
            self._provisioner.end(task)  # above all if the cluster was closed meanwhile
            raise

    def logs(self, task: str) -> str:
        """The output of a task's process so far, at most the last 10 MB.

        Raises:
            ResourceError: there is no such task, or it was not started here.
        """
        self._member(task)
        self._check_owned()
        return self._provisioner.log(task)

    def _join(self, names: Sequence[str]) -> None:
        connections = self._open()
        for name in names:
            connections.connect(name)
        missing = connections.wait_for(names, START_SECONDS)
        if missing:
            raise TaskLost(f"{', '.join(missing)} did not answer")
        for name in names:
            welcome = connections.tasks[name]
            task = RemoteTask(connections, name, welcome.allows)
            known = self._members.get(name)
            if known is None:
                self._members[name] = TaskDevices(task, welcome.devices)
            else:
                known.task = task

    def _lost(self, task: str) -> None:
        """Handle the loss of a task; called by the thread that owns the sockets."""
        known = self._members.get(task)
        if known is not None and known.task.lost is None:
            again = f'cluster.restart("{task}") starts it again'
            comes = "it is started again" if self._provisioner.restarts else again
            held = known.task.held
            self._open().notices.say(task, f"is lost, with all that it held; {comes}")
            known.task.lose(ErrorHead("TaskLost", f"{task} is lost", held, hint=comes, task=task))
            if self._provisioner.restarts:
                name = f"eagerflow-restart-{task}"
                Thread(target=self._revive, args=(task,), name=name, daemon=True).start()

    def _revive(self, task: str) -> None:
        """Restart a task that has died, and try again until its provisioner has room for it."""
        seconds = FIRST_RESTART_SECONDS
        while task in self._members:
            try:
                self._restart(self._member(task))
            except EagerflowError:  # for instance, there is no worker yet
                sleep(seconds)
                seconds = min(2 * seconds, LONGEST_RESTART_SECONDS)
            else:
                return

    def _member(self, task: str) -> TaskDevices:
        known = self._members.get(task)
        if known is None:
            raise ResourceError(
                f"there is no task {task!r}",
                expected=", ".join(self._members) or "an open cluster",
            )
        return known

    def _check_owned(self) -> None:
        if not self._owned:
            raise ResourceError(
                "the tasks of this cluster were not started here",
                hint="the program that started them starts, ends and logs them",
            )

    def _open(self) -> Connections:
        if self._connections is None:
            raise ResourceError("the cluster is closed")
        return self._connections

    # --- the end ---

    def close(self) -> None:
        """End the session, and the tasks that were started here. A second call does nothing."""
        atexit.unregister(self.close)
        why = "the cluster was closed"
        for name, member in self._members.items():
            member.task.lose(ErrorHead("TaskLost", f"{name}: {why}", task=name))
            remove_task(name)
        self._members.clear()
        if self._watched is not None:
            task_sources.remove(self._watched)
        if self._connections is not None:
            self._connections.close()
            self._connections.notices.show_lines()
            self._connections = None
        self._provisioner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    # --- display ---

    def __repr__(self) -> str:
        if self._connections is None:
            return "Cluster(closed)"
        health = {t: "lost" if one.task.lost else self._open().health(t)
                  for t, one in self._members.items()}  # fmt: skip
        tasks = [t if state == "ready" else f"{t} ({state})" for t, state in health.items()]
        return f"Cluster({', '.join(tasks)})"

    def _repr_html_(self) -> str:
        if self._connections is None:
            return "<p>Cluster, closed</p>"
        heads = ("task", "health", "devices", "process", "memory", "variables", "values", "steps")
        rows = [
            (one.task, one.health, ", ".join(one.devices), one.pid or "",
             f"{one.memory / 2**20:,.0f} MiB", one.variables, one.values, one.steps)
            for one in self.tasks.values()
        ]  # fmt: skip
        lines = ["".join(f"<th>{head}</th>" for head in heads)]
        lines += ["".join(f"<td>{html.escape(str(x))}</td>" for x in row) for row in rows]
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def local(
    jobs: Mapping[str, int], *, transport: Literal["ipc", "tcp", "plain tcp"] = "ipc",
    cpu_devices: int = 1,
) -> Cluster:  # fmt: skip
    """Start tasks as processes of this host, which end with this process.

    Args:
        jobs: number of tasks of each job.
        transport: the connection to the tasks: sockets in a new directory that only this user may
            enter (``"ipc"``), or on ports of the loopback interface, encrypted, with keys that are
            made for this cluster (``"tcp"``). With ``"plain tcp"`` every user of this host can use
                the tasks, and read and change the traffic: this mode exists for comparisons.
        cpu_devices: number of devices of each task, ``ps:0/cpu:0`` and so on. They share the
            processor's cores, as the devices of ``ef.config(cpu_devices=)`` do.

    Raises:
        TensorValueError: ``jobs`` names no tasks, or the tasks would have no device.
        TaskLost: a task has not come up.

    >>> with ef.cluster.local({"ps": 2}) as cluster:
    ...     cluster
    Cluster(ps:0, ps:1)
    """
    options = _device_options("local", cpu_devices)
    names = task_names("local", jobs)
    if transport not in _TRANSPORTS:
        raise TensorValueError(
            "local: there is no such transport", given=repr(transport),
            expected=", ".join(map(repr, _TRANSPORTS)),
        )  # fmt: skip
    return Cluster(LocalProvisioner(transport, options), names, owned=True)


def _device_options(function: str, cpu_devices: int) -> list[str]:
    """The options of ``eagerflow serve`` for that many devices; errors name ``function``."""
    if not isinstance(cpu_devices, int) or isinstance(cpu_devices, bool) or cpu_devices < 1:
        raise TensorValueError(
            f"{function}: wrong number of devices of a task", given=f"cpu_devices={cpu_devices!r}",
            expected="a positive int",
        )  # fmt: skip
    return ["--cpu-devices", str(cpu_devices)]


def on_dask(client: Any, jobs: Mapping[str, int], *, cpu_devices: int = 1) -> Cluster:
    """Start tasks on the workers of a Dask cluster; tasks that die are restarted.

    The state of a task that died is lost; a checkpoint brings it back.

    Args:
        client: a ``dask.distributed.Client``, whose scheduler is on this host or under TLS.
        jobs: number of tasks of each job.
        cpu_devices: number of devices of each task, as for `local`.

    Raises:
        AuthenticationError: traffic to the scheduler could be read and changed on the way.
        TensorValueError: ``jobs`` names no tasks, or the tasks would have no device.
        TaskLost: a task has not come up.
    """
    options = _device_options("on_dask", cpu_devices)
    return Cluster(DaskProvisioner(client, options), task_names("on_dask", jobs), owned=True)


def task_names(function: str, jobs: Mapping[str, int]) -> list[str]:
    """The names of the tasks of some jobs.

    Args:
        function: the public function called, for errors.
        jobs: number of tasks of each job.

    Raises:
        TensorValueError: ``jobs`` names no tasks.
    """
    if not isinstance(jobs, Mapping) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in jobs.values()
    ):
        raise TensorValueError(
            f"{function}: wrong numbers of tasks", given=repr(jobs), expected=_JOBS
        )
    names = [checked_name(f"{job}:{i}") for job, number in jobs.items() for i in range(number)]
    if not names:
        raise TensorValueError(f"{function}: there is no task", given=repr(jobs), expected=_JOBS)
    return names


def connect(
    target: str | os.PathLike[str] | Mapping[str, str], tasks: Sequence[str] | None = None, *,
    listen: str | None = None, plain_tcp: bool = False,
) -> Cluster:  # fmt: skip
    """Connect to tasks that were started with ``eagerflow serve``.

    Args:
        target: a connection file written by ``eagerflow keys``; the directory of the tasks'
            sockets, if the tasks are on this host; or the address of each task.
        tasks: their names; by default all.
        listen: the address at which this process listens for tasks on ports, such as
            ``"tcp://10.0.0.9:0"``; by default on the interface that reaches the first task.
        plain_tcp: whether addresses without keys are accepted: nothing is encrypted then, and
            whoever can reach the tasks can read and change the traffic.

    Raises:
        AuthenticationError: the file or the directory is not private to this user, a task has
            refused this client, or there are no keys.
        ResourceError: no task listens there.
        TaskLost: a task does not answer.
    """
    elsewhere, known = _elsewhere(target, listen, plain_tcp=plain_tcp)
    names = [checked_name(name) for name in (known if tasks is None else tasks)]
    if not names:
        raise ResourceError(
            f"no task listens in {target}", hint=f"eagerflow serve --task ps:0 --folder {target}"
        )
    for name in names:
        if name not in known:
            raise ResourceError(
                f"{target} has no task {name}", expected=", ".join(known) or "tasks"
            )
    return Cluster(elsewhere, names, owned=False)


def _elsewhere(
    target: str | os.PathLike[str] | Mapping[str, str], listen: str | None, *, plain_tcp: bool
) -> tuple[ExistingTasks, Mapping[str, Doors]]:
    """The tasks that ``target`` names, and their doors."""
    if isinstance(target, Mapping):
        if not plain_tcp:
            raise AuthenticationError(
                "tasks on ports need keys",
                given=f"{dict(target)}",
                hint="pass the connection file that eagerflow keys wrote, or plain_tcp=True, with"
                " which anyone on the network can read and change messages",
            )
        doors: Mapping[str, Doors] = {task: doors_at(where) for task, where in target.items()}
        return ExistingTasks(doors, listen=listen), doors
    path = Path(target)
    if path.is_dir():
        check_folder(path)
        path = path.resolve()  # as tasks know it
        doors = {task: doors_in(path, task) for task in tasks_in(path)}
        return ExistingTasks(doors, folder=path), doors
    credentials, doors = client_credentials(path)
    return ExistingTasks(doors, credentials=credentials, listen=listen), doors
