"""Tasks that this process connects to, and neither starts nor ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

from eagerflow.cluster.processes.keys import Credentials
from eagerflow.cluster.processes.listening import Doors, doors_in, own_address
from eagerflow.errors import ResourceError


@final
class ExistingTasks:
    """Provisioner of tasks that are started and ended elsewhere.

    Args:
        doors: the doors of the tasks.
        folder: the directory of their sockets; None for ports.
        credentials: the credentials of this client.
        listen: the address at which the client listens, if the tasks are on ports.
    """

    def __init__(
        self, doors: Mapping[str, Doors], folder: Path | None = None,
        credentials: Credentials | None = None, listen: str | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.credentials = credentials
        self._doors = doors
        self._listen = listen

    restarts = False

    def door(self, client: str) -> str:
        if self.folder is not None:
            return doors_in(self.folder, client).task
        return self._listen or own_address(next(iter(self._doors.values())))

    def start(self, tasks: Sequence[str]) -> dict[str, Doors]:
        return {task: self._doors[task] for task in tasks}

    def end(self, task: str) -> None:
        """Nothing: the task runs on."""

    def pid(self, task: str) -> None:
        """None: the number is not known."""

    def log(self, task: str) -> str:
        raise ResourceError("the tasks of this cluster were not started here")

    def close(self) -> None:
        """Nothing: the tasks run on."""
