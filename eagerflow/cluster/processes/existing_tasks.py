"""Tasks that this process only connects to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

from eagerflow.cluster.processes.keys import Credentials
from eagerflow.cluster.processes.listening import Doors, doors_in, own_address
from eagerflow.errors import ResourceError


@final
class ExistingTasks:
    """Tasks that somebody else starts and ends.

    Args:
        doors: where they listen.
        folder: the directory of their sockets; None of ports.
        credentials: of this client.
        listen: where it listens itself, if they are on ports.
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
        """It goes on."""

    def pid(self, task: str) -> None:
        """Not known."""

    def log(self, task: str) -> str:
        raise ResourceError("the tasks of this cluster were not started here")

    def close(self) -> None:
        """They go on."""
