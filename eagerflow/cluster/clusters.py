"""`Cluster`: tasks that this process may use, as devices."""

from __future__ import annotations

import atexit
import html
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, final

from eagerflow.cluster.processes.client import Connections
from eagerflow.cluster.processes.local import TaskProcess, log_of
from eagerflow.cluster.processes.sockets import check_folder, tasks_in
from eagerflow.cluster.processes.versions import versions
from eagerflow.cluster.protocol.messages import ErrorHead, TaskLoad
from eagerflow.cluster.remote import steps as _steps  # noqa: F401 - how graphs run at tasks
from eagerflow.cluster.remote.backend import RemoteBackend
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.errors import ResourceError, TaskLost, TensorValueError
from eagerflow.hardware.registry import add_task, remove_task

#: seconds in which processes have to come up
_START: Final = 60.0
#: seconds in which a task has to say how busy it is
_ASKED: Final = 1.0
#: bytes of a log that are shown
_LOG: Final = 10 << 20
_JOBS: Final = "jobs such as {'ps': 2, 'worker': 2}"


@final
@dataclass(frozen=True, slots=True)
class TaskStatus:
    """What is known of a task.

    Attributes:
        task: its name.
        health: ``"ready"``, ``"suspect"`` (it does not answer) or ``"lost"``.
        devices: the names of its devices.
        pid: of its process; None if that was not started here.
        memory: bytes that its process holds.
        processor: seconds of a processor that it has used.
        values: how many values it holds for this and other clients.
        variables: how many variables.
        partitions: how many graphs were registered.
        steps: how many steps run.
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
    """Task servers, whose devices this process can use (see `local` and `connect`).

    Ops in ``with ef.device("ps:0"):`` run in the process of that task, variables that are made
    there live there, and a traced function that uses several tasks is cut and runs on all of them.
    A cluster is a context manager; `close` ends it.

    Attributes:
        folder: where its tasks listen, for this user alone.

    >>> with ef.cluster.local({"ps": 1, "worker": 1}) as cluster:
    ...     with ef.device("ps:0"):
    ...         w = ef.Variable([1.0, 2.0])
    ...     with ef.device("worker:0"):
    ...         y = w * 10
    ...     y, y.numpy()
    (Tensor(f32[2]@worker:0/cpu:0), array([10., 20.], dtype=float32))
    """

    def __init__(self, folder: Path, *, owned: bool, names: Sequence[str] = ()) -> None:
        self.folder: Final = folder
        self._owned = owned
        self._processes: dict[str, TaskProcess] = {}
        self._backends: dict[str, RemoteBackend] = {}
        self._connections: Connections | None = None
        atexit.register(self.close)
        try:
            check_folder(folder)
            self._start(names if owned else ())
            session = 1 + secrets.randbelow(2**31 - 1)
            version: str = sys.modules["eagerflow"].__version__
            self._connections = Connections(folder, session, versions(version))
            self._connections.on_lost = self._lost
            self._join(names)
        except BaseException:
            self.close()
            raise

    # --- tasks ---

    @property
    def tasks(self) -> dict[str, TaskStatus]:
        """What is known of each task, by its name. Those that are ready are asked."""
        connections = self._connections
        known = {}
        for task, backend in self._backends.items():
            health = "lost"
            if connections is not None and backend.task.lost is None:
                health = connections.health(task)
            asked = None
            if connections is not None and health == "ready":
                asked = connections.ask(task, TaskLoad(0))
            known[task] = health, asked
        until = monotonic() + _ASKED
        made = {}
        for task, (health, asked) in known.items():
            load: list[Any] = []
            if asked is not None and asked.wait(max(0.0, until - monotonic())):
                with suppress(TaskLost):
                    load = asked.results()[task]
            process = self._processes.get(task)
            pid = None if process is None else process.pid
            made[task] = TaskStatus(task, health, (f"{task}/cpu:0",), pid, *load)
        return made

    def add(self, task: str) -> None:
        """Start one more task.

        Args:
            task: a name that no task has, such as ``"worker:2"``.

        Raises:
            ResourceError: there is one of that name, or the tasks were not started here.
        """
        self._check_owned()
        if task in self._backends:
            raise ResourceError(f"there is a task {task} already", hint="restart it instead")
        _checked_name(task)
        self._start([task])
        self._join([task])

    def remove(self, task: str) -> None:
        """End a task; what it held is lost, and its devices are no more.

        Raises:
            ResourceError: there is no such task.
        """
        backend = self._backend(task)
        process = self._processes.pop(task, None)
        del self._backends[task]
        backend.task.lose(ErrorHead("TaskLost", f"{task} was removed", task=task))
        remove_task(task)
        if process is not None:
            process.end()

    def restart(self, task: str) -> None:
        """Start a task again, in a new process; what the old one held is lost.

        Values that were there raise a `TaskLost` from now on. An assignment to a variable that was
        there makes it anew.

        Raises:
            ResourceError: there is no such task, or it was not started here.
        """
        backend = self._backend(task)
        self._check_owned()
        why = ErrorHead(
            "TaskLost", f"{task} was started anew: what it held is lost", task=task,
            hint="make it again, or bring back what a checkpoint has",
        )  # fmt: skip
        backend.task.lose(why)
        self._processes.pop(task).end()
        self._start([task])
        self._join([task])

    def logs(self, task: str) -> str:
        """What the process of a task has told so far, at most the last 10 MB.

        Raises:
            ResourceError: there is no such task, or it was not started here.
        """
        self._backend(task)
        self._check_owned()
        path = log_of(self.folder, task)
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG))
            return file.read().decode(errors="replace")

    def _start(self, names: Sequence[str]) -> None:
        until = monotonic() + _START
        for name in names:
            self._processes[name] = TaskProcess(name, self.folder)
        for name in names:
            self._processes[name].wait_until_ready(until)

    def _join(self, names: Sequence[str]) -> None:
        connections = self._open()
        for name in names:
            connections.connect(name)
        missing = connections.wait_for(names, _START)
        if missing:
            raise TaskLost(f"{', '.join(missing)} did not answer")
        for name in names:
            task = RemoteTask(connections, name, f"{name}/cpu:0")
            known = self._backends.get(name)
            if known is not None:
                known.task = task
                continue
            backend = RemoteBackend(task)
            (backend.device,) = add_task(name, [("cpu", 0)], backend)
            self._backends[name] = backend

    def _lost(self, task: str) -> None:
        """A task is gone; called by the thread that owns the sockets."""
        known = self._backends.get(task)
        if known is not None:
            known.task.lose(ErrorHead("TaskLost", f"{task} is lost", task=task,
                                      hint="cluster.restart starts it again"))  # fmt: skip

    def _backend(self, task: str) -> RemoteBackend:
        known = self._backends.get(task)
        if known is None:
            raise ResourceError(
                f"there is no task {task!r}",
                expected=", ".join(self._backends) or "an open cluster",
            )
        return known

    def _check_owned(self) -> None:
        if not self._owned:
            raise ResourceError(
                "the tasks of this cluster were not started here",
                hint="whoever has started them starts, ends and logs them",
            )

    def _open(self) -> Connections:
        if self._connections is None:
            raise ResourceError("the cluster is closed")
        return self._connections

    # --- the end ---

    def close(self) -> None:
        """End the session, and the tasks that were started here. It can be done again."""
        atexit.unregister(self.close)
        why = "the cluster was closed"
        for name, backend in self._backends.items():
            backend.task.lose(ErrorHead("TaskLost", f"{name}: {why}", task=name))
            remove_task(name)
        self._backends.clear()
        if self._connections is not None:
            self._connections.close()
            self._connections = None
        for process in self._processes.values():
            process.ask_to_end()
        for process in self._processes.values():
            process.end()
        self._processes.clear()
        if self._owned:
            shutil.rmtree(self.folder, ignore_errors=True)

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
        health = {t: "lost" if b.task.lost else self._open().health(t)
                  for t, b in self._backends.items()}  # fmt: skip
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


def local(jobs: Mapping[str, int]) -> Cluster:
    """Start tasks as processes of this host, which end with this one.

    They listen in a new directory that only this user may enter.

    Args:
        jobs: how many tasks each job has.

    Raises:
        TensorValueError: this names no tasks.
        TaskLost: one has not come up.

    >>> with ef.cluster.local({"ps": 2}) as cluster:
    ...     cluster
    Cluster(ps:0, ps:1)
    """
    if not isinstance(jobs, Mapping) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in jobs.values()
    ):
        raise TensorValueError("local: how many tasks?", given=repr(jobs), expected=_JOBS)
    names = [_checked_name(f"{job}:{i}") for job, number in jobs.items() for i in range(number)]
    if not names:
        raise TensorValueError("local: there is no task", given=repr(jobs), expected=_JOBS)
    return Cluster(Path(tempfile.mkdtemp(prefix="eagerflow-")), owned=True, names=names)


def connect(folder: str | os.PathLike[str], tasks: Sequence[str] | None = None) -> Cluster:
    """Use tasks that somebody has started with ``eagerflow serve --folder``.

    Args:
        folder: where they listen; of this user, with mode 0700.
        tasks: their names; by default those of all that listen there.

    Raises:
        AuthenticationError: others may enter the directory.
        ResourceError: no task listens there.
        TaskLost: one does not answer.
    """
    path = Path(folder)
    check_folder(path)
    names = tasks_in(path) if tasks is None else list(tasks)
    if not names:
        raise ResourceError(
            f"no task listens in {path}", hint=f"eagerflow serve --task ps:0 --folder {path}"
        )
    return Cluster(path, owned=False, names=[_checked_name(name) for name in names])


def _checked_name(task: str) -> str:
    job, _, number = task.partition(":")
    if not job.isidentifier() or not job.isascii() or not number.isdecimal():
        raise TensorValueError(
            f"{task!r} names no task", expected="a job and a number, such as 'ps:0'"
        )
    return task
