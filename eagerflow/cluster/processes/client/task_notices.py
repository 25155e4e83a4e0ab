"""Notices about tasks, which the thread of the sockets hears, and the user's thread tells."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from eagerflow.errors import ClusterWarning
from eagerflow.source import warn

#: number of calls at tasks, the latest, whose output is kept until it is shown
_PRINTED: Final = 100


@final
class TaskNotices:
    """What the user is to be told about tasks.

    Args:
        health: gives the state of the connection to a task.

    Attributes:
        warnings: warnings to be issued.
        suspects: tasks that did not answer.
        printed: output of tasks, to be shown: task, lines, number of lines left out, and whether it
            is the task's own.
    """

    def __init__(self, health: Callable[[str], str]) -> None:
        self._health = health
        self.warnings: Final[deque[str]] = deque()
        self.suspects: Final[set[str]] = set()
        self.printed: Final[deque[tuple[Any, ...]]] = deque(maxlen=_PRINTED)

    def warn(self) -> None:
        """Issue in the user's thread the warnings that the other thread has gathered."""
        self.show_lines()
        while self.warnings:
            warn(self.warnings.popleft(), ClusterWarning)
        while self.suspects:
            task = self.suspects.pop()
            if self._health(task) == "suspect":
                text = f"{task} does not answer: its process is stopped, or cut off"
                warn(f"{text}; it is lost if it stays silent", ClusterWarning)

    def show_lines(self) -> None:
        """Write the output of tasks: of functions to stdout, of the tasks themselves to stderr."""
        while self.printed:
            task, lines, left_out, own = self.printed.popleft()
            left = [f"… {left_out} more lines are in its log"] * bool(left_out)
            stream = sys.stderr if own else sys.stdout
            stream.write("".join(f"[{task}] {line}\n" for line in (*lines, *left)))

    def say(self, task: str, text: str) -> None:
        """Show a line about a task, among the task's own lines."""
        self.printed.append((task, (text,), 0, True))
