"""A task server as a process of this one."""

from __future__ import annotations

import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, final

from eagerflow.cluster.processes.server import STOP
from eagerflow.errors import TaskLost

#: seconds in which a process ends by itself before it is killed
_END: Final = 1.0


def log_of(folder: Path, task: str) -> Path:
    """Where the process of a task writes what it tells."""
    return folder / f"{task.replace(':', '-')}.log"


@final
class TaskProcess:
    """A task server as a process of this one, with which it ends.

    Args:
        task: its name.
        folder: where it listens.
    """

    def __init__(self, task: str, folder: Path) -> None:
        self.task = task
        command = [
            sys.executable, "-m", "eagerflow", "serve", "--task", task, "--folder", str(folder),
            "--with-parent",
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

    def wait_until_ready(self, until: float) -> None:
        """Wait until it listens.

        Raises:
            TaskLost: it does not.
        """
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - monotonic()))
        if not ready or not self._process.stdout.readline():
            self.end()
            raise TaskLost(
                f"{self.task} has not come up",
                given=f"its process ended with {self._process.returncode}",
                hint=f"it says: {self._log.read_text(errors='replace')[-2000:]}",
            )

    def ask_to_end(self) -> None:
        """Let it end; `end` waits for that."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.write(STOP)
            self._process.stdin.close()

    def end(self) -> None:
        """End it, and wait until it has ended."""
        assert self._process.stdout is not None
        self.ask_to_end()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
