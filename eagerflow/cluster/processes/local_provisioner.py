"""Task servers as child processes on this host."""

from __future__ import annotations

import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, Protocol, final

from eagerflow.cluster.processes.keys import (
    AllowedKeys,
    AllowList,
    Credentials,
    KeyFolder,
    client_credentials,
)
from eagerflow.cluster.processes.listening import Doors, doors_in, file_name
from eagerflow.cluster.processes.server import STOP
from eagerflow.cluster.protocol.timeouts import END_SECONDS, START_SECONDS
from eagerflow.errors import TaskLost
from eagerflow.hardware.kernel_library import in_force

#: bytes of a log that are shown, the last ones
_LOG: Final = 10 << 20
#: the address of processes that only this host is to reach
_HERE: Final = "tcp://127.0.0.1:0"


class Provisioner(Protocol):
    """Interface of provisioners, which start and end the processes of a cluster.

    Attributes:
        credentials: the credentials of the client; None where there are no keys.
        folder: the directory of the sockets; None for ports.
        restarts: whether tasks that die are restarted.
    """

    credentials: Credentials | None
    folder: Path | None
    restarts: bool

    def door(self, client: str) -> str:
        """The address at which a client listens."""

    def start(self, tasks: Sequence[str]) -> dict[str, Doors]:
        """Start tasks, and wait until they listen.

        Raises:
            TaskLost: a task does not come up.
        """

    def end(self, task: str) -> None:
        """End a task, and wait until it has ended."""

    def pid(self, task: str) -> int | None:
        """The process id of a task; None if it is not known, as of another host."""

    def log(self, task: str) -> str:
        """The output of a task's process, at most the last 10 MB."""

    def close(self) -> None:
        """End all tasks, and remove all files."""


@final
class LocalProvisioner:
    """Provisioner of child processes on this host, which end with this process.

    Args:
        transport: ``"ipc"``, ``"tcp"`` or ``"plain tcp"``.
        options: more options of ``eagerflow serve``.
    """

    restarts = False

    def __init__(self, transport: str, options: Sequence[str] = ()) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="eagerflow-"))
        self._transport = transport
        self._options = list(options)
        self._processes: dict[str, TaskProcess] = {}
        self.folder = self._folder if transport == "ipc" else None
        self.credentials: Credentials | None = None
        self._keys: KeyFolder | None = None
        if transport == "tcp":
            self._keys = KeyFolder(self._folder / "keys")
            path = self._keys.add_client("notebook")
            keys = client_credentials(path)[0].keys
            self.credentials = Credentials(keys, AllowedKeys(AllowList()))

    def door(self, client: str) -> str:
        return doors_in(self._folder, client).task if self.folder is not None else _HERE

    def start(self, tasks: Sequence[str]) -> dict[str, Doors]:
        for task in tasks:
            self._processes[task] = TaskProcess(task, self._folder, self._command(task))
        until = monotonic() + START_SECONDS
        return {task: self._processes[task].wait_until_ready(until) for task in tasks}

    def _command(self, task: str) -> list[str]:
        if self._transport == "ipc":
            return [*self._options, "--folder", str(self._folder)]
        if self._keys is None:
            return [*self._options, "--listen", _HERE, "--plain-tcp"]
        doors = self._keys.add_task(task, _HERE)
        assert self.credentials is not None
        self.credentials.allowed.add_task(task, doors)
        return [*self._options, "--listen", _HERE, "--keys", str(self._keys.path)]

    def end(self, task: str) -> None:
        process = self._processes.pop(task, None)
        if process is not None:
            process.end()

    def pid(self, task: str) -> int | None:
        process = self._processes.get(task)
        return None if process is None else process.pid

    def log(self, task: str) -> str:
        return read_log(log_of(self._folder, task))

    def close(self) -> None:
        for process in self._processes.values():
            process.ask_to_end()
        for process in self._processes.values():
            process.end()
        self._processes.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


def log_of(folder: Path, task: str) -> Path:
    """The log file of a task's process."""
    return folder / f"{file_name(task)}.log"


def read_log(path: Path) -> str:
    """The last 10 MB of a log."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOG))
        return file.read().decode(errors="replace")


@final
class TaskProcess:
    """A task server as a child process, which ends with this process.

    Args:
        task: its name.
        folder: the directory of its log.
        options: its doors and permissions, as options of ``eagerflow serve``.
    """

    def __init__(self, task: str, folder: Path, options: Sequence[str]) -> None:
        self.task = task
        command = [
            sys.executable, "-m", "eagerflow", "serve", "--task", task, *options,
            "--kernels", in_force(), "--with-parent", str(folder),
        ]  # fmt: skip
        with log_of(folder, task).open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True, bufsize=0,
            )  # fmt: skip
        self._log = log_of(folder, task)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, until: float) -> Doors:
        """Wait until the server listens; gives its doors.

        Raises:
            TaskLost: the server has not come up.
        """
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - monotonic()))
        told = self._process.stdout.readline().decode().split() if ready else []
        if not told:
            self.end()
            raise TaskLost(
                f"{self.task} has not come up",
                given=f"its process ended with {self._process.returncode}",
                hint=f"it says: {self._log.read_text(errors='replace')[-2000:]}",
            )
        return Doors(*told[1:])

    def ask_to_end(self) -> None:
        """Ask the process to end; `end` waits for that."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.write(STOP)
            self._process.stdin.close()

    def end(self) -> None:
        """End the process, and wait for its end; a process that takes too long is killed."""
        assert self._process.stdout is not None
        self.ask_to_end()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
